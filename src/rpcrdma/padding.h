// Header padding: calls that RDMA_MSGP conveys (RFC 5666 §3.9, §4; draft-talpey-nfsv4-rdma-sess-01 §2.8).
//
//   +--------------------+----------------------------+-----+---------------------+------+
//   |  transport header  |  RPC header ... length     | pad |  octets of a WRITE  | ...  |
//   +--------------------+----------------------------+-----+---------------------+------+
//   0                                                       a multiple of the boundary
//
// A pad moves the octets of a payload to a multiple of the boundary, counted from the first octet of the Send. So they
// lie on that boundary in the server's receive buffer, and the server need not read them by RDMA or copy them. Pads
// consist of zeros; a receiver does not look at them.
//
// RFC 8166 §4.6.1 forbids RDMA_MSGP. Peers use it only if they have agreed on a boundary: sessions of the draft agree
// on `headerpadsize`. A padded call has no Read chunks, since their positions would be ambiguous.
#pragma once

#include <cstddef>
#include <cstdint>

#include "rdma/endpoint.h"
#include "rpc/transport.h"

namespace penstock::rpcrdma {

// Payloads of at least this size have a pad. The sentences of RFC 5666 §3.9 differ for a payload of exactly this size
// ("at or above", "exceeds"); the first one holds here. A peer may choose a larger threshold, but no smaller one.
constexpr uint32_t kPaddingThreshold = 512;
// The size of the alignment and the threshold in a header.
constexpr size_t kPaddingTermsSize = 8;

// The terms of a call with a transport header of `header_size` octets. See rpc::kLeastPadding for boundaries.
inline xdr::Padding PaddingOf(uint32_t boundary, size_t header_size) {
  return {.boundary = boundary, .threshold = kPaddingThreshold, .offset = static_cast<uint32_t>(header_size)};
}

// True if a payload of `call` is long enough for a pad, which may be empty.
bool HasPads(const rpc::Message& call, const xdr::Padding& padding);

// The size of the Payload stream with all items of `call`, and with pads.
size_t PaddedSize(const rpc::Message& call, const xdr::Padding& padding);

// Appends that Payload stream to `out`.
void AppendPadded(const rpc::Message& call, const xdr::Padding& padding, rdma::Gather& out);

}  // namespace penstock::rpcrdma
