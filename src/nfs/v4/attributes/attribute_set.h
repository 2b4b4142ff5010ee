// A set of attribute numbers. It is a bitmap on the wire.
#pragma once

#include <cstdint>

#include "nfs_protocol/number_set.h"
#include "protocol/nfs4_attributes.h"

namespace penstock::nfs::v4 {

using AttributeSet = nfs_protocol::NumberSet<uint32_t>;

}  // namespace penstock::nfs::v4
