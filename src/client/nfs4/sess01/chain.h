// Splits a COMPOUND that is larger than the sizes of its channel into a chain of requests
// (draft-talpey-nfsv4-rdma-sess-01 §2.7).
#pragma once

#include <cstddef>
#include <limits>
#include <span>
#include <vector>

#include "client/nfs4/operations.h"

namespace penstock::client::v4::sess01 {

// Octets of operations in a request, and of their longest results in its reply.
struct Size {
  size_t request = 0;
  size_t reply = 0;
  bool Fits(const Size& room) const { return request <= room.request && reply <= room.reply; }
  bool operator==(const Size&) const = default;
};

// Nothing limits the size.
inline constexpr Size kUnlimited{std::numeric_limits<size_t>::max(), std::numeric_limits<size_t>::max()};

// Returns the parts of a COMPOUND in their order. `operations` are the sizes of its operations, and `room` is what one
// request has for operations and their results. An operation that is too large by itself gets a request of its own: the
// server decides, because its result may be shorter than the longest one.
std::vector<Part> Split(std::span<const Size> operations, const Size& room);

// The flag of the request with this index in a chain of `count` requests.
nfs4::ChainFlags FlagOf(size_t index, size_t count);

}  // namespace penstock::client::v4::sess01
