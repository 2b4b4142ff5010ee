// A file for each session, named after its ID:
//
//   0         8        12        16             32         40
//   +---------+--------+---------+--------------+----------+ - - +
//   | "pnstrp1"| slots | octets  |  session ID  | checksum |     |   the head, a page
//   +---------+--------+---------+--------------+----------+ - - +
//   |  ReplyRecord, or zeros                                     |   for each slot, `octets` long
//   +- - - - - - - - - - - - - - - - - - - - - - - - - - - - - - +
//
// All of it is allocated when the session is made: later writes change nothing but data.
#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>

#include "base/data.h"
#include "base/log.h"
#include "base/result.h"
#include "nfs/v4/state/mix.h"
#include "nfs/v4/state/reply_record.h"
#include "nfs/v4/state/reply_store.h"

namespace penstock::nfs::v4 {
namespace {

namespace stdfs = std::filesystem;

constexpr size_t kHead = 40;
constexpr size_t kHeadPage = 4096;
constexpr uint64_t kMagic = 0x706e'7374'7270'3100;  // "pnstrp1"
// What no session of ours can have.
constexpr uint32_t kMaxSlots = 64 << 10;
constexpr uint32_t kMaxSlotOctets = 16 << 20;

std::string NameOf(const SessionId& id) {
  std::string name;
  for (const std::byte octet : id) name += fmt::format("{:02x}", static_cast<unsigned>(octet));
  return name;
}

bool WriteAt(int fd, ConstBytes octets, uint64_t offset) {
  while (!octets.empty()) {
    const ssize_t written = ::pwrite(fd, octets.data(), octets.size(), static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    octets = octets.subspan(static_cast<size_t>(written));
    offset += static_cast<size_t>(written);
  }
  return true;
}

bool ReadAt(int fd, Bytes octets, uint64_t offset) {
  while (!octets.empty()) {
    const ssize_t read = ::pread(fd, octets.data(), octets.size(), static_cast<off_t>(offset));
    if (read < 0 && errno == EINTR) continue;
    if (read <= 0) return false;
    octets = octets.subspan(static_cast<size_t>(read));
    offset += static_cast<size_t>(read);
  }
  return true;
}

struct Head {
  SessionId id{};
  uint32_t slots = 0;
  uint32_t octets = 0;  // of a slot

  uint64_t OffsetOf(uint32_t slot) const { return kHeadPage + uint64_t{octets} * slot; }

  std::array<std::byte, kHead> Serialize() const {
    std::array<std::byte, kHead> head{};
    StoreBig(head.data(), kMagic);
    StoreBig(head.data() + 8, slots);
    StoreBig(head.data() + 12, octets);
    CopyBytes(Bytes(head).subspan(16), id);
    StoreBig(head.data() + 32, Mix(0, ConstBytes(head).first(32)));
    return head;
  }
  static std::optional<Head> Parse(ConstBytes head) {
    if (LoadBig<uint64_t>(head.data()) != kMagic) return std::nullopt;
    if (LoadBig<uint64_t>(head.data() + 32) != Mix(0, head.first(32))) return std::nullopt;
    Head parsed{.slots = LoadBig<uint32_t>(head.data() + 8), .octets = LoadBig<uint32_t>(head.data() + 12)};
    CopyBytes(parsed.id, head.subspan(16, parsed.id.size()));
    if (parsed.slots > kMaxSlots || parsed.octets > kMaxSlotOctets) return std::nullopt;
    return parsed;
  }
};

class SessionFile : public SessionReplies {
 public:
  SessionFile(stdfs::path path, FileDescriptor fd, const Head& head)
      : path_(std::move(path)), fd_(std::move(fd)), head_(head) {}

  bool Keep(SlotId slot, const KeptReply& reply, bool lasting) override {
    const std::vector<std::byte> record = ReplyRecord::Serialize(reply);
    assert(slot.value() < head_.slots && record.size() <= head_.octets);
    return WriteAt(fd_.get(), record, head_.OffsetOf(slot.value())) && (!lasting || ::fdatasync(fd_.get()) == 0);
  }
  void Remove() override { ::unlink(path_.c_str()); }

 private:
  const stdfs::path path_;
  const FileDescriptor fd_;
  const Head head_;
};

std::optional<KeptReply> LoadSlot(int fd, const Head& head, uint32_t slot, BufferPool& pool) {
  std::array<std::byte, ReplyRecord::kHeader> header;
  if (!ReadAt(fd, header, head.OffsetOf(slot))) return std::nullopt;
  const auto size = ReplyRecord::SizeOf(header);
  if (!size || *size > head.octets) return std::nullopt;
  std::vector<std::byte> record(*size);
  if (!ReadAt(fd, record, head.OffsetOf(slot))) return std::nullopt;
  return ReplyRecord::Parse(record, pool);
}

std::optional<SavedSession> LoadSession(const stdfs::path& path, BufferPool& pool) {
  FileDescriptor fd(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  std::array<std::byte, kHead> octets;
  if (!fd || !ReadAt(fd.get(), octets, 0)) return std::nullopt;
  const auto head = Head::Parse(octets);
  if (!head || NameOf(head->id) != path.filename()) return std::nullopt;
  SavedSession saved{.id = head->id, .slots = {}, .storage = nullptr};
  for (uint32_t i = 0; i < head->slots; ++i) saved.slots.push_back(LoadSlot(fd.get(), *head, i, pool));
  // Nothing is written to it any more.
  saved.storage = std::make_shared<SessionFile>(path, FileDescriptor(-1), *head);
  return saved;
}

class FileReplyStore : public ReplyStore {
 public:
  FileReplyStore(stdfs::path directory, FileDescriptor fd) : directory_(std::move(directory)), fd_(std::move(fd)) {}

  std::vector<SavedSession> Load() override {
    BufferPool pool;
    std::vector<SavedSession> saved;
    std::error_code error;
    std::vector<stdfs::path> rubbish;
    for (const auto& entry : stdfs::directory_iterator(directory_, error)) {
      if (auto session = LoadSession(entry.path(), pool)) {
        saved.push_back(*std::move(session));
      } else {
        rubbish.push_back(entry.path());
      }
    }
    // One whose making was not ended, so that nobody was told of it.
    for (const stdfs::path& path : rubbish) ::unlink(path.c_str());
    return saved;
  }

  std::shared_ptr<SessionReplies> Create(const SessionId& session, const ReplyRoom& room) override {
    const Head head{
        .id = session, .slots = room.slots, .octets = static_cast<uint32_t>(RoundUp(ReplyRecord::MaxSize(room), 512))};
    const stdfs::path path = directory_ / NameOf(session);
    FileDescriptor fd(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (!fd || !Prepare(fd.get(), head)) {
      log::warn("cannot keep the replies of a session in {}: {}", directory_.string(), DescribeErrno(errno));
      if (fd) ::unlink(path.c_str());
      return nullptr;
    }
    return std::make_shared<SessionFile>(path, std::move(fd), head);
  }

 private:
  // The head, the room, and the name are on stable storage.
  bool Prepare(int fd, const Head& head) const {
    if (const int error = ::posix_fallocate(fd, 0, static_cast<off_t>(head.OffsetOf(head.slots)))) {
      errno = error;
      return false;
    }
    return WriteAt(fd, head.Serialize(), 0) && ::fsync(fd) == 0 && ::fsync(fd_.get()) == 0;
  }

  const stdfs::path directory_;
  const FileDescriptor fd_;
};

}  // namespace

SetupResult<std::unique_ptr<ReplyStore>> OpenReplyStore(const std::string& directory) {
  const bool made = ::mkdir(directory.c_str(), 0700) == 0;
  FileDescriptor fd(made || errno == EEXIST ? ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1);
  if (!fd) return std::unexpected(SetupError{fmt::format("cannot use {}: {}", directory, DescribeErrno(errno))});
  return std::make_unique<FileReplyStore>(directory, std::move(fd));
}

}  // namespace penstock::nfs::v4
