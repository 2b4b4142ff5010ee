// Transaction ids, RFC 5531 §9.
#pragma once

#include <cstdint>

#include "base/strong.h"

namespace penstock::rpc {

using Xid = Strong<struct XidTag, uint32_t>;

// Assigns the XIDs of a connection's calls in one direction, so that calls under way have different XIDs.
class XidSequence {
 public:
  explicit XidSequence(Xid first) : next_(first.value()) {}
  Xid Next() { return Xid(next_++); }

 private:
  uint32_t next_;
};

}  // namespace penstock::rpc
