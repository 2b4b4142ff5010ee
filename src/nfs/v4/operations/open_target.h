// The file of an OPEN: found or made before the tables learn of it.
#pragma once

#include <optional>

#include "base/task.h"
#include "fs/file_system.h"
#include "nfs/v4/attributes/attribute_set.h"
#include "nfs/v4/engine/compound.h"
#include "nfs/v4/state/files/share.h"
#include "protocol/nfs4_0.h"

namespace penstock::nfs::v4 {

struct OpenTarget {
  fs::Handle object;
  nfs4::change_info4 directory{};
  bool is_new = false;    // made by this OPEN
  bool is_own = false;    // made by this OPEN or its earlier attempt: the opener has all rights, regardless of the mode
  bool truncate = false;  // an existing file that is truncated once the open is granted
  AttributeSet set{};     // attributes that were set at its creation
};

// Finds or makes the file, in the current directory or as the current object, and checks the caller's permission (RFC
// 8881 §18.16.3, §18.16.4).
Task<Result<OpenTarget, nfs4::nfsstat4>> FindOpenTarget(Compound& compound, const nfs4::OPEN4args& arguments,
                                                        const Share& share);

}  // namespace penstock::nfs::v4
