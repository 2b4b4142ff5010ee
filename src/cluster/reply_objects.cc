#include "cluster/reply_objects.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cassert>
#include <cerrno>
#include <optional>
#include <string>
#include <utility>

#include "base/bytes.h"
#include "base/log.h"
#include "base/texts.h"
#include "fs/errno.h"
#include "nfs/v4/state/stable/reply_record.h"

namespace penstock::cluster {
namespace {

using nfs::v4::KeptReply;
using nfs::v4::ReplyRecord;
using nfs::v4::SavedSession;
using nfs::v4::SessionId;
using nfs::v4::SlotId;

constexpr uint64_t kMagic = 0x706e'7372'6570'3100;  // "pnsrep1"
constexpr std::string_view kRepliesPrefix = "replies-";
constexpr size_t kHead = 16;

struct Head {
  uint32_t slots = 0;
  uint32_t octets = 0;  // the size of a slot

  uint64_t OffsetOf(uint32_t slot) const { return kHead + uint64_t{octets} * slot; }
  std::string Serialize() const {
    std::string text(kHead, '\0');
    auto* const head = reinterpret_cast<std::byte*>(text.data());
    StoreBig(head, kMagic);
    StoreBig(head + 8, slots);
    StoreBig(head + 12, octets);
    return text;
  }
  static std::optional<Head> Parse(ConstBytes octets) {
    if (octets.size() < kHead || LoadBig<uint64_t>(octets.data()) != kMagic) return std::nullopt;
    const Head head{.slots = LoadBig<uint32_t>(octets.data() + 8), .octets = LoadBig<uint32_t>(octets.data() + 12)};
    if (head.slots > ReplyRecord::kMostSlots || head.octets > ReplyRecord::kMostOctets) return std::nullopt;
    return head;
  }
};

class SessionObject final : public nfs::v4::SessionReplies {
 public:
  SessionObject(std::shared_ptr<objects::Store> store, std::string name, const Head& head)
      : store_(std::move(store)), name_(std::move(name)), head_(head) {}

  // The store has no other writes than lasting ones.
  bool Keep(SlotId slot, const KeptReply& reply, bool /*lasting*/) override {
    const std::vector<std::byte> record = ReplyRecord::Serialize(reply);
    assert(slot.value() < head_.slots && record.size() <= head_.octets);
    return store_->WriteAt(name_, head_.OffsetOf(slot.value()), record) == 0;
  }
  void Remove() override { store_->Remove(name_); }

 private:
  const std::shared_ptr<objects::Store> store_;
  const std::string name_;
  const Head head_;
};

std::optional<KeptReply> ReplyIn(ConstBytes slot, BufferPool& pool) {
  if (slot.size() < ReplyRecord::kHeader) return std::nullopt;
  const auto size = ReplyRecord::SizeOf(slot.first(ReplyRecord::kHeader));
  if (!size || *size > slot.size()) return std::nullopt;
  return ReplyRecord::Parse(slot.first(*size), pool);
}

class ObjectReplyStore final : public nfs::v4::ReplyStore {
 public:
  ObjectReplyStore(std::shared_ptr<objects::Store> store, uint32_t instance)
      : store_(std::move(store)), instance_(instance) {}

  SetupResult<void> Find(const std::vector<uint32_t>& ended) {
    std::vector<std::string> names;
    if (ended.empty()) return {};
    if (const int code = store_->ListNames(kRepliesPrefix, names); code < 0) {
      return std::unexpected(SetupError{Text(kRepliesPrefix, DescribeErrno(-code)), -code});
    }
    BufferPool pool;
    for (const uint32_t run : ended) {
      const std::string prefix = PrefixOf(run);
      for (const std::string& name : names) {
        if (!name.starts_with(prefix)) continue;
        objects::Store::Object object;
        const int code = store_->Read(name, object);
        if (code == -ENOENT) continue;
        if (code < 0) return std::unexpected(SetupError{Text(name, DescribeErrno(-code)), -code});
        std::optional<SavedSession> saved =
            Parse(name, std::string_view(name).substr(prefix.size()), object.content, pool);
        // Its client gets NFS4ERR_BADSESSION.
        if (!saved) log::error("{}", Text(name, "it is damaged; the replies of its session are lost"));
        if (saved) saved_.push_back(*std::move(saved));
      }
    }
    return {};
  }

  std::vector<SavedSession> Load() override { return std::exchange(saved_, {}); }

  std::shared_ptr<nfs::v4::SessionReplies> Create(const SessionId& session, const nfs::v4::ReplyRoom& room) override {
    const Head head{.slots = room.slots, .octets = static_cast<uint32_t>(ReplyRecord::MaxSize(room))};
    std::string name = PrefixOf(instance_) + Hexadecimal(session);
    const int code = store_->Replace(name, 0, head.Serialize());
    if (code == 0) {
      is_failing_ = false;
      return std::make_shared<SessionObject>(store_, std::move(name), head);
    }
    if (!is_failing_.exchange(true)) {
      log::warn("{}; until then NFSv4 sessions are not persistent", Text(name, DescribeErrno(-code)));
    }
    return nullptr;
  }

 private:
  static std::string PrefixOf(uint32_t run) { return fmt::format("{}{}-", kRepliesPrefix, run); }
  static std::string Text(std::string_view name, std::string_view what) {
    return fmt::format("the object {} of the cluster: {}", name, what);
  }
  std::optional<SavedSession> Parse(const std::string& name, std::string_view digits, std::string_view content,
                                    BufferPool& pool) const {
    const ConstBytes octets = AsBytes(content);
    const std::optional<Head> head = Head::Parse(octets);
    SessionId id{};
    if (!head || !FromHexadecimal(digits, id)) return std::nullopt;
    SavedSession saved{.id = id, .slots = {}, .storage = std::make_shared<SessionObject>(store_, name, *head)};
    for (uint32_t i = 0; i < head->slots; ++i) {
      const size_t begin = std::min<size_t>(head->OffsetOf(i), octets.size());
      const size_t end = std::min<size_t>(head->OffsetOf(i + 1), octets.size());
      saved.slots.push_back(ReplyIn(octets.subspan(begin, end - begin), pool));
    }
    return saved;
  }

  const std::shared_ptr<objects::Store> store_;
  const uint32_t instance_;
  std::vector<SavedSession> saved_;  // until Load() takes it
  std::atomic<bool> is_failing_ = false;
};

}  // namespace

SetupResult<std::unique_ptr<nfs::v4::ReplyStore>> OpenReplyObjects(std::shared_ptr<objects::Store> store,
                                                                   uint32_t instance,
                                                                   const std::vector<uint32_t>& ended) {
  auto opened = std::make_unique<ObjectReplyStore>(std::move(store), instance);
  PENSTOCK_CHECK(opened->Find(ended));
  return opened;
}

}  // namespace penstock::cluster
