// The store has a file for each session. The ID of the session is its name:
//
//   0         8        12        16             32         40
//   +---------+--------+---------+--------------+----------+ - - +
//   | "pnstrp1"| slots | octets  |  session ID  | checksum |     |   the head, a page
//   +---------+--------+---------+--------------+----------+ - - +
//   |  ReplyRecord, or zeros                                     |   for each slot, `octets` long
//   +- - - - - - - - - - - - - - - - - - - - - - - - - - - - - - +
//
// The whole file is allocated when the session is created, so later writes change only data.
#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <utility>

#include "base/data.h"
#include "base/file_io.h"
#include "base/mix.h"
#include "base/result.h"
#include "base/state_directory.h"
#include "base/texts.h"
#include "nfs/v4/state/stable/reply_record.h"
#include "nfs/v4/state/stable/reply_store.h"
#include "nfs/v4/state/stable/session_files.h"
#include "nfs/v4/state/stable/shared_sync.h"

namespace penstock::nfs::v4 {
namespace {

namespace stdfs = std::filesystem;

constexpr size_t kHead = 40;
constexpr size_t kHeadPage = 4096;
constexpr uint64_t kReplyMagic = 0x706e'7374'7270'3100;  // "pnstrp1"

struct Head {
  SessionId id{};
  uint32_t slots = 0;
  uint32_t octets = 0;  // the size of a slot

  uint64_t OffsetOf(uint32_t slot) const { return kHeadPage + uint64_t{octets} * slot; }

  std::array<std::byte, kHead> Serialize() const {
    std::array<std::byte, kHead> head{};
    StoreBig(head.data(), kReplyMagic);
    StoreBig(head.data() + 8, slots);
    StoreBig(head.data() + 12, octets);
    CopyBytes(Bytes(head).subspan(16), id);
    StoreBig(head.data() + 32, Mix(0, ConstBytes(head).first(32)));
    return head;
  }
  // Returns the kind of a head. Fills `parsed` if the head is whole.
  static SessionFiles::Kind Parse(ConstBytes head, Head& parsed) {
    using Kind = SessionFiles::Kind;
    const bool is_sound = LoadBig<uint64_t>(head.data() + 32) == Mix(0, head.first(32));
    const Kind kind = SessionFiles::KindOf(head, LoadBig<uint64_t>(head.data()), kReplyMagic, is_sound);
    if (kind != Kind::kWhole) return kind;
    parsed = {.slots = LoadBig<uint32_t>(head.data() + 8), .octets = LoadBig<uint32_t>(head.data() + 12)};
    CopyBytes(parsed.id, head.subspan(16, parsed.id.size()));
    if (parsed.slots > ReplyRecord::kMostSlots || parsed.octets > ReplyRecord::kMostOctets) return Kind::kDamaged;
    return Kind::kWhole;
  }
};

class SessionFile : public SessionReplies {
 public:
  SessionFile(stdfs::path path, FileDescriptor fd, const Head& head)
      : path_(std::move(path)), fd_(std::move(fd)), head_(head) {}

  bool Keep(SlotId slot, const KeptReply& reply, bool lasting) override {
    const std::vector<std::byte> record = ReplyRecord::Serialize(reply);
    assert(slot.value() < head_.slots && record.size() <= head_.octets);
    return !sync_.failed() && WriteAllAt(fd_.get(), record, head_.OffsetOf(slot.value())) && (!lasting || sync_.Run());
  }
  void Remove() override { ::unlink(path_.c_str()); }

