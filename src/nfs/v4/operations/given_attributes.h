// The attributes that a client sets: the fattr4 in SETATTR, OPEN and CREATE (RFC 8881 §5, §18.30).
#pragma once

#include <optional>
#include <vector>

#include "base/task.h"
#include "fs/types.h"
#include "nfs/v4/attributes/acl.h"
#include "nfs/v4/attributes/attribute_set.h"
#include "nfs/v4/engine/compound.h"

namespace penstock::nfs::v4 {

struct GivenAttributes {
  // The values for the file system. Owners are looked up; mode_umask, and mode_set_masked of a new object, are applied
  // to the mode.
  fs::NewAttributes values;
  // mode_set_masked in SETATTR: the values of the bits in `mode_mask`. The other bits stay unchanged.
  std::optional<nfs4::mode_masked4> masked_mode;
  // The access control list with its names looked up, for SetAcl().
  std::optional<std::vector<AccessControlEntry>> acl;
  // The times that the holder of a write delegation reports, in SETATTR only (RFC 9754 §5).
  DelegatedTimes delegated;
  // The given attributes: the value of attrsset if all of them were set.
  AttributeSet set;
};

enum class AttributeUse : uint8_t {
  kSet,              // SETATTR
  kCreate,           // CREATE, OPEN with UNCHECKED4 or GUARDED4
  kExclusiveCreate,  // OPEN with EXCLUSIVE4_1: the attributes in suppattr_exclcreat (RFC 8881 §5.8.1.14)
};

// Decodes and checks attributes for the current filehandle's file system. Errors: NFS4ERR_ATTRNOTSUPP for an
// unsupported attribute. NFS4ERR_INVAL for an attribute that may not be set, or an invalid value. NFS4ERR_BADXDR for
// values that cannot be decoded, or whose total length is wrong. For owners, those of OwnerTexts::UserOf().
Task<Result<GivenAttributes, nfs4::nfsstat4>> ReadAttributes(Compound& compound, const nfs4::fattr4& given,
                                                             AttributeUse use);

// Sets the given access control list, if any, on `object` of the same file system as `in`. On failure, removes it from
// `given.set`.
Task<nfs4::nfsstat4> SetAcl(const Object& in, const fs::Handle& object, bool is_directory, GivenAttributes& given);

}  // namespace penstock::nfs::v4
