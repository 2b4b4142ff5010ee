#include "fs/posix/tree.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <tuple>

#include "fs/errno.h"

namespace penstock::fs::posix {
namespace {

timespec TimeSpecOf(const SetTime& time) {
  switch (time.how) {
    case SetTime::How::kKeep:
      return {0, UTIME_OMIT};
    case SetTime::How::kServerTime:
      return {0, UTIME_NOW};
    case SetTime::How::kGiven:
      break;
  }
  return {time.time.seconds, static_cast<long>(time.time.nanoseconds)};
}

bool Sets(const NewAttributes& values, SetTime::How how) { return values.atime.how == how || values.mtime.how == how; }

}  // namespace

Tree::Tree(Parts parts)
    : parts_(std::move(parts)),
      server_(parts_.rights),
      root_handle_(parts_.handles->Root()),
      objects_(parts_.objects),
      verifier_(std::make_shared<std::atomic<uint64_t>>(parts_.verifier.value())) {}

// The kernel may not know the name of an object that it has found by its handle, and then says something else. So the
// path counts only if it leads to the object.
std::string Tree::PathOf(const Handle& handle) const {
  const Result<FileDescriptor> file = parts_.handles->Open(handle);
  if (!file) return {};
  std::optional<std::string> root = posix::PathOf(parts_.root.get());
  const std::optional<std::string> path = posix::PathOf(file->get());
  if (!root || !path) return {};
  if (*path == *root) return "/";
  if (*root == "/") root->clear();
  struct stat named{}, opened{};
  if (!path->starts_with(*root + "/") || ::lstat(path->c_str(), &named) != 0 || ::fstat(file->get(), &opened) != 0 ||
      named.st_dev != opened.st_dev || named.st_ino != opened.st_ino) {
    return {};
  }
  return path->substr(root->size());
}

std::optional<Result<ObjectRef>> Tree::Reach(const Handle& handle, Patience patience) {
  if (ObjectRef object = objects_.Find(handle)) return object;
  if (patience == Patience::kNone) return std::nullopt;
  Result<FileDescriptor> fd = objects_.all()->OpenResult([&] { return parts_.handles->Open(handle); });
  if (!fd) return std::unexpected(fd.error());
  const Result<Stat> stat = posix::StatOf(fd->get(), parts_.volume);
  if (!stat) return std::unexpected(stat.error());
  return Enter(handle, std::move(*fd), stat->attributes.type);
}

Result<ObjectRef> Tree::Enter(const Handle& handle, FileDescriptor fd, FileType type) {
  return objects_.Insert(std::make_shared<Object>(handle, std::move(fd), type, objects_.all(), verifier_));
}

std::optional<Result<Stat>> Tree::StatOf(const Object& object, Patience patience) {
  Result<Stat> stat = StatOfNameless(object.fd(), parts_.volume);
  if (!stat || stat->attributes.nlink != 0 || object.pinned()) return stat;
  if (patience == Patience::kNone) return std::nullopt;
  objects_.Erase(object.handle());
  return std::unexpected(Error::kStale);
}

// Pins only regular files: nothing can be created in a directory without a name.
Result<void> Tree::Pin(ObjectRef& object) {
  PENSTOCK_CHECK(CheckRegular(object->type()));
  PENSTOCK_TRY([[maybe_unused]] const Stat stat, StatOf(*object));
  if (!objects_.Pin(object)) return std::unexpected(Error::kDelay);
  return {};
}

// A failed change may be half done.
void Tree::NoteAfter(const Object& object, const Attributes& before, WeakCacheData& data, bool done) {
  const Result<Stat> stat = StatOf(object);
  if (!stat) return;
  const Attributes& after = stat->attributes;
  data.after = after;
  const auto facts = [](const Attributes& a) { return std::tuple(a.mode, a.uid, a.gid, a.size, a.mtime); };
  if (done || facts(before) != facts(after)) data.after->change = NoteChange(BeforeOf(before), after);
}

uint64_t Tree::NoteChange(const PreAttributes& before, const Attributes& after) {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  const ChangeCounters::File file{after.fsid, after.fileid};
  const Timestamp time{now.tv_sec, static_cast<uint32_t>(now.tv_nsec)};
  parts_.volume.changes->NoteChange(file, before, after.ctime, time);
  return parts_.volume.changes->Look(file, after.ctime);
}

// A directory is not locked: a call that changes its entries may be waiting for its parent, which the caller holds.
Tree::Renaming::Renaming(Tree& tree, ObjectRef file, int fd)
    : tree_(tree), file_(std::move(file)), fd_(fd), before_(std::unexpected(Error::kStale)) {
  if (file_ && !file_->is_directory()) lock_ = std::unique_lock(file_->changing);
  before_ = StatOfNameless(fd_, tree_.parts_.volume);
}

void Tree::Renaming::Note() {
  const Result<Stat> after = StatOfNameless(fd_, tree_.parts_.volume);
  if (before_ && after) tree_.NoteChange(BeforeOf(before_->attributes), after->attributes);
}

std::optional<Result<Attributes>> Tree::GetAttributes(const Handle& handle, Patience patience) {
  const std::optional<Result<ObjectRef>> object = Reach(handle, patience);
  if (!object) return std::nullopt;
  if (!*object) return std::unexpected(object->error());
  const std::optional<Result<Stat>> stat = StatOf(***object, patience);
  if (!stat) return std::nullopt;
  if (!*stat) return std::unexpected(stat->error());
  return (*stat)->attributes;
}

std::optional<Observed<AccessMask>> Tree::Access(const Credentials& caller, const Handle& handle, AccessMask wanted,
                                                 Patience patience) {
  const auto look = [&](Object& object, const Stat& stat) -> std::optional<Result<AccessMask>> {
    const std::optional<Rights> rights = RightsTo(object, stat.attributes, caller, patience);
    if (!rights) return std::nullopt;
    AccessMask mask = AccessOf(object.type(), *rights);
    const bool on_disk = object.type() == FileType::kRegular || object.is_directory();
    constexpr AccessMask kChanges = kAccessModify | kAccessExtend | kAccessDelete | kAccessXattrWrite;
    if (on_disk && parts_.volume.read_only) mask &= ~kChanges;
    return mask & wanted;
  };
  return Observe<AccessMask>(handle, patience, look);
}

std::optional<Observed<std::string>> Tree::ReadLink(const Handle& handle, Patience patience) {
  // a long target is stored in a block of its own
  if (patience == Patience::kNone && !parts_.volume.in_memory) return std::nullopt;
  return Observe<std::string>(handle, patience, [](Object& object, const Stat&) -> Result<std::string> {
    if (object.type() != FileType::kSymlink) return std::unexpected(Error::kInvalid);
    char target[PATH_MAX];
    const ssize_t length = ::readlinkat(object.fd(), "", target, sizeof target);
    if (length < 0) return LastError();
    return std::string(target, static_cast<size_t>(length));
  });
}

std::optional<Observed<Space>> Tree::GetSpace(const Handle& handle, Patience patience) {
  if (patience == Patience::kNone && !parts_.volume.in_memory) return std::nullopt;
  return Observe<Space>(handle, patience, [](Object& object, const Stat&) -> Result<Space> {
    struct statvfs fs;
    if (::fstatvfs(object.fd(), &fs) != 0) return LastError();
    return Space{fs.f_blocks * fs.f_frsize,
                 fs.f_bfree * fs.f_frsize,
                 fs.f_bavail * fs.f_frsize,
                 fs.f_files,
                 fs.f_ffree,
                 fs.f_favail};
  });
}

Changed<void> Tree::SetAttributes(const Credentials& caller, const Handle& handle, const NewAttributes& values,
                                  std::optional<Timestamp> guard, Touches& touches) {
  return Change<void>(handle, touches, [&](Object& object, const Stat& stat) -> Result<void> {
    if (guard && *guard != stat.attributes.ctime) return std::unexpected(Error::kNotSync);
    return Apply(caller, object, stat, values);
  });
}

// Applies the values one after the other: if the caller may not set a later one, the earlier ones are set. The size
// goes first, because the other values may take away the right to change it.
Result<void> Tree::Apply(const Credentials& caller, Object& object, const Stat& stat, const NewAttributes& values) {
  if (values.size) {
    PENSTOCK_CHECK(CheckRegular(object.type()));
    const Rights rights = RightsTo(object, stat.attributes, caller);
    if (!MayWriteData(stat.attributes, JudgedAs(object, stat.attributes, caller), rights)) {
      return std::unexpected(Error::kAccess);
    }
    if (*values.size > INT64_MAX) return std::unexpected(Error::kFileTooBig);
    PENSTOCK_TRY(const SharedFile file, object.Writer());
    const AsCaller as_caller(server_, caller);  // so that the kernel clears set-id bits
    if (::ftruncate(file->get(), static_cast<off_t>(*values.size)) != 0) return LastError();
    if (server_.Checks(caller)) DropSetId(caller, file->get(), stat.attributes);
  }
  // A caller with write access may set the server's time. For other times, CheckMaySet() or the kernel decides.
  if (Sets(values, SetTime::How::kServerTime)) {
    const Rights rights = RightsTo(object, stat.attributes, caller);
    if (!MayWriteData(stat.attributes, JudgedAs(object, stat.attributes, caller), rights)) {
      return std::unexpected(Error::kAccess);
    }
  }
  PENSTOCK_CHECK(CheckMaySet(caller, object, stat.attributes, values));
  SharedFile kept;
  if (values.mode && (*values.mode & S_IWUSR) == 0 && !server_.acts_as_callers()) {
    PENSTOCK_TRY(kept, object.KeepForWriting());
  }
  return Set(caller, object.fd(), object.type(), values);
}

Result<void> Tree::Set(const Credentials& caller, int fd, FileType type, const NewAttributes& values) const {
  std::optional<AsCaller> as_caller(std::in_place, server_, caller);
  if (values.uid || values.gid) {
    const uid_t uid = values.uid.value_or(static_cast<uid_t>(-1));
    const gid_t gid = values.gid.value_or(static_cast<gid_t>(-1));
    if (::fchownat(fd, "", uid, gid, AT_EMPTY_PATH) != 0) return LastError();
  }
  // A symbolic link has no mode of its own.
  if (values.mode && type != FileType::kSymlink && ::chmod(ProcPath(fd).c_str(), *values.mode & 07777) != 0) {
    return LastError();
  }
  if (!Sets(values, SetTime::How::kGiven)) as_caller.reset();  // the kernel requires the owner to set one time alone
  if (Sets(values, SetTime::How::kGiven) || Sets(values, SetTime::How::kServerTime)) {
    const timespec times[2] = {TimeSpecOf(values.atime), TimeSpecOf(values.mtime)};
    if (::utimensat(fd, "", times, AT_EMPTY_PATH) != 0) return LastError();
  }
  return {};
}

// Symbolic links, devices and similar objects have no descriptor that can be synced, and neither has a file that an
// unprivileged server may not open. Their metadata reaches the disk with the next sync of any object.
Result<SharedFile> Tree::OpenToSync(Object& object) const {
  if (!parts_.sync_metadata || parts_.volume.in_memory) return nullptr;
  if (object.type() != FileType::kRegular && !object.is_directory()) return nullptr;
  Result<SharedFile> file = object.Reader();
  if (!file && file.error() != Error::kDelay) return nullptr;
  return file;
}

Result<void> Tree::Sync(int fd, bool data_only) {
  if ((data_only ? ::fdatasync(fd) : ::fsync(fd)) == 0) return {};
  const auto error = LastError();
  verifier_->fetch_add(1);
  return error;
}

}  // namespace penstock::fs::posix
