// The store has a file for each session. The ID of the session is its name:
//
//   +------------------------------------------------------------+
//   |  the session and its client                                |   the head, a page
//   +------------------------------------------------------------+
//   |  the ends of the channel numbers and streamids, twice      |   a page
//   +------------------------------------------------------------+
//   |  the name of the last request that was begun               |   for each streamid, 512 octets
//   |  the last request with its results                         |   and `octets`
//   +------------------------------------------------------------+
//
// Each part has a checksum, so a part that was written only in part is recognized. A name that is incomplete belongs to
// a request that was not executed, so the last request with its results counts. Otherwise the results count only if
// they are those of the request that was begun last.
#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cerrno>
#include <filesystem>
#include <mutex>
#include <utility>

#include "base/data.h"
#include "base/file_io.h"
#include "base/mix.h"
#include "base/result.h"
#include "base/state_directory.h"
#include "nfs/v4/state/stable/session_files.h"
#include "nfs/v4/state/stable/shared_sync.h"
#include "nfs/v4/state/stable/stream_store.h"
#include "xdr/flatten.h"

namespace penstock::nfs::v4 {
namespace {

using sess01::ChannelId;
using sess01::StreamId;

namespace stdfs = std::filesystem;

constexpr size_t kPage = 4096;
constexpr size_t kSector = 512;
constexpr size_t kFixedHead = 64;                         // the head without the names of the client
constexpr size_t kBlock = 16;                             // the ends of the channel numbers and streamids
constexpr size_t kName = 24;                              // a request without its results
constexpr size_t kRecordHead = 32;                        // a request, before its results
constexpr uint64_t kStreamMagic = 0x706e'7374'7374'3100;  // "pnstst1"
// No session of this server exceeds these limits, so a larger value means that the file is damaged.
constexpr uint32_t kMaxStreams = 64 << 10;
constexpr uint32_t kMaxOctets = 16 << 20;

std::string NameOf(uint64_t id) { return fmt::format("{:016x}", id); }

// The checksum stands at the beginning of the part that it protects.
void Seal(Bytes part) { StoreBig(part.data(), Mix(part.size(), ConstBytes(part).subspan(8))); }
bool IsSealed(ConstBytes part) { return LoadBig<uint64_t>(part.data()) == Mix(part.size(), part.subspan(8)); }
uint32_t NumberAt(ConstBytes octets, size_t offset) { return LoadBig<uint32_t>(octets.data() + offset); }

// The places in a file.
struct Layout {
  uint32_t streams = 0;
  uint32_t octets = 0;  // the size of a request with its results

