// Access control lists of a served tree. The kernel stores them.
#include <sys/stat.h>
#include <sys/xattr.h>

#include "fs/errno.h"
#include "fs/posix/read_acl.h"
#include "fs/posix/tree.h"

namespace penstock::fs::posix {

Observed<Acls> Tree::GetAcls(const Handle& handle) {
  const auto get = [](Object& object, const Stat& stat) -> Result<Acls> {
    Acls acls;
    // A call by its path would follow a symbolic link.
    if (object.type() != FileType::kSymlink) {
      PENSTOCK_TRY(acls.access, ReadAcl(object.fd(), kAccessAcl));
    }
    if (acls.access.empty()) acls.access = AclOfMode(stat.attributes.mode);
    if (object.is_directory()) {
      PENSTOCK_TRY(acls.defaults, ReadAcl(object.fd(), kDefaultAcl));
    }
    return acls;
  };
  return *Observe<Acls>(handle, Patience::kMayBlock, get);
}

Changed<void> Tree::SetAcls(const Credentials& caller, const Handle& handle, const NewAcls& acls, Touches& touches) {
  return Change<void>(handle, touches, [&](Object& object, const Stat& stat) -> Result<void> {
    if (object.type() == FileType::kSymlink) return std::unexpected(Error::kNotSupported);
    if (acls.access && !IsValid(*acls.access)) return std::unexpected(Error::kInvalid);
    if (acls.defaults && !acls.defaults->empty() && (!object.is_directory() || !IsValid(*acls.defaults))) {
      return std::unexpected(Error::kInvalid);
    }
    if (server_.Checks(caller) && !CountsAsOwner(object, stat.attributes, caller)) return std::unexpected(Error::kPerm);
    object.ForgetAcl();
    SharedFile kept;
    if (acls.access && !server_.acts_as_callers()) {
      PENSTOCK_TRY(kept, object.KeepForWriting());
    }
    if (acls.access) PENSTOCK_CHECK(SetAccessAcl(caller, object, stat.attributes, *acls.access));
    if (acls.defaults && object.is_directory()) PENSTOCK_CHECK(SetDefaultAcl(caller, object, *acls.defaults));
    return {};
  });
}

Result<void> Tree::SetAccessAcl(const Credentials& caller, const Object& object, const Attributes& attributes,
                                const Acl& acl) const {
  const std::vector<std::byte> octets = OctetsOfAcl(acl);
  const ProcPath path(object.fd());
  const AsCaller as_caller(server_, caller);
  if (::setxattr(path.c_str(), kAccessAcl, octets.data(), octets.size(), 0) == 0) return {};
  if (errno != EOPNOTSUPP || !IsMinimal(acl)) return LastError();
  // A file system without lists has modes only.
  if (::chmod(path.c_str(), (attributes.mode & 07000) | ModeOfAcl(acl)) != 0) return LastError();
  return {};
}

Result<void> Tree::SetDefaultAcl(const Credentials& caller, const Object& object, const Acl& acl) const {
  const ProcPath path(object.fd());
  const AsCaller as_caller(server_, caller);
  if (acl.empty()) {
    if (::removexattr(path.c_str(), kDefaultAcl) == 0 || errno == ENODATA || errno == EOPNOTSUPP) return {};
    return LastError();
  }
  const std::vector<std::byte> octets = OctetsOfAcl(acl);
  if (::setxattr(path.c_str(), kDefaultAcl, octets.data(), octets.size(), 0) != 0) return LastError();
  return {};
}

}  // namespace penstock::fs::posix
