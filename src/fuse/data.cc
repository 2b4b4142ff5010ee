// The requests that concern open files: their data and locks.
#include <fcntl.h>
#include <sys/file.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/log.h"
#include "fuse/file_system.h"

namespace penstock::fuse {

using client::Result;
using client::Status;

namespace {

// A reply in more pieces is copied into one: the kernel refuses more than 1024 (IOV_MAX), which a server with a small
// rsize exceeds.
constexpr size_t kMostPieces = 64;
// Replies of this size are written by other threads: the kernel copies them meanwhile.
constexpr size_t kLargeReply = 256 << 10;
// How often the end of a file is looked up for an append, if it changes meanwhile.
constexpr int kMostLooks = 10;

OpenFile& FileOf(const fuse_file_info& info) { return *reinterpret_cast<OpenFile*>(info.fh); }

client::Access AccessOf(int flags) {
  switch (flags & O_ACCMODE) {
    case O_WRONLY:
      return client::Access::kWrite;
    case O_RDONLY:
      return client::Access::kRead;
    default:
      return client::Access::kBoth;
  }
}

uint32_t RightsOf(int flags) {
  switch (flags & O_ACCMODE) {
    case O_WRONLY:
      return client::right::kModify;
    case O_RDONLY:
      return client::right::kRead | client::right::kExecute;
    default:
      return client::right::kRead | client::right::kModify;
  }
}

}  // namespace

// ---- open and close ----

OpenFile& FileSystem::Opened(Users::MountPointer mount, Inode& inode, std::unique_ptr<client::File> file, int flags) {
  auto* const opened = new OpenFile();
  opened->inode = &inode;
  const client::TransferSizes sizes = mount->sizes();
  opened->mount = std::move(mount);
  opened->file = std::move(file);
  opened->reader = std::make_shared<ReadAhead>(loop_, opened->file, sizes.read, options_.read_window);
  opened->reads = (flags & O_ACCMODE) != O_WRONLY;
  opened->writes = (flags & O_ACCMODE) != O_RDONLY;
  opened->direct = (flags & O_DIRECT) != 0 || !options_.writes_behind;
  opened->appends = (flags & O_APPEND) != 0;
  if (opened->writes && !inode.writes) {
    const auto handle_loss = [this, number = inode.number] { HandleLoss(number); };
    inode.writes = std::make_shared<WriteBehind>(loop_, write_memory_, sizes.write, handle_loss);
  }
  if (inode.writes) opened->failures_told = inode.writes->failures();
  inodes_.HandleOpened(inode, *opened);
  return *opened;
}

// Whether what the kernel has of the file's data is what the server has.
bool FileSystem::MayKeepData(Inode& inode) {
  const bool is_same = inode.cached_change == inode.attributes.change;
  inode.cached_change = inode.attributes.change;
  return is_same;
}

Task<void> FileSystem::Open(RequestPointer request, uint64_t inode, fuse_file_info info) {
  auto target = co_await Find(*request, inode);
  if (!target) co_return;
  Inode& at = *target->inode;
  while (at.removing > 0) co_await removed_;
  ++at.opening;
  co_await OpenNow(std::move(request), *target, info);
  --at.opening;
  if (!at.in_use() && at.hidden) co_await RemoveHidden(target->mount, std::move(target->inode));
}

Task<void> FileSystem::OpenNow(RequestPointer request, const Target& target, fuse_file_info info) {
  client::Mount& mount = target.mount;
  Inode& at = *target.inode;
  const std::string path = PathOf(at);
  const client::Node node = at.node(DirectoryOf(at));
  const uint64_t before = at.attributes.change;
  // Like the data, the end is that of the time of the open, or later.
  if (options_.close_to_open) at.end.Expire();
  const FileEnd::Question question = at.AskForEnd();
  auto file = co_await mount.OpenFile(node, path, AccessOf(info.flags));
  if (!file && file.error().status == Status::kNotFound) {
    // Version 4.0 opens a file by its name, and another client has removed that. The kernel looks the name up again.
    request->Status(ESTALE);
    co_return;
  }
  if (Failed(*request, file)) co_return;
  std::optional<client::Error> failure;
  std::optional<client::Attributes> attributes = (*file)->attributes_at_open();
  if (mount.version() == "3") {
    // Nothing but this finds out whether the user may open the file.
    auto access = co_await mount.CheckAccess(at.handle, path, RightsOf(info.flags));
    const uint32_t granted = access ? access->rights : 0;
    const bool may_read =
        (info.flags & O_ACCMODE) == O_WRONLY || (granted & (client::right::kRead | client::right::kExecute)) != 0;
    const bool may_write = (info.flags & O_ACCMODE) == O_RDONLY || (granted & client::right::kModify) != 0;
    if (access) attributes = access->attributes;
    if (!access) {
      failure = std::move(access).error();
    } else if (!may_read || !may_write) {
      failure = client::ErrorOf(Status::kAccess, path);
    }
  }
  if (!failure) {
    // Close-to-open: the data that the kernel has are those of the server's file, or are dropped.
    const bool is_writing = at.writes && at.writes->unsent_end() > 0;
    if (attributes && !is_writing) {
      inodes_.Update(at, *attributes);
      at.end.HandleAnswer(question, attributes->size, loop_.Now());
    } else if (options_.close_to_open) {
      Result<void> refreshed = co_await Refresh(mount, at);
      if (!refreshed) failure = std::move(refreshed).error();
    }
  }
  if (failure) {
    (void)co_await (*file)->Close();
    request->Fail(*failure);
    co_return;
  }
  // It forgets the data of another version itself, but not the size, up to which a program reads.
  if (at.attributes.change != before && kernel_cache_) kernel_cache_->DropAttributes(at.number);
  info.keep_cache = MayKeepData(at);
  OpenFile& opened = Opened(target.held, at, *std::move(file), info.flags);
  info.direct_io = opened.appends;
  info.fh = reinterpret_cast<uint64_t>(&opened);
  if (!request->Opened(info)) co_await ReleaseFile(&opened);
}

Task<void> FileSystem::Create(RequestPointer request, uint64_t parent, std::string name, mode_t mode,
                              fuse_file_info info) {
  auto directory = co_await Find(*request, parent);
  if (!directory) co_return;
  const auto how = (info.flags & O_EXCL)    ? client::CreateMode::kExclusive
                   : (info.flags & O_TRUNC) ? client::CreateMode::kTruncate
                                            : client::CreateMode::kKeep;
  auto file =
      co_await directory->mount.CreateFile(directory->inode->handle, name, mode & 07777, how, AccessOf(info.flags));
  if (Failed(*request, file)) co_return;
  Inode& inode = inodes_.Add((*file)->node(), parent, name);
  const Inodes::Pin pin(inodes_, inode);
  MayKeepData(inode);
  inode.end.Expire();
  OpenFile& opened = Opened(directory->held, inode, *std::move(file), info.flags);
  info.fh = reinterpret_cast<uint64_t>(&opened);
  info.direct_io = opened.appends;
  const fuse_entry_param entry = co_await EntryOf(inode);
  if (request->Created(entry, info)) co_return;
  inodes_.Forget(inode.number, 1);
  co_await ReleaseFile(&opened);
}

Task<void> FileSystem::ReleaseFile(OpenFile* file) {
  Inodes::Pin pin(inodes_, *file->inode);
  co_await file->Unused();
  const Users::MountPointer mount = file->mount;
  const std::shared_ptr<WriteBehind> writes = pin->writes;
  // Flush() has told failures to the program.
  if (writes && file->writes) co_await writes->Settle();
  co_await CloseFile(file);
  if (!pin->in_use() && pin->hidden) co_await RemoveHidden(*mount, std::move(pin));
}

Task<void> FileSystem::CloseFile(OpenFile* file) {
  const std::unique_ptr<OpenFile> owned(file);
  const Inodes::Pin pin(inodes_, *file->inode);
  inodes_.HandleClosed(*file->inode, *file);
  co_await file->reader->Quiet();
  Result<void> closed = co_await file->file->Close();
  if (!closed) log::debug("{}", closed.error().message);
}

Task<void> FileSystem::RemoveHidden(client::Mount& mount, Inodes::Pin inode) {
  const HiddenName hidden = *std::exchange(inode->hidden, std::nullopt);
  Result<void> removed = co_await mount.Remove(hidden.directory, hidden.name);
  if (!removed) log::warn("{}: stays behind: {}", PathOf(*inode), removed.error().message);
}

Task<void> FileSystem::Release(RequestPointer request, uint64_t, fuse_file_info info) {
  OpenFile* const file = &FileOf(info);
  const Inodes::Pin pin(inodes_, *file->inode);
  if (info.flock_release) (void)co_await Unlock(*file->inode, fmt::format("f{:x}", info.lock_owner));
  // The program does not wait.
  request->Status(0);
  co_await ReleaseFile(file);
}

// ---- data ----

void FileSystem::ForgetData(Inode& inode, uint64_t offset, uint64_t end) {
  for (OpenFile* const each : inode.opens) each->reader->Forget(offset, end);
}

Task<void> FileSystem::Read(RequestPointer request, uint64_t, size_t size, uint64_t offset, fuse_file_info info) {
  OpenFile& file = FileOf(info);
  const Used::Use use(file);
  const Inodes::Pin pin(inodes_, *file.inode);
  const std::shared_ptr<ReadAhead> reader = file.reader;
  const std::shared_ptr<WriteBehind> writes = pin->writes;
  const WriteBehind::Ranges dirty = writes ? writes->Within(offset, size) : WriteBehind::Ranges();
  // Direct reads get what the server has now.
  if (file.direct) reader->ForgetAll();
  // What is read ahead while data are on their way might be older than they.
  const bool reads_ahead = !file.direct && (!writes || writes->clean());
  const uint64_t known_size = reads_ahead ? pin->attributes.size : 0;
  auto read = co_await reader->Read(offset, size, known_size);
  if (Failed(*request, read)) co_return;
  const bool is_newer = !dirty.empty() || (writes && !writes->Within(offset, size).empty());
  if (!is_newer && read->size() <= kMostPieces) co_return co_await ReplyOctets(*request, *std::move(read));
  const BufferRef buffer = loop_.buffers().Allocate(size);
  const Bytes into = buffer->bytes().first(size);
  size_t count = 0;
  for (const Slice& piece : *read) {
    CopyBytes(into.subspan(count), piece.bytes());
    count += piece.size();
  }
  if (writes) count = writes->Overlay(dirty, offset, into, count);
  std::vector<Slice> pieces;
  pieces.emplace_back(buffer, into.first(count));
  co_await ReplyOctets(*request, std::move(pieces));
}

Task<void> FileSystem::ReplyOctets(Request& request, std::vector<Slice> pieces) {
  size_t size = 0;
  for (const Slice& each : pieces) size += each.size();
  if (size < kLargeReply) {
    request.Octets(pieces);
    co_return;
  }
  auto answer = request.AnswerWith(std::move(pieces));
  if (answer) (void)co_await Offload(loop_, workers_, std::move(answer), {}, WorkKind::kData);
}

Task<Result<uint64_t>> FileSystem::EndOf(OpenFile& file) {
  Inode& inode = *file.inode;
  auto end = inode.end.At(loop_.Now(), inode.validity);
  for (int looks = 0; !end && looks < kMostLooks; ++looks) {
    const FileEnd::Question question = inode.AskForEnd();
    PENSTOCK_CO_CHECK(co_await Refresh(*file.mount, inode));
    end = inode.end.AnsweredSince(question);
  }
  // Other programs of this tree append all the time. So this one holds no lock that others respect.
  if (!end) end = inode.end.Latest();
  if (end) co_return *end;
  co_return std::unexpected(
      client::Error{fmt::format("{}: its end changes all the time", PathOf(inode)), std::nullopt, EIO});
}

Task<void> FileSystem::Write(RequestPointer request, uint64_t, uint64_t offset, BufferRef buffer, Bytes octets,
                             fuse_file_info info) {
  OpenFile& file = FileOf(info);
  const Used::Use use(file);
  const Inodes::Pin pin(inodes_, *file.inode);
  const std::shared_ptr<WriteBehind> writes = pin->writes;
  const size_t count = octets.size();
  const bool direct = file.direct;
  // The kernel's end of the file may be an old one, and it has the octets in its cache at that place.
  bool is_misplaced = false;
  if ((info.flags & O_APPEND) != 0) {
    const Result<uint64_t> end = co_await EndOf(file);
    if (Failed(*request, end)) co_return;
    is_misplaced = offset != *end;
    offset = *end;
  }
  pin->end.BeginWrite(offset + count);
  Result<void> written = co_await writes->Write(file.file, offset, std::move(buffer), octets, file.failures_told);
  pin->end.EndWrite();
  ForgetData(*pin, offset, offset + count);
  if (FailedToWrite(*request, file, written)) {
    pin->end.Forget();
    co_return;
  }
  if (direct && FailedToWrite(*request, file, co_await CommitData(file))) co_return;
  // The server takes the set-user-id and set-group-id bits away, and the kernel leaves that to it.
  const bool may_change_mode = (pin->attributes.mode & 06000) != 0 && request->uid() != 0;
  if (may_change_mode && kernel_cache_) kernel_cache_->DropAttributes(pin->number);
  // The kernel does not keep the octets of a file that is open for appends, and keeps misplaced ones at a wrong place.
  if (file.appends || is_misplaced) pin->cached_change.reset();
  if (file.appends) {
    const auto is_cached = [](const auto& open) { return !open->appends; };
    if (std::ranges::any_of(pin->opens, is_cached)) co_await DropCache(pin->number);
  }
  request->Written(count);
  // The kernel holds its octets until it has the answer.
  if (!file.appends && is_misplaced) co_await DropCache(pin->number);
}

Task<Result<void>> FileSystem::CommitData(OpenFile& file) {
  const std::shared_ptr<WriteBehind> writes = file.inode->writes;
  if (!writes) co_return Result<void>();
  Result<void> committed = co_await writes->Commit(file.failures_told);
  inodes_.HandleWritten(*file.inode);
  co_return committed;
}

void FileSystem::HandleTold(Inode& inode) {
  inode.writes->HandleTold();
  lost_.erase(inode.number);
}

bool FileSystem::FailedToWrite(Request& request, OpenFile& file, const Result<void>& written) {
  if (written) return false;
  // A process that has been killed hears nothing.
  if (request.Fail(written.error()) && file.inode->writes) {
    file.inode->writes->HandleTold(file.failures_told);
    HandleTold(*file.inode);
  }
  return true;
}

// The kernel has the lost data in its cache.
void FileSystem::HandleLoss(uint64_t inode) {
  Inode* const at = inodes_.Find(inode);
  if (!at) return;
  lost_[inode] = PathOf(*at);
  at->end.Forget();
  if (!kernel_cache_) return;
  at->cached_change.reset();
  if (std::exchange(at->has_lost_data, true)) return;
  Spawn(ForgetLostData(inode));
}

Task<void> FileSystem::ForgetLostData(uint64_t inode) {
  under_way_.Begin();
  {
    const Inodes::Pin pin(inodes_, *inodes_.Find(inode));
    // More data may be lost meanwhile.
    while (std::exchange(pin->has_lost_data, false)) co_await DropCache(inode);
  }
  under_way_.End();
}

Task<void> FileSystem::DropCache(uint64_t inode) {
  if (!kernel_cache_) co_return;
  const auto drop = [cache = kernel_cache_, inode] {
    cache->DropFile(inode);
    return true;
  };
  co_await Offload(loop_, workers_, drop);
}

Task<void> FileSystem::Flush(RequestPointer request, uint64_t, fuse_file_info info) {
  OpenFile& file = FileOf(info);
  const Used::Use use(file);
  const Inodes::Pin pin(inodes_, *file.inode);
  const bool has_data = pin->writes && !pin->writes->clean();
  if (has_data || options_.posix_locks) request->WatchProcess();
  const std::shared_ptr<WriteBehind> writes = file.writes ? pin->writes : nullptr;
  if (writes) {
    co_await writes->Settle();
    inodes_.HandleWritten(*pin);
  }
  // close() ends the locks of the process.
  if (options_.posix_locks) (void)co_await Unlock(*pin, fmt::format("p{:x}", info.lock_owner));
  const Result<void> written = writes ? writes->Failure(file.failures_told) : Result<void>();
  if (written) {
    request->Status(0);
  } else if (request->Fail(written.error())) {
    // The open file is told again when another descriptor of it is closed.
    HandleTold(*pin);
  }
}

Task<void> FileSystem::Fsync(RequestPointer request, uint64_t, fuse_file_info info) {
  OpenFile& file = FileOf(info);
  const Used::Use use(file);
  const Inodes::Pin pin(inodes_, *file.inode);
  if (FailedToWrite(*request, file, co_await CommitData(file))) co_return;
  request->Status(0);
}

Task<void> FileSystem::Allocate(RequestPointer request, uint64_t, int mode, uint64_t offset, uint64_t length,
                                fuse_file_info info) {
  OpenFile& file = FileOf(info);
  const Used::Use use(file);
  const Inodes::Pin pin(inodes_, *file.inode);
  const bool punches = mode == (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE);
  if (mode != 0 && !punches) {
    request->Status(EOPNOTSUPP);
    co_return;
  }
  if (FailedToWrite(*request, file, co_await CommitData(file))) co_return;
  ForgetData(*pin, offset, offset + length);
  pin->end.Forget();
  Result<void> done;
  if (punches) {
    done = co_await file.file->Deallocate(offset, length);
  } else {
    done = co_await file.file->Allocate(offset, length);
  }
  if (Failed(*request, done)) co_return;
  (void)co_await Refresh(*file.mount, *pin);
  request->Status(0);
}

Task<void> FileSystem::CopyRange(RequestPointer request, uint64_t, uint64_t from, fuse_file_info from_info, uint64_t,
                                 uint64_t to, fuse_file_info to_info, size_t length) {
  OpenFile& source = FileOf(from_info);
  OpenFile& target = FileOf(to_info);
  const Used::Use use_source(source);
  const Used::Use use_target(target);
  const Inodes::Pin source_pin(inodes_, *source.inode);
  const Inodes::Pin pin(inodes_, *target.inode);
  if (source.inode == target.inode) {
    // RFC 7862 §15.2.3: a server copies between two files. The kernel reads and writes instead.
    request->Status(EOPNOTSUPP);
    co_return;
  }
  if (FailedToWrite(*request, source, co_await CommitData(source))) co_return;
  if (FailedToWrite(*request, target, co_await CommitData(target))) co_return;
  if (Failed(*request, co_await RefreshAll(*source.mount, *source_pin))) co_return;
  const uint64_t size = source_pin->attributes.size;
  // The server refuses ranges beyond the end (RFC 7862 §15.2.3).
  const uint64_t count = std::min<uint64_t>(length, size - std::min(from, size));
  if (count == 0) {
    request->Written(0);
    co_return;
  }
  ForgetData(*pin, to, to + count);
  pin->end.Forget();
  auto copied = co_await target.file->CopyFrom(*source.file, from, to, count);
  if (Failed(*request, copied)) co_return;
  if (copied->verifier) {
    auto committed = co_await target.file->Commit();
    if (Failed(*request, committed)) co_return;
    if (*committed != *copied->verifier) {
      // The server has restarted, and may have lost the copy. The program copies by reading and writing.
      request->Status(EOPNOTSUPP);
      co_return;
    }
  }
  (void)co_await Refresh(*target.mount, *pin);
  request->Written(copied->count);
}

Task<void> FileSystem::Seek(RequestPointer request, uint64_t, uint64_t offset, int whence, fuse_file_info info) {
  OpenFile& file = FileOf(info);
  const Used::Use use(file);
  const Inodes::Pin pin(inodes_, *file.inode);
  if (pin->writes) co_await pin->writes->Send();
  const auto content = whence == SEEK_DATA ? client::File::Content::kData : client::File::Content::kHole;
  auto found = co_await file.file->Seek(offset, content);
  if (!found && found.error().status == Status::kNotSupported) {
    request->Status(ENOSYS);  // the kernel takes all of the file for data, and does not ask again
    co_return;
  }
  if (Failed(*request, found)) co_return;
  if (*found) {
    request->Offset(**found);
  } else {
    request->Status(ENXIO);
  }
}

// ---- locks ----

namespace {

client::ByteRange RangeOf(const struct flock& lock) {
  const auto offset = static_cast<uint64_t>(lock.l_start);
  if (lock.l_len == 0) return {.offset = offset, .length = client::ByteRange::kToEnd};
  return {.offset = offset, .length = static_cast<uint64_t>(lock.l_len)};
}

constexpr Duration kForever = std::chrono::hours(24 * 365);

}  // namespace

// A process may lock a file by one descriptor, and change the lock by another. All its locks are those of one open
// file, because the locks of two open files conflict.
OpenFile& FileSystem::LockFile(OpenFile& file, const std::string& owner) {
  for (OpenFile* const each : file.inode->opens) {
    if (std::ranges::find(each->lockers, owner) != each->lockers.end()) return *each;
  }
  return file;
}

Task<Result<void>> FileSystem::Unlock(Inode& inode, std::string owner) {
  for (OpenFile* const each : std::vector<OpenFile*>(inode.opens)) {
    // Meanwhile, some may have been closed.
    if (std::ranges::find(inode.opens, each) == inode.opens.end()) continue;
    if (std::erase(each->lockers, owner) == 0) continue;
    const Used::Use use(*each);
    PENSTOCK_CO_CHECK(co_await each->file->Unlock(owner, {}));
  }
  co_return Result<void>();
}

Task<void> FileSystem::TestLock(RequestPointer request, uint64_t, fuse_file_info info, struct flock lock) {
  const std::string owner = fmt::format("p{:x}", info.lock_owner);
  OpenFile& file = LockFile(FileOf(info), owner);
  const Used::Use use(file);
  const Inodes::Pin pin(inodes_, *file.inode);
  const auto kind = lock.l_type == F_RDLCK ? client::LockKind::kShared : client::LockKind::kExclusive;
  auto conflict = co_await file.file->TestLock(owner, RangeOf(lock), kind);
  if (Failed(*request, conflict)) co_return;
  if (*conflict) {
    const client::LockConflict& other = **conflict;
    lock.l_type = other.kind == client::LockKind::kShared ? F_RDLCK : F_WRLCK;
    lock.l_start = static_cast<off_t>(other.range.offset);
    lock.l_len = other.range.length == client::ByteRange::kToEnd ? 0 : static_cast<off_t>(other.range.length);
    lock.l_pid = 0;  // of another host, or of another process of this one: the server does not tell
  } else {
    lock.l_type = F_UNLCK;
  }
  request->Lock(lock);
}

Task<void> FileSystem::SetLock(RequestPointer request, uint64_t, fuse_file_info info, struct flock lock, bool waits) {
  co_await Lock(std::move(request), FileOf(info), fmt::format("p{:x}", info.lock_owner), RangeOf(lock), lock.l_type,
                waits);
}

Task<void> FileSystem::Flock(RequestPointer request, uint64_t, fuse_file_info info, int operation) {
  const int kind = operation & ~LOCK_NB;
  const int type = kind == LOCK_SH ? F_RDLCK : kind == LOCK_EX ? F_WRLCK : F_UNLCK;
  co_await Lock(std::move(request), FileOf(info), fmt::format("f{:x}", info.lock_owner), {}, type,
                (operation & LOCK_NB) == 0);
}

Task<void> FileSystem::Lock(RequestPointer request, OpenFile& by, std::string owner, client::ByteRange range, int type,
                            bool waits) {
  OpenFile& file = LockFile(by, owner);
  const Used::Use use(file);
  const Used::Use use_by(by);
  const Inodes::Pin pin(inodes_, *file.inode);
  const std::shared_ptr<client::File> locked = file.file;
  // The next holder of the lock reads what this program has written. The lock ends also if data are lost: fsync() and
  // close() tell that.
  if (type == F_UNLCK) {
    if (pin->writes) co_await pin->writes->Settle();
    if (Failed(*request, co_await locked->Unlock(owner, range))) co_return;
    request->Status(0);
    co_return;
  }
  const auto kind = type == F_RDLCK ? client::LockKind::kShared : client::LockKind::kExclusive;
  // The other descriptor may be open for something else.
  const bool needs_more = kind == client::LockKind::kShared ? !file.reads && by.reads : !file.writes && by.writes;
  if (needs_more) {
    Result<void> widened = co_await locked->Widen(pin->node(DirectoryOf(*pin)));
    if (Failed(*request, widened)) co_return;
  }
  const bool is_new = std::ranges::find(file.lockers, owner) == file.lockers.end();
  if (is_new) file.lockers.push_back(owner);
  Cancellation impatience;
  request->InterruptBy(&impatience);
  const Duration patience = waits ? kForever : Duration::zero();
  Result<void> done = co_await locked->Lock(owner, range, kind, patience, &impatience);
  request->InterruptBy(nullptr);
  if (!done && done.error().status == Status::kDenied && impatience.cancelled()) {
    request->Status(EINTR);
    co_return;
  }
  if (Failed(*request, done)) co_return;
  // The lock protects what others may have written until now.
  if (pin->writes) co_await pin->writes->Send();
  ForgetData(*pin, 0, ~uint64_t{0});
  pin->end.Expire();
  const std::optional<uint64_t> before = pin->cached_change;
  Result<void> refreshed = co_await Refresh(*by.mount, *pin);
  if (!refreshed) {
    // What the kernel has cached may be older than the lock.
    (void)co_await locked->Unlock(owner, range);
    request->Fail(refreshed.error());
    co_return;
  }
  if (pin->attributes.change != before) {
    co_await DropCache(pin->number);
    pin->cached_change = pin->attributes.change;
  }
  if (request->Status(0)) co_return;
  (void)co_await locked->Unlock(owner, range);
}

}  // namespace penstock::fuse