  static Layout For(const BoundSessionRecord& session) {
    return {.streams = session.streams, .octets = static_cast<uint32_t>(RoundUp(kRecordHead + session.reply, kSector))};
  }
  static uint64_t BlockAt(size_t which) { return kPage + which * kSector; }
  uint64_t NameAt(uint32_t stream) const { return 2 * kPage + uint64_t{stream} * (kSector + octets); }
  uint64_t RecordAt(uint32_t stream) const { return NameAt(stream) + kSector; }
  uint64_t size() const { return NameAt(streams); }
};

// ---- the head ----

bool Fits(const BoundSessionRecord& session) {
  return kFixedHead + session.owner.size() + session.principal.name.size() <= kPage;
}

std::vector<std::byte> SerializeHead(const BoundSessionRecord& session) {
  std::vector<std::byte> head(kPage);
  StoreBig(head.data() + 8, kStreamMagic);
  StoreBig(head.data() + 16, session.id);
  StoreBig(head.data() + 24, session.created);
  CopyBytes(Bytes(head).subspan(32), session.verifier);
  StoreBig(head.data() + 40, session.streams);
  StoreBig(head.data() + 44, session.reply);
  StoreBig(head.data() + 48, static_cast<uint32_t>(session.principal.flavor));
  StoreBig(head.data() + 52, session.principal.uid);
  StoreBig(head.data() + 56, static_cast<uint32_t>(session.owner.size()));
  StoreBig(head.data() + 60, static_cast<uint32_t>(session.principal.name.size()));
  CopyBytes(Bytes(head).subspan(kFixedHead), AsBytes(session.owner));
  CopyBytes(Bytes(head).subspan(kFixedHead + session.owner.size()), AsBytes(session.principal.name));
  Seal(head);
  return head;
}

// Returns the kind of a head. Fills `session` if the head is whole.
SessionFiles::Kind ParseHead(ConstBytes head, BoundSessionRecord& session) {
  using Kind = SessionFiles::Kind;
  const Kind kind = SessionFiles::KindOf(head, LoadBig<uint64_t>(head.data() + 8), kStreamMagic, IsSealed(head));
  if (kind != Kind::kWhole) return kind;
  const uint32_t owner = NumberAt(head, 56), name = NumberAt(head, 60);
  if (owner > kPage || name > kPage || kFixedHead + owner + name > kPage) return Kind::kDamaged;
  session = {.id = LoadBig<uint64_t>(head.data() + 16),
             .created = LoadBig<uint64_t>(head.data() + 24),
             .owner = std::string(AsText(head.subspan(kFixedHead, owner))),
             .principal = {.flavor = static_cast<rpc::AuthFlavor>(NumberAt(head, 48)),
                           .uid = NumberAt(head, 52),
                           .name = std::string(AsText(head.subspan(kFixedHead + owner, name)))},
             .streams = NumberAt(head, 40),
             .reply = NumberAt(head, 44)};
  CopyBytes(Bytes(session.verifier), head.subspan(32, session.verifier.size()));
  const bool is_possible = session.streams > 0 && session.streams <= kMaxStreams && session.reply <= kMaxOctets;
  return is_possible ? Kind::kWhole : Kind::kDamaged;
}

// ---- the ends of the numbers ----
//
//   0                  8         12                  16
//   +------------------+---------+--------------------+
//   |     checksum     |   end   | streams | had_back |   31 bits and one
//   +------------------+---------+--------------------+

std::array<std::byte, kBlock> SerializeBlock(const ChannelBlock& channels) {
  std::array<std::byte, kBlock> block;
  StoreBig(block.data() + 8, channels.end.value());
  StoreBig(block.data() + 12, channels.streams << 1 | uint32_t{channels.had_back});
  Seal(block);
  return block;
}

ChannelBlock ParseBlock(ConstBytes block) {
  const uint32_t word = NumberAt(block, 12);
  return {.end = ChannelId(NumberAt(block, 8)), .had_back = (word & 1) != 0, .streams = word >> 1};
}

// Whether `a` was written after `b`: see ChannelBlock::Add().
bool IsLater(const ChannelBlock& a, const ChannelBlock& b) {
  if (a.end != b.end) return a.end > b.end;
  if (a.streams != b.streams) return b.streams == 0 || (a.streams != 0 && a.streams < b.streams);
  return a.had_back && !b.had_back;
}

// ---- requests ----

std::array<std::byte, kName> SerializeName(const StreamRecord& request) {
  std::array<std::byte, kName> name;
  StoreBig(name.data() + 8, request.channel.value());
  StoreBig(name.data() + 12, request.xid.value());
  StoreBig(name.data() + 16, request.digest);
  Seal(name);
  return name;
}

std::vector<std::byte> SerializeRecord(const StreamRecord& request) {
  BufferPool pool;
  const Slice results = xdr::Unreduce(pool, *request.results);
  std::vector<std::byte> record(kRecordHead + results.size());
  StoreBig(record.data() + 8, static_cast<uint32_t>(record.size()));
  StoreBig(record.data() + 12, request.channel.value());
  StoreBig(record.data() + 16, request.xid.value());
  StoreBig(record.data() + 24, request.digest);
  CopyBytes(Bytes(record).subspan(kRecordHead), results.bytes());
  Seal(record);
  return record;
}

bool IsSame(const StreamRecord& a, const StreamRecord& b) {
  return a.channel == b.channel && a.xid == b.xid && a.digest == b.digest;
}

class StreamFile : public StreamStorage {
 public:
  StreamFile(stdfs::path path, FileDescriptor fd, const Layout& layout)
      : path_(std::move(path)), fd_(std::move(fd)), layout_(layout) {}

