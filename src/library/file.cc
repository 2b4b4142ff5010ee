#include "library/file.h"

#include <fcntl.h>
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <utility>

#include "base/cancellation.h"
#include "base/result.h"
#include "library/attributes.h"
#include "library/error_text.h"
#include "library/structures.h"

using namespace penstock;           // NOLINT: the functions of the C API are in no namespace
using namespace penstock::library;  // NOLINT

namespace penstock::library {
namespace {

// Starts work on an open file, as StartWork().
template <class MakeWork>
int64_t StartWorkOnFile(penstock_file* file, const penstock_call* call, MakeWork make_work) {
  return Guarded([&]() -> int64_t {
    if (!file) return Fail(EINVAL, "there is no file");
    if (const int wrong = CheckProcess(file->mount.runtime); wrong != 0) return wrong;
    return StartWork(UsesOf(file->mount, file->activity), call, make_work);
  });
}
// The same, as Start().
template <class Function>
int64_t StartOnFile(penstock_file* file, const penstock_call* call, Function work) {
  return StartWorkOnFile(file, call,
                         [&work](const Operation::Start& start) { return RunFunction(start, std::move(work)); });
}

// A read as hosts make most of them needs one READ, and no frame but this one.
Work Read(const Operation::Start& /*start*/, penstock_file& file, uint64_t offset, Bytes into) {
  Operation& operation = co_await ThisOperation();
  const Transferred what{.mount = *file.mount.mount, .file = *file.file, .operation = operation};
  if (into.empty() || operation.may_be_abandoned() || into.size() > what.mount.sizes().read) {
    co_return co_await ReadRange(what, offset, into);
  }
  PENSTOCK_CO_TRY(const client::File::ReadReply first, co_await what.file.Read(offset, into));
  if (first.count == into.size() || first.eof || first.count == 0) co_return first.count;
  PENSTOCK_CO_TRY(const int64_t rest, co_await ReadRange(what, offset + first.count, into.subspan(first.count)));
  co_return first.count + rest;
}

// The same for a write.
Work Write(const Operation::Start& /*start*/, penstock_file& file, uint64_t offset, ConstBytes from) {
  Operation& operation = co_await ThisOperation();
  const Transferred what{.mount = *file.mount.mount, .file = *file.file, .operation = operation};
  if (file.is_stable) co_return co_await WriteStable(what, offset, from);
  if (from.empty() || operation.may_be_abandoned() || from.size() > what.mount.sizes().write) {
    co_return co_await WriteRange(what, offset, from, file.unsynced);
  }
  PENSTOCK_CO_TRY(const client::File::WriteReply first, co_await what.file.Write(offset, from));
  file.unsynced.Note(first.verifier);
  if (first.count == from.size()) co_return first.count;
  PENSTOCK_CO_TRY(const int64_t rest,
                  co_await WriteRange(what, offset + first.count, from.subspan(first.count), file.unsynced));
  co_return first.count + rest;
}

// Checks the range of a read or write. Returns zero or a negative errno.
int CheckRange(const penstock_file& file, client::Access needed, size_t count, uint64_t offset) {
  if ((static_cast<unsigned>(file.access) & static_cast<unsigned>(needed)) == 0) {
    return Fail(EBADF, needed == client::Access::kRead ? "the file is not open for reading"
                                                       : "the file is not open for writing");
  }
  if (count > INT64_MAX || offset > INT64_MAX - count) return Fail(EINVAL, "the range is beyond the largest offset");
  return 0;
}

// Makes stable what was written. One call at a time works; the others wait, and then look at what is left. An abandoned
// operation tells nobody of a loss: that is left to the next one.
Task<client::Result<void>> Sync(const Operation& operation, penstock_file& file) {
  while (file.is_syncing) co_await file.synced;
  if (file.unsynced.empty()) co_return client::Result<void>();
  file.is_syncing = true;
  const Unsynced written = std::exchange(file.unsynced, {});
  const auto committed = co_await file.file->Commit();
  client::Result<void> result;
  if (!committed) {
    file.unsynced.AddEarlier(written);
    result = std::unexpected(committed.error());
  } else if (!written.IsStableAfter(*committed)) {
    if (operation.abandoned()) file.unsynced.AddEarlier(written);
    constexpr auto kText = "{}: the server has restarted, and may have lost data that were written before";
    result = std::unexpected(client::Error{fmt::format(kText, file.file->name()), std::nullopt, EIO});
  }
  file.is_syncing = false;
  file.synced.Notify();
  co_return result;
}

// Closes a file that no work uses any more, once the last one has ended.
Task<Outcome> Close(const Operation& operation, std::unique_ptr<penstock_file> file) {
  Loop& loop = file->mount.place.loop();
  // The caller may run inside of the code of a work that has just ended.
  co_await NextTurn(loop);
  co_await WaitUntilQuiet(loop, file->activity);
  const client::Result<void> synced = co_await Sync(operation, *file);
  const client::Result<void> closed = co_await file->file->Close();
  // The file must outlive the code of its last call.
  co_await NextTurn(loop);
  if (!synced) co_return std::unexpected(synced.error());
  if (!closed) co_return std::unexpected(closed.error());
  co_return 0;
}

// Returns zero or a negative errno.
int TakeFlags(int flags, uint32_t mode, OpenHow& how) {
  constexpr int kKnown =
      O_ACCMODE | O_CREAT | O_EXCL | O_TRUNC | O_NOFOLLOW | O_CLOEXEC | O_SYNC | O_DSYNC | O_LARGEFILE;
  if (flags & ~kKnown) return Fail(EINVAL, "unknown flags");
  switch (flags & O_ACCMODE) {
    case O_RDONLY:
      how.access = client::Access::kRead;
      break;
    case O_WRONLY:
      how.access = client::Access::kWrite;
      break;
    case O_RDWR:
      how.access = client::Access::kBoth;
      break;
    default:
      return Fail(EINVAL, "flags must have one of O_RDONLY, O_WRONLY and O_RDWR");
  }
  if (mode > 07777) return Fail(EINVAL, "a mode has twelve bits");
  how.creates = (flags & O_CREAT) != 0;
  how.is_exclusive = (flags & O_EXCL) != 0;
  how.truncates = (flags & O_TRUNC) != 0;
  how.follows = (flags & O_NOFOLLOW) == 0;
  how.is_stable = (flags & (O_SYNC | O_DSYNC)) != 0;
  how.mode = mode;
  if (how.is_exclusive && !how.creates) return Fail(EINVAL, "O_EXCL needs O_CREAT");
  if (how.truncates && how.access == client::Access::kRead) return Fail(EINVAL, "O_TRUNC needs the right to write");
  return 0;
}

struct LockHow {
  client::ByteRange range;
  client::LockKind kind = client::LockKind::kExclusive;
  std::string owner;
  Duration patience = Duration::zero();
};
// Returns zero or a negative errno.
int TakeLock(const penstock_lock_request* request, LockHow& how) {
  constexpr Duration kForever = std::chrono::hours(24 * 365 * 10);
  if (!request) return Fail(EINVAL, "an argument is null");
  penstock_lock_request given = PENSTOCK_LOCK_REQUEST_INIT;
  if (const int wrong = TakeStructure(request, given); wrong != 0) return wrong;
  how.range = {.offset = given.offset, .length = given.length == 0 ? client::ByteRange::kToEnd : given.length};
  if (given.length != 0 && given.offset > UINT64_MAX - given.length) {
    return Fail(EINVAL, "the range is beyond the largest offset");
  }
  how.kind = given.exclusive ? client::LockKind::kExclusive : client::LockKind::kShared;
  how.owner = given.owner ? given.owner : "";
  const bool forever = given.wait_ms < 0 || given.wait_ms > kForever / std::chrono::milliseconds(1);
  how.patience = forever ? kForever : std::chrono::milliseconds(given.wait_ms);
  return 0;
}

// Opens a file that exists.
Task<client::Result<std::unique_ptr<client::File>>> OpenExisting(client::Mount& mount, std::string path,
                                                                 const OpenHow& how) {
  PENSTOCK_CO_TRY(const client::Node node, co_await mount.Resolve(path, how.follows));
  if (node.attributes.type == client::FileType::kSymlink) {
    co_return std::unexpected(client::Error{path + ": is a symbolic link", std::nullopt, ELOOP});
  }
  PENSTOCK_CO_CHECK(client::CheckRegular(node, path));
  PENSTOCK_CO_TRY(std::unique_ptr<client::File> file, co_await mount.OpenFile(node, path, how.access));
  if (!how.truncates) co_return file;
  client::Result<void> cut = co_await mount.SetAttributes(node.handle, path, {.size = 0});
  if (cut) co_return file;
  (void)co_await file->Close();
  co_await NextTurn(mount.loop());
  co_return std::unexpected(std::move(cut).error());
}

// Returns the path to which a symbolic link leads.
Task<client::Result<std::string>> TargetOf(client::Mount& mount, const std::string& path) {
  PENSTOCK_CO_TRY(const client::Node node, co_await mount.Resolve(path, false));
  if (node.attributes.type != client::FileType::kSymlink) {
    co_return std::unexpected(client::Error{path + ": not a symbolic link", std::nullopt, EINVAL});
  }
  PENSTOCK_CO_TRY(const std::string text, co_await mount.ReadLink(node.handle, path));
  if (!text.starts_with('/')) co_return path.substr(0, path.rfind('/') + 1) + text;
  const std::optional<std::string> below = mount.PathBelowRoot(text);
  if (below) co_return *below;
  co_return std::unexpected(client::Error{path + ": a symbolic link leads out of the export", std::nullopt, EXDEV});
}

}  // namespace

Task<client::Result<std::unique_ptr<client::File>>> OpenByPath(client::Mount& mount, std::string path, OpenHow how) {
  if (!how.creates) co_return co_await OpenExisting(mount, std::move(path), how);
  constexpr int kMostLinks = 40;
  const auto mode = how.is_exclusive ? client::CreateMode::kExclusive
                    : how.truncates  ? client::CreateMode::kTruncate
                                     : client::CreateMode::kKeep;
  for (int links = 0;; ++links) {
    PENSTOCK_CO_TRY(const client::Mount::Place place, co_await mount.ResolvePlace(path));
    auto created = co_await mount.CreateFile(place.directory, place.name, how.mode, mode);
    if (created || how.is_exclusive) co_return created;
    // The name may be a symbolic link, or a file that may be used only in the way that the caller wants.
    const int number = created.error().number;
    if (number != EEXIST && number != ELOOP && number != EACCES) co_return created;
    auto opened = co_await OpenExisting(mount, path, how);
    if (opened || opened.error().number != ENOENT) co_return opened;
    auto target = co_await TargetOf(mount, path);
    if (!target || links == kMostLinks) co_return created;
    path = *std::move(target);
  }
}

}  // namespace penstock::library

