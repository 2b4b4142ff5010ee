#include "nfs/v4/operations/given_attributes.h"

#include "nfs/v4/attributes/attribute_values.h"
#include "nfs/v4/attributes/convert.h"
#include "nfs/v4/attributes/owner_texts.h"
#include "nfs/v4/operations/attributes.h"

namespace penstock::nfs::v4 {

using namespace nfs4;  // NOLINT: the protocol's own names, RFC 8881

namespace {

// Checks whether a client may give these attributes (RFC 8881 §5.5, §18.30.3; RFC 8275 §4).
nfsstat4 CheckGiven(const AttributeSet& set, const Object& object, const Dialect& dialect, AttributeUse use) {
  if (!SupportedBy(object, dialect).Contains(set)) return NFS4ERR_ATTRNOTSUPP;
  if (!WritableAttributes().Contains(set)) return NFS4ERR_INVAL;
  if (use == AttributeUse::kSet && set.Has(FATTR4_MODE_UMASK)) return NFS4ERR_INVAL;
  if (use != AttributeUse::kSet && set.Intersects(kDelegatedTimes)) return NFS4ERR_INVAL;
  if (use != AttributeUse::kExclusiveCreate) return NFS4_OK;
  const fs::Properties& properties = object.file_system().GetProperties();
  return ExclusiveCreateAttributes(properties, dialect).Contains(set) ? NFS4_OK : NFS4ERR_INVAL;
}

}  // namespace

Task<Result<GivenAttributes, nfsstat4>> ReadAttributes(Compound& compound, const fattr4& given, AttributeUse use) {
  const Object& object = *compound.current;
  const AttributeSet set(given.attrmask);
  const fs::Properties& properties = object.file_system().GetProperties();
  if (const nfsstat4 status = CheckGiven(set, object, compound.dialect, use); status != NFS4_OK) {
    co_return std::unexpected(status);
  }
  DecodedAttributes decoded;
  if (const nfsstat4 status = DecodeAttributes(set, given.attr_vals.bytes(), decoded); status != NFS4_OK) {
    co_return std::unexpected(status);
  }
  if (decoded.values.size && *decoded.values.size > properties.max_file_size) co_return std::unexpected(NFS4ERR_FBIG);

  GivenAttributes result{.values = decoded.values,
                         .masked_mode = decoded.masked_mode,
                         .acl = {},
                         .delegated = decoded.delegated,
                         .set = set};
  OwnerTexts& owners = compound.owners;
  if (decoded.owner) {
    PENSTOCK_CO_TRY(result.values.uid, co_await owners.UserOf(*decoded.owner));
  }
  if (decoded.owner_group) {
    PENSTOCK_CO_TRY(result.values.gid, co_await owners.GroupOf(*decoded.owner_group));
  }
  if (decoded.acl) {
    auto entries = co_await FindIds(owners, *std::move(decoded.acl));
    if (!entries) co_return std::unexpected(entries.error());
    result.acl = *std::move(entries);
  }
  if (result.masked_mode && use != AttributeUse::kSet) {
    result.values.mode = result.masked_mode->mm_value_to_set & result.masked_mode->mm_mask_bits;
    result.masked_mode.reset();
  }
  co_return result;
}

Task<nfsstat4> SetAcl(const Object& in, const fs::Handle& object, bool is_directory, GivenAttributes& given) {
  if (!given.acl) co_return NFS4_OK;
  const AttributeSet which = given.set & kAclAttributes;
  given.set = given.set - which;
  const auto acls = FromNfs(*given.acl, is_directory);
  if (!acls) co_return acls.error();
  const auto changed = co_await in.file_system().SetAcls(in.context(), object, *acls);
  if (!changed.result) co_return ToStatus(changed.result.error());
  given.set = given.set | which;
  co_return NFS4_OK;
}

}  // namespace penstock::nfs::v4