  bool Begin(StreamId stream, const StreamRecord& request, bool lasting) override {
    assert(stream.value() < layout_.streams && !request.results);
    return Write(SerializeName(request), layout_.NameAt(stream.value()), lasting);
  }
  bool Keep(StreamId stream, const StreamRecord& request, bool lasting) override {
    const std::vector<std::byte> record = SerializeRecord(request);
    assert(stream.value() < layout_.streams && record.size() <= layout_.octets);
    return Write(record, layout_.RecordAt(stream.value()), lasting);
  }
  // Writes the two copies in turn, so that one is always whole.
  bool Reserve(const ChannelBlock& channels) override {
    const std::lock_guard lock(block_mutex_);
    block_.Add(channels);
    if (!Write(SerializeBlock(block_), Layout::BlockAt(next_block_), true)) return false;
    next_block_ ^= 1;
    return true;
  }
  bool Remove(bool lasting) override {
    if (::unlink(path_.c_str()) != 0 && errno != ENOENT) return false;
    return !lasting || SyncDirectory(path_.parent_path());
  }

  // The server has started again, and `which` is the copy that was written last.
  void RestoreBlock(size_t which, const ChannelBlock& channels) {
    next_block_ = which ^ 1;
    block_ = channels;
  }

 private:
  // Once the file could not be synchronized, nobody knows which octets of it are on the disk, so it keeps no more.
  bool Write(ConstBytes octets, uint64_t offset, bool lasting) {
    if (sync_.failed() || !WriteAllAt(fd_.get(), octets, offset)) return false;
    return !lasting || sync_.Run();
  }