int penstock_open(penstock_mount* mount, const char* path, int flags, uint32_t mode, penstock_file** file,
                  const penstock_call* call) {
  return Guarded([&] {
    OpenHow how;
    if (const int wrong = TakeFlags(flags, mode, how); wrong != 0) return wrong;
    std::string taken = path ? path : "";
    return static_cast<int>(StartOn(
        mount, {path, static_cast<const void*>(file)}, call,
        [mount, file, how, taken = std::move(taken)](Operation& operation, client::Mount& inner) -> Task<Outcome> {
          PENSTOCK_CO_TRY(std::unique_ptr<client::File> opened, co_await OpenByPath(inner, PathOf(*mount, taken), how));
          if (!operation.abandoned()) {
            *file = new penstock_file(*mount, std::move(opened), how.access, how.is_stable);
            co_return 0;
          }
          (void)co_await opened->Close();
          co_await NextTurn(inner.loop());
          co_return 0;
        }));
  });
}

int penstock_close(penstock_file* file, const penstock_call* call) {
  return Guarded([&] {
    if (!file) return 0;
    penstock_mount& mount = file->mount;
    if (const int wrong = CheckProcess(mount.runtime); wrong != 0) return wrong;
    if (file->activity.operations > 0) return Fail(EBUSY, "the file has operations that have not ended");
    const auto close = [file, &mount](Operation& operation) {
      --mount.files;
      return Close(operation, std::unique_ptr<penstock_file>(file));
    };
    Operation::Uses uses = UsesOf(mount, mount.activity);
    uses.is_final = true;
    return StartInt(uses, call, close);
  });
}

