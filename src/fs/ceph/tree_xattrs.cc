// The methods of Tree for extended attributes and access control lists.
#include <sys/xattr.h>

#include <algorithm>
#include <cerrno>

#include "fs/acl_octets.h"
#include "fs/ceph/tree.h"
#include "fs/names.h"

namespace penstock::fs::ceph {
namespace {

constexpr std::string_view kPrefix = "user.";
// As Linux: XATTR_SIZE_MAX.
constexpr size_t kLongest = 65536;

bool HasXattrs(FileType type) { return type == FileType::kRegular || type == FileType::kDirectory; }

std::string FullName(std::string_view name) { return std::string(kPrefix).append(name); }

}  // namespace

Observed<std::vector<std::byte>> Tree::GetXattr(const Credentials& caller, const Handle& handle,
                                                std::string_view name) {
  const auto get = [&](const Call& call, const Reached& reached) -> Result<std::vector<std::byte>> {
    PENSTOCK_CHECK(CheckXattrName(name));
    if (!HasXattrs(reached.object->type())) return std::unexpected(Error::kNoXattr);
    PENSTOCK_TRY(const Rights rights, RightsTo(call, reached, caller));
    if (!rights.read) return std::unexpected(Error::kAccess);
    std::vector<std::byte> value;
    const int code = call.client().GetXattr(kAsRoot, reached.object->inode(), FullName(name), value);
    if (code < 0) return Failed(call, code);
    return value;
  };
  return Observe<std::vector<std::byte>>(handle, get);
}

Changed<void> Tree::SetXattr(const Credentials& caller, const Handle& handle, std::string_view name, ConstBytes value,
                             XattrMode mode) {
  return Change<void>(handle, [&](const Call& call, const Reached& reached) -> Result<void> {
    PENSTOCK_CHECK(CheckXattrName(name));
    if (!HasXattrs(reached.object->type())) return std::unexpected(Error::kPerm);
    if (value.size() > kLongest) return std::unexpected(Error::kXattrTooBig);
    const int flags = mode == XattrMode::kCreate ? XATTR_CREATE : mode == XattrMode::kReplace ? XATTR_REPLACE : 0;
    const int code = call.client().SetXattr(caller, reached.object->inode(), FullName(name), value, flags);
    // The MDS limits the sum of an object's attributes (mds_max_xattr_pairs_size).
    if (code == -ENOSPC) return std::unexpected(Error::kXattrTooBig);
    return ResultOf(call, code);
  });
}

Changed<void> Tree::RemoveXattr(const Credentials& caller, const Handle& handle, std::string_view name) {
  return Change<void>(handle, [&](const Call& call, const Reached& reached) -> Result<void> {
    PENSTOCK_CHECK(CheckXattrName(name));
    if (!HasXattrs(reached.object->type())) return std::unexpected(Error::kPerm);
    return ResultOf(call, call.client().RemoveXattr(caller, reached.object->inode(), FullName(name)));
  });
}

Observed<std::vector<std::string>> Tree::ListXattrs(const Credentials& caller, const Handle& handle) {
  const auto list = [&](const Call& call, const Reached& reached) -> Result<std::vector<std::string>> {
    std::vector<std::string> names;
    if (!HasXattrs(reached.object->type())) return names;
    PENSTOCK_TRY(const Rights rights, RightsTo(call, reached, caller));
    if (!rights.read) return std::unexpected(Error::kAccess);
    std::vector<std::string> all;
    if (const int code = call.client().ListXattrs(kAsRoot, reached.object->inode(), all); code < 0) {
      return Failed(call, code);
    }
    for (const std::string& each : all) {
      if (each.starts_with(kPrefix)) names.push_back(each.substr(kPrefix.size()));
    }
    std::ranges::sort(names);
    return names;
  };
  return Observe<std::vector<std::string>>(handle, list);
}

Observed<Acls> Tree::GetAcls(const Handle& handle) {
  return Observe<Acls>(handle, [&](const Call& call, const Reached& reached) -> Result<Acls> {
    Acls acls;
    PENSTOCK_TRY(acls.access, AclOf(call, reached.object, kAccessAcl));
    if (acls.access.empty()) acls.access = AclOfMode(reached.attributes.mode);
    if (reached.object->is_directory()) {
      PENSTOCK_TRY(acls.defaults, AclOf(call, reached.object, kDefaultAcl));
    }
    return acls;
  });
}

Changed<void> Tree::SetAcls(const Credentials& caller, const Handle& handle, const NewAcls& acls) {
  return Change<void>(handle, [&](const Call& call, const Reached& reached) -> Result<void> {
    if (reached.object->type() == FileType::kSymlink) return std::unexpected(Error::kNotSupported);
    if (acls.access && !IsValid(*acls.access)) return std::unexpected(Error::kInvalid);
    if (acls.defaults && !acls.defaults->empty() && (!reached.object->is_directory() || !IsValid(*acls.defaults))) {
      return std::unexpected(Error::kInvalid);
    }
    if (!IsOwner(reached.attributes, caller)) return std::unexpected(Error::kPerm);
    Client& client = call.client();
    Inode* const inode = reached.object->inode();
    if (acls.access) {
      const int code = client.SetXattr(caller, inode, kAccessAcl, OctetsOfAcl(*acls.access), 0);
      PENSTOCK_CHECK(ResultOf(call, code));
    }
    if (acls.defaults && acls.defaults->empty() && reached.object->is_directory()) {
      const int code = client.RemoveXattr(caller, inode, kDefaultAcl);
      if (code != -ENODATA) return ResultOf(call, code);
    } else if (acls.defaults && !acls.defaults->empty()) {
      return ResultOf(call, client.SetXattr(caller, inode, kDefaultAcl, OctetsOfAcl(*acls.defaults), 0));
    }
    return {};
  });
}

}  // namespace penstock::fs::ceph