  const stdfs::path path_;
  const FileDescriptor fd_;
  const Layout layout_;
  SharedSync sync_{[this] { return ::fdatasync(fd_.get()) == 0; }};
  std::mutex block_mutex_;
  size_t next_block_ = 0;
  ChannelBlock block_{};
};

// ---- the start of the server ----

// Reads a part of a file. A part beyond the end of the file is zero. Returns an errno value if the file cannot be read.
Result<void, int> ReadPart(int fd, Bytes part, uint64_t offset) {
  PENSTOCK_TRY(const size_t read, ReadUpTo(fd, part, offset));
  std::ranges::fill(part.subspan(read), std::byte{});
  return {};
}

Result<std::optional<StreamRecord>, int> LoadStream(int fd, const Layout& layout, uint32_t stream, BufferPool& pool) {
  std::array<std::byte, kName> name;
  PENSTOCK_CHECK(ReadPart(fd, name, layout.NameAt(stream)));
  std::optional<StreamRecord> begun;
  if (IsSealed(name)) {
    begun = StreamRecord{.channel = ChannelId(NumberAt(name, 8)),
                         .xid = rpc::Xid(NumberAt(name, 12)),
                         .digest = LoadBig<uint64_t>(name.data() + 16)};
  }
  std::array<std::byte, kRecordHead> head;
  PENSTOCK_CHECK(ReadPart(fd, head, layout.RecordAt(stream)));
  const size_t size = NumberAt(head, 8);
  if (size < kRecordHead || size > layout.octets) return begun;
  const BufferRef record = pool.Allocate(size);
  const Bytes octets = record->bytes().first(size);
  PENSTOCK_CHECK(ReadPart(fd, octets, layout.RecordAt(stream)));
  if (!IsSealed(octets)) return begun;
  StreamRecord kept{.channel = ChannelId(NumberAt(octets, 12)),
                    .xid = rpc::Xid(NumberAt(octets, 16)),
                    .digest = LoadBig<uint64_t>(octets.data() + 24)};
  if (begun && !IsSame(*begun, kept)) return begun;
  kept.results = xdr::Message::Whole(Slice(record, octets.subspan(kRecordHead)));
  return kept;
}

// Loads the session of a file. Returns nothing if the creation of the file was interrupted; then no client knows of the
// session.
SetupResult<std::optional<SavedBoundSession>> LoadBoundSession(const stdfs::path& path, BufferPool& pool) {
  using Kind = SessionFiles::Kind;
  const auto unreadable = [&](int error) { return std::unexpected(StateFileError("read", path, error)); };
  if (!SessionFiles::HasNameOfSession(path, sizeof(uint64_t))) return SessionFiles::Refusal(path, Kind::kForeign);
  FileDescriptor fd(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK));
  if (!fd) return unreadable(errno);
  std::vector<std::byte> head(kPage);
  if (const auto read = ReadPart(fd.get(), head, 0); !read) return unreadable(read.error());
  SavedBoundSession saved;
  size_t last_block = 1;
  for (const size_t which : {0, 1}) {
    std::array<std::byte, kBlock> block;
    if (const auto got = ReadPart(fd.get(), block, Layout::BlockAt(which)); !got) return unreadable(got.error());
    const ChannelBlock channels = ParseBlock(block);
    if (!IsSealed(block) || !IsLater(channels, saved.channels)) continue;
    saved.channels = channels;
    last_block = which;
  }
  const Kind kind = ParseHead(head, saved.session);
  // The head may have been written only in part. A session that was never bound has executed nothing.
  const bool was_bound = saved.channels.end.value() != 0;
  if (kind == Kind::kUnfinished || (kind == Kind::kDamaged && !was_bound)) return std::nullopt;
  if (kind != Kind::kWhole) return SessionFiles::Refusal(path, kind);
  if (NameOf(saved.session.id) != path.filename())
    return SessionFiles::Damaged(path, "under the name of another session");
  const Layout layout = Layout::For(saved.session);
  for (uint32_t stream = 0; stream < layout.streams; ++stream) {
    auto request = LoadStream(fd.get(), layout, stream, pool);
    if (!request) return unreadable(request.error());
    saved.streams.push_back(*std::move(request));
  }
  auto storage = std::make_shared<StreamFile>(path, std::move(fd), layout);
  storage->RestoreBlock(last_block, saved.channels);
  saved.storage = std::move(storage);
  return saved;
}

class FileStreamStore : public StreamStore {
 public:
  explicit FileStreamStore(std::unique_ptr<SessionFiles> files) : files_(std::move(files)) {}

  // Loads the sessions of earlier runs.
  SetupResult<void> Find() {
    return files_->ForEach([&](const stdfs::path& path) -> SetupResult<bool> {
      PENSTOCK_TRY(std::optional<SavedBoundSession> session, LoadBoundSession(path, pool_));
      if (!session) return false;
      saved_.push_back(*std::move(session));
      return true;
    });
  }

  std::vector<SavedBoundSession> Load() override { return std::exchange(saved_, {}); }

  bool HasRoomFor(const BoundSessionRecord& session) override {
    return Fits(session) && files_->HasRoom(Layout::For(session).size());
  }

  std::shared_ptr<StreamStorage> Create(const BoundSessionRecord& session) override {
    if (!Fits(session)) return nullptr;
    const Layout layout = Layout::For(session);
    auto [path, fd] = files_->Create(NameOf(session.id), SerializeHead(session), layout.size());
    return fd ? std::make_shared<StreamFile>(path, std::move(fd), layout) : nullptr;
  }

 private:
  const std::unique_ptr<SessionFiles> files_;
  BufferPool pool_;                       // of the results that were loaded
  std::vector<SavedBoundSession> saved_;  // until Load() takes it
};

}  // namespace

SetupResult<std::unique_ptr<StreamStore>> OpenStreamStore(const std::string& directory) {
  PENSTOCK_TRY(auto files, SessionFiles::Open(directory));
  auto store = std::make_unique<FileStreamStore>(std::move(files));
  PENSTOCK_CHECK(store->Find());
  return store;
}

}  // namespace penstock::nfs::v4