int64_t penstock_pread(penstock_file* file, void* buffer, size_t count, uint64_t offset, const penstock_call* call) {
  if (file && count > 0) {
    if (!buffer) return Fail(EINVAL, "an argument is null");
    if (const int wrong = CheckRange(*file, client::Access::kRead, count, offset); wrong != 0) return wrong;
  }
  const Bytes into(static_cast<std::byte*>(buffer), count);
  return StartWorkOnFile(file, call, [=](const Operation::Start& start) { return Read(start, *file, offset, into); });
}

int64_t penstock_pwrite(penstock_file* file, const void* buffer, size_t count, uint64_t offset,
                        const penstock_call* call) {
  if (file && count > 0) {
    if (!buffer) return Fail(EINVAL, "an argument is null");
    if (const int wrong = CheckRange(*file, client::Access::kWrite, count, offset); wrong != 0) return wrong;
  }
  const ConstBytes from(static_cast<const std::byte*>(buffer), count);
  return StartWorkOnFile(file, call, [=](const Operation::Start& start) { return Write(start, *file, offset, from); });
}

int penstock_fsync(penstock_file* file, const penstock_call* call) {
  return static_cast<int>(StartOnFile(file, call, [file](Operation& operation) -> Task<Outcome> {
    PENSTOCK_CO_CHECK(co_await Sync(operation, *file));
    co_return 0;
  }));
}

