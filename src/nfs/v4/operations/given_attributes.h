// The attributes that a client wants an object to have: fattr4 as SETATTR, OPEN and CREATE carry it (RFC 8881 §5,
// §18.30).
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
  // Ready for the file system: owners looked up, mode_umask and (of an object that is to be made) mode_set_masked put
  // into the mode.
  fs::NewAttributes values;
  // mode_set_masked in SETATTR: what it says of the bits in `mode_mask`; the others stay as they are.
  std::optional<nfs4::mode_masked4> masked_mode;
  // The list, its names looked up: for SetAcl().
  std::optional<std::vector<AccessControlEntry>> acl;
  // What was given: attrsset where all of it was set.
  AttributeSet set;
};

enum class AttributeUse : uint8_t {
  kSet,              // SETATTR
  kCreate,           // CREATE, OPEN with UNCHECKED4 or GUARDED4
  kExclusiveCreate,  // OPEN with EXCLUSIVE4_1: what suppattr_exclcreat has (RFC 8881 §5.8.1.14)
};

// For the current filehandle's file system. NFS4ERR_ATTRNOTSUPP: one that is not supported there. NFS4ERR_INVAL: one
// that may not be set, or a value that makes no sense. NFS4ERR_BADXDR: values that cannot be decoded, or that are more
// or less octets than those of the attributes named. NFS4ERR_BADOWNER: nobody is called that.
Task<Result<GivenAttributes, nfs4::nfsstat4>> ReadAttributes(Compound& compound, const nfs4::fattr4& given,
                                                             AttributeUse use);

// Sets the list that was given for `object` of the same file system as `in`, if there is one. Where that fails, it is
// no longer in `given.set`.
Task<nfs4::nfsstat4> SetAcl(const Object& in, const fs::Handle& object, bool is_directory, GivenAttributes& given);

}  // namespace penstock::nfs::v4
