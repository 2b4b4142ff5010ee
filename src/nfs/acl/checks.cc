#include "nfs/acl/checks.h"

#include "nfs/acl/lists.h"

namespace penstock::nfs::acl {

fs::Result<nfsacl::secattr> ListsOf(const nfs::Target& target, const fs::Observed<fs::Acls>& acls, uint32_t mask) {
  if (!acls.result) return std::unexpected(acls.result.error());
  if ((mask & ~kAllParts) != 0) return std::unexpected(fs::Error::kInvalid);
  if (!target.file_system().GetProperties().acls) return std::unexpected(fs::Error::kNotSupported);
  auto lists = ToSecurityAttributes(*acls.result, *acls.attributes, mask);
  if (!lists) return std::unexpected(fs::Error::kServerFault);
  return *std::move(lists);
}

fs::Result<fs::NewAcls> ListsToSet(const nfs::Target& target, const nfsacl::secattr& given) {
  if (target.read_only()) return std::unexpected(fs::Error::kReadOnly);
  auto acls = FromSecurityAttributes(given);
  if ((given.mask & ~kAllParts) != 0 || !acls) return std::unexpected(fs::Error::kInvalid);
  if (!target.file_system().GetProperties().acls) return std::unexpected(fs::Error::kNotSupported);
  return *std::move(acls);
}

// A list that is too large for the file system needs space that an object does not have.
fs::Error ErrorOfSet(fs::Error error) { return error == fs::Error::kXattrTooBig ? fs::Error::kNoSpace : error; }

}  // namespace penstock::nfs::acl