int penstock_fstat(penstock_file* file, penstock_attributes* attributes, const penstock_call* call) {
  if (const int wrong = CheckRoom(attributes); wrong != 0) return wrong;
  return static_cast<int>(StartOnFile(file, call, [file, attributes](Operation& operation) -> Task<Outcome> {
    client::File& inner = *file->file;
    PENSTOCK_CO_TRY(const client::Attributes found,
                    co_await file->mount.mount->GetAttributes(inner.node().handle, inner.name()));
    if (!operation.abandoned()) GiveStructure(ConvertAttributes(found), *attributes);
    co_return 0;
  }));
}

int penstock_ftruncate(penstock_file* file, uint64_t length, const penstock_call* call) {
  if (file) {
    if (const int wrong = CheckRange(*file, client::Access::kWrite, 0, length); wrong != 0) return wrong;
  }
  return static_cast<int>(StartOnFile(file, call, [file, length](Operation&) -> Task<Outcome> {
    client::File& inner = *file->file;
    const client::NewAttributes size{.size = length};
    PENSTOCK_CO_CHECK(co_await file->mount.mount->SetAttributes(inner.node().handle, inner.name(), size));
    co_return 0;
  }));
}

int penstock_lock(penstock_file* file, const penstock_lock_request* request, const penstock_call* call) {
  return Guarded([&] {
    LockHow how;
    if (const int wrong = TakeLock(request, how); wrong != 0) return wrong;
    return static_cast<int>(
        StartOnFile(file, call, [file, how = std::move(how)](Operation& operation) -> Task<Outcome> {
          while (file->abandoned_locks > 0) co_await file->locks_given_back;
          if (operation.abandoned()) co_return 0;
          Cancellation impatience;
          operation.OnAbandon([&] {
            ++file->abandoned_locks;
            impatience.Cancel();
          });
          client::File& inner = *file->file;
          const client::Result<void> locked =
              co_await inner.Lock(how.owner, how.range, how.kind, how.patience, &impatience);
          operation.OnAbandon({});
          if (operation.abandoned()) {
            if (locked) (void)co_await inner.Unlock(how.owner, how.range);
            --file->abandoned_locks;
            file->locks_given_back.Notify();
          }
          PENSTOCK_CO_CHECK(locked);
          co_return 0;
        }));
  });
}

int penstock_unlock(penstock_file* file, const penstock_lock_request* request, const penstock_call* call) {
  return Guarded([&] {
    LockHow how;
    if (const int wrong = TakeLock(request, how); wrong != 0) return wrong;
    return static_cast<int>(StartOnFile(file, call, [file, how = std::move(how)](Operation&) -> Task<Outcome> {
      PENSTOCK_CO_CHECK(co_await file->file->Unlock(how.owner, how.range));
      co_return 0;
    }));
  });
}

int penstock_test_lock(penstock_file* file, const penstock_lock_request* request, penstock_lock_request* conflict,
                       const penstock_call* call) {
  return Guarded([&] {
    LockHow how;
    if (const int wrong = TakeLock(request, how); wrong != 0) return wrong;
    if (conflict) {
      if (const int wrong = CheckRoom(conflict); wrong != 0) return wrong;
    }
    return static_cast<int>(
        StartOnFile(file, call, [file, how = std::move(how), conflict](Operation& operation) -> Task<Outcome> {
          PENSTOCK_CO_TRY(const auto found, co_await file->file->TestLock(how.owner, how.range, how.kind));
          if (!found) co_return 0;
          if (conflict && !operation.abandoned()) {
            penstock_lock_request told = PENSTOCK_LOCK_REQUEST_INIT;
            told.offset = found->range.offset;
            told.length = found->range.length == client::ByteRange::kToEnd ? 0 : found->range.length;
            told.exclusive = found->kind == client::LockKind::kExclusive;
            GiveStructure(told, *conflict);
          }
          co_return 1;
        }));
  });
}
