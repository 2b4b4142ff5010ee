// Permission in a served tree. A server of root acts as its callers, and the kernel decides. A server without root's
// rights acts as its own user for all callers, so it compares the rights of other callers with mode bits and access
// control lists itself, as the kernel would (path_resolution(7), unlink(2), rename(2), chmod(2), xattr(7)).
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>

#include "fs/errno.h"
#include "fs/posix/read_acl.h"
#include "fs/posix/tree.h"

namespace penstock::fs::posix {
namespace {

constexpr uint32_t kSticky = 01000;

bool MayAccess(int fd, int mode) { return ::syscall(SYS_faccessat2, fd, "", mode, AT_EMPTY_PATH | AT_EACCESS) == 0; }

Rights Both(const Rights& a, const Rights& b) { return {a.read && b.read, a.write && b.write, a.execute && b.execute}; }

}  // namespace

Credentials Tree::JudgedAs(Object& object, const Attributes& attributes, const Credentials& caller) const {
  if (!server_.Checks(caller)) return server_.Effective(caller);
  const Credentials own = server_.own();
  const bool is_creator =
      attributes.uid == own.uid && object.creator.Admits(caller.uid, std::chrono::steady_clock::now(), object.pinned());
  return is_creator ? own : caller;
}

void Tree::MarkCreator(const Credentials& caller, Object& object) const {
  if (server_.Checks(caller)) object.creator.Set(caller.uid, std::chrono::steady_clock::now());
}

// The mode bits are checked here, without a system call. If there is an access control list, the kernel checks it,
// asked by a thread that acts as the caller; a loop's thread never does so. A caller whom the server checks itself gets
// no right that the server's user lacks.
std::optional<Rights> Tree::RightsTo(Object& object, const Attributes& attributes, const Credentials& caller,
                                     Patience patience) const {
  const Credentials judged = JudgedAs(object, attributes, caller);
  const bool checks = server_.Checks(caller);
  if (judged.uid == 0 && !checks) return RightsOf(attributes, judged);
  const std::optional<bool> has_acl = object.HasAcl(attributes.ctime, patience);
  if (!has_acl) return std::nullopt;
  if (!*has_acl) {
    const Rights rights = RightsOf(attributes, judged);
    return checks ? Both(rights, RightsOf(attributes, server_.own())) : rights;
  }
  if (patience == Patience::kNone) return std::nullopt;
  const AsCaller as_caller(server_, caller);
  const Rights of_thread{MayAccess(object.fd(), R_OK), MayAccess(object.fd(), W_OK), MayAccess(object.fd(), X_OK)};
  if (!checks) return of_thread;
  const Result<Acl> acl = ReadAcl(object.fd(), kAccessAcl);
  if (!acl) return Rights{};
  return Both(acl->empty() ? RightsOf(attributes, judged) : RightsOf(*acl, attributes, judged), of_thread);
}

Result<void> Tree::CheckMayCreate(const Credentials& caller, Object& directory, const std::string& name) {
  if (!server_.Checks(caller)) return {};
  PENSTOCK_TRY(const Stat stat, StatOf(directory));
  const Rights rights = RightsTo(directory, stat.attributes, caller);
  if (!rights.execute) return std::unexpected(Error::kAccess);
  struct stat existing;
  if (::fstatat(directory.fd(), name.c_str(), &existing, AT_SYMLINK_NOFOLLOW) == 0) {
    return std::unexpected(Error::kExist);
  }
  if (!rights.write) return std::unexpected(Error::kAccess);
  return {};
}

Result<void> Tree::CheckMayRemove(const Credentials& caller, Object& directory, const Result<Found>& found,
                                  std::string_view name) {
  if (!server_.Checks(caller)) return {};
  PENSTOCK_TRY(const Stat stat, StatOf(directory));
  const Rights rights = RightsTo(directory, stat.attributes, caller);
  if (!rights.execute) return std::unexpected(Error::kAccess);
  // The kernel will say so.
  if (!found && found.error() == Error::kNoEnt) return {};
  if (!rights.write) return std::unexpected(Error::kAccess);
  if (!found || (stat.attributes.mode & kSticky) == 0 || CountsAsOwner(directory, stat.attributes, caller)) return {};
  PENSTOCK_TRY(const Handle handle, HandleOf(directory, name, *found));
  const ObjectRef object = objects_.Find(handle);
  const Attributes& attributes = found->stat.attributes;
  const bool owner = object ? CountsAsOwner(*object, attributes, caller) : IsOwner(attributes, caller);
  if (!owner) return std::unexpected(Error::kPerm);
  return {};
}

Result<void> Tree::CheckMaySearch(const Credentials& caller, Object& directory) {
  if (!server_.Checks(caller)) return {};
  PENSTOCK_TRY(const Stat stat, StatOf(directory));
  if (!RightsTo(directory, stat.attributes, caller).execute) return std::unexpected(Error::kAccess);
  return {};
}

Result<void> Tree::CheckMayGive(const Credentials& caller, Object& directory, const NewAttributes& values) {
  if (!server_.Checks(caller) || !values.gid || IsMember(caller, *values.gid)) return {};
  PENSTOCK_TRY(const Stat stat, StatOf(directory));
  const bool inherits = (stat.attributes.mode & 02000) != 0;
  if (*values.gid == (inherits ? stat.attributes.gid : server_.own().gid)) return {};
  return std::unexpected(Error::kPerm);
}

Result<void> Tree::CheckMayRename(const Credentials& caller, Object& from, const Result<Found>& moved,
                                  const std::string& from_name, Object& to, const Result<Found>& replaced,
                                  const std::string& to_name) {
  if (!server_.Checks(caller)) return {};
  PENSTOCK_CHECK(CheckMayRemove(caller, from, moved, from_name));
  if (!moved) return {};
  PENSTOCK_CHECK(replaced ? CheckMayRemove(caller, to, replaced, to_name) : CheckMayCreate(caller, to, to_name));
  if (from.handle() == to.handle() || moved->stat.attributes.type != FileType::kDirectory) return {};
  // The ".." of the moved directory changes.
  PENSTOCK_TRY(const Handle handle, HandleOf(from, from_name, *moved));
  PENSTOCK_TRY(const ObjectRef object, *Reach(handle, Patience::kMayBlock));
  if (!RightsTo(*object, moved->stat.attributes, caller).write) return std::unexpected(Error::kAccess);
  return {};
}

// As the kernel with fs.protected_hardlinks (proc_sys_fs(5)): a link keeps a file that its owner wants to remove.
Result<void> Tree::CheckMayLink(const Credentials& caller, Object& file, const Attributes& attributes) {
  if (!server_.Checks(caller) || CountsAsOwner(file, attributes, caller)) return {};
  const bool set_id = (attributes.mode & 04000) != 0 || (attributes.mode & 02010) == 02010;
  const Rights rights = RightsTo(file, attributes, caller);
  if (attributes.type != FileType::kRegular || set_id || !rights.read || !rights.write) {
    return std::unexpected(Error::kPerm);
  }
  return {};
}

Result<void> Tree::CheckMaySet(const Credentials& caller, Object& object, const Attributes& attributes,
                               const NewAttributes& values) {
  if (!server_.Checks(caller)) return {};
  const bool times = values.atime.how == SetTime::How::kGiven || values.mtime.how == SetTime::How::kGiven;
  if (!values.mode && !values.uid && !values.gid && !times) return {};
  if (!CountsAsOwner(object, attributes, caller)) return std::unexpected(Error::kPerm);
  if (values.uid && *values.uid != attributes.uid) return std::unexpected(Error::kPerm);
  if (values.gid && *values.gid != attributes.gid && !IsMember(caller, *values.gid)) {
    return std::unexpected(Error::kPerm);
  }
  return CheckMode(caller, attributes.type, values.mode);
}

Result<void> Tree::CheckMode(const Credentials& caller, FileType type, std::optional<uint32_t> mode) const {
  if (!server_.Checks(caller) || type == FileType::kDirectory) return {};
  if ((mode.value_or(0) & 06000) != 0) return std::unexpected(Error::kPerm);
  return {};
}

// For other objects than files and directories, the kernel gives the error.
Result<void> Tree::CheckMayReadXattrs(const Credentials& caller, Object& object, const Attributes& attributes) {
  if (!server_.Checks(caller) || (object.type() != FileType::kRegular && !object.is_directory())) return {};
  if (!RightsTo(object, attributes, caller).read) return std::unexpected(Error::kAccess);
  return {};
}

Result<void> Tree::CheckMayChangeXattrs(const Credentials& caller, Object& object, const Attributes& attributes) {
  if (!server_.Checks(caller) || (object.type() != FileType::kRegular && !object.is_directory())) return {};
  const bool sticky = object.is_directory() && (attributes.mode & kSticky) != 0;
  if (sticky && !CountsAsOwner(object, attributes, caller)) return std::unexpected(Error::kPerm);
  if (!RightsTo(object, attributes, caller).write) return std::unexpected(Error::kAccess);
  return {};
}

}  // namespace penstock::fs::posix
