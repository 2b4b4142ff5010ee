// The file that an OPEN is about: found or made, before anything is remembered of it.
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
  bool is_own = false;    // made for this OPEN: its opener may do anything with it, whatever its mode
  bool truncate = false;  // it was there, and is to be empty once the open is granted
  AttributeSet set{};     // attributes set while it was made
};

// Finds or makes it, in the current directory or as the current object, and sees whether the caller may have the access that he wants.
// RFC 8881 §18.16.3, §18.16.4.
Task<Result<OpenTarget, nfs4::nfsstat4>> FindOpenTarget(Compound& compound, const nfs4::OPEN4args& arguments,
                                                        const Share& share);

}  // namespace penstock::nfs::v4