 private:
  const stdfs::path path_;
  const FileDescriptor fd_;
  const Head head_;
  SharedSync sync_{[this] { return ::fdatasync(fd_.get()) == 0; }};
};

// Returns the reply in a slot; no reply if the slot has none, or if it was written only in part. Returns an errno value
// if the file cannot be read.
Result<std::optional<KeptReply>, int> LoadSlot(int fd, const Head& head, uint32_t slot, BufferPool& pool) {
  std::array<std::byte, ReplyRecord::kHeader> header;
  const auto begun = ReadUpTo(fd, header, head.OffsetOf(slot));
  if (!begun) return std::unexpected(begun.error());
  if (*begun < header.size()) return std::nullopt;
  const auto size = ReplyRecord::SizeOf(header);
  if (!size || *size > head.octets) return std::nullopt;
  std::vector<std::byte> record(*size);
  const auto read = ReadUpTo(fd, record, head.OffsetOf(slot));
  if (!read) return std::unexpected(read.error());
  if (*read < record.size()) return std::nullopt;
  return ReplyRecord::Parse(record, pool);
}

// Loads the session of a file. Returns nothing if the creation of the file was interrupted; then no client knows of the
// session.
SetupResult<std::optional<SavedSession>> LoadSession(const stdfs::path& path, BufferPool& pool) {
  using Kind = SessionFiles::Kind;
  if (!SessionFiles::HasNameOfSession(path, sizeof(SessionId))) return SessionFiles::Refusal(path, Kind::kForeign);
  const FileDescriptor fd(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK));
  std::array<std::byte, kHead> octets;
  if (!fd) return std::unexpected(StateFileError("read", path, errno));
  const auto read = ReadUpTo(fd.get(), octets, 0);
  if (!read) return std::unexpected(StateFileError("read", path, read.error()));
  if (*read < octets.size()) return std::nullopt;
  Head head;
  const Kind kind = Head::Parse(octets, head);
  if (kind == Kind::kUnfinished) return std::nullopt;
  if (kind != Kind::kWhole) return SessionFiles::Refusal(path, kind);
  if (Hexadecimal(head.id) != path.filename()) return SessionFiles::Damaged(path, "under the name of another session");
  SavedSession saved{.id = head.id, .slots = {}, .storage = nullptr};
  for (uint32_t i = 0; i < head.slots; ++i) {
    auto reply = LoadSlot(fd.get(), head, i, pool);
    if (!reply) return std::unexpected(StateFileError("read", path, reply.error()));
    saved.slots.push_back(*std::move(reply));
  }
  // The storage of a dead session only removes the file, so it needs no descriptor.
  saved.storage = std::make_shared<SessionFile>(path, FileDescriptor(-1), head);
  return saved;
}

class FileReplyStore : public ReplyStore {
 public:
  explicit FileReplyStore(std::unique_ptr<SessionFiles> files) : files_(std::move(files)) {}

  // Loads the sessions of earlier runs.
  SetupResult<void> Find() {
    BufferPool pool;
    return files_->ForEach([&](const stdfs::path& path) -> SetupResult<bool> {
      PENSTOCK_TRY(std::optional<SavedSession> session, LoadSession(path, pool));
      if (!session) return false;
      saved_.push_back(*std::move(session));
      return true;
    });
  }

  std::vector<SavedSession> Load() override { return std::exchange(saved_, {}); }

  std::shared_ptr<SessionReplies> Create(const SessionId& session, const ReplyRoom& room) override {
    const Head head{
        .id = session, .slots = room.slots, .octets = static_cast<uint32_t>(RoundUp(ReplyRecord::MaxSize(room), 512))};
    auto [path, fd] = files_->Create(Hexadecimal(session), head.Serialize(), head.OffsetOf(head.slots));
    return fd ? std::make_shared<SessionFile>(path, std::move(fd), head) : nullptr;
  }

 private:
  const std::unique_ptr<SessionFiles> files_;
  std::vector<SavedSession> saved_;  // until Load() takes it
};

}  // namespace

SetupResult<std::unique_ptr<ReplyStore>> OpenReplyStore(const std::string& directory) {
  PENSTOCK_TRY(auto files, SessionFiles::Open(directory));
  auto store = std::make_unique<FileReplyStore>(std::move(files));
  PENSTOCK_CHECK(store->Find());
  return store;
}

}  // namespace penstock::nfs::v4
