// Access control lists of memory::FileSystem.
#include "fs/memory/change.h"

namespace penstock::fs::memory {

Task<Observed<Acls>> FileSystem::GetAcls(const RequestContext&, const Handle& object) {
  co_return Observe<Acls>(object, [](Inode& inode) -> Result<Acls> {
    return Acls{inode.acl.empty() ? AclOfMode(inode.attributes.mode) : inode.acl, inode.defaults};
  });
}

Task<Changed<void>> FileSystem::SetAcls(const RequestContext& context, const Handle& object, const NewAcls& acls) {
  co_return Change<void>(object, [&](Inode& inode) -> Result<void> {
    Attributes& attributes = inode.attributes;
    if (attributes.type == FileType::kSymlink) return std::unexpected(Error::kNotSupported);
    if (!IsOwner(attributes, context.credentials)) return std::unexpected(Error::kPerm);
    if (acls.access && !IsValid(*acls.access)) return std::unexpected(Error::kInvalid);
    if (acls.defaults && !acls.defaults->empty() && (!inode.is_directory() || !IsValid(*acls.defaults))) {
      return std::unexpected(Error::kInvalid);
    }
    if (acls.access) {
      attributes.mode = (attributes.mode & 07000) | ModeOfAcl(*acls.access);
      inode.acl = IsMinimal(*acls.access) ? Acl{} : *acls.access;
    }
    if (acls.defaults) inode.defaults = *acls.defaults;
    Touch(inode, false);
    return {};
  });
}

}  // namespace penstock::fs::memory
