// The limits of one connection, and its change from TCP to RDMA: what a program may ask of the connection that a call
// came over (draft-talpey-nfsv4-rdma-sess-01 §2.2, §2.3; RFC 8881 §18.36.3, CREATE_SESSION4_FLAG_CONN_RDMA).
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "rpc/xid.h"

namespace penstock::rpc {

// The boundaries that data can be padded to: powers of two in this range.
inline constexpr uint32_t kLeastPadding = 64;
inline constexpr uint32_t kMostPadding = 4096;

// Returns the largest such boundary of at most `most` octets; 0 if there is none.
inline uint32_t PaddingWithin(uint32_t most) {
  const uint32_t boundary = std::bit_floor(std::min(most, kMostPadding));
  return boundary < kLeastPadding ? 0 : boundary;
}

// The limits that the peers of a connection agree on. Sizes are in octets. Over RDMA they count a whole Send, with its
// transport header. Over TCP they count a record without its mark.
struct ConnectionLimits {
  uint32_t max_request = 0;   // the longest message with a call
  uint32_t max_response = 0;  // the longest message with a reply
  uint32_t credits = 0;       // the calls that may be without a reply at once
  // The boundary on which the data of a padded call lie, counted from the first octet of the Send; 0 if calls are not
  // padded (RFC 5666 §3.9). Only over RDMA.
  uint32_t padding = 0;
  uint32_t reads = 0;  // the RDMA Reads that the server may have under way at once. Only over RDMA.
  bool operator==(const ConnectionLimits&) const = default;
};

// Returns `asked` within the limits `most`. A size of 0 asks for the longest possible one. At least one call is
// possible.
inline ConnectionLimits Grant(const ConnectionLimits& asked, const ConnectionLimits& most) {
  const auto size = [](uint32_t wanted, uint32_t limit) { return wanted == 0 ? limit : std::min(wanted, limit); };
  return {.max_request = size(asked.max_request, most.max_request),
          .max_response = size(asked.max_response, most.max_response),
          .credits = std::clamp(asked.credits, 1u, std::max(most.credits, 1u)),
          .padding = PaddingWithin(std::min(asked.padding, most.padding)),
          .reads = std::min(asked.reads, most.reads)};
}

// The most that a server agrees on for an RDMA connection, which keeps a receive for each call.
struct AgreedLimits {
  ConnectionLimits most{};
  // A peer that asks for fewer calls at once than most.credits may make longer calls than most.max_request: up to this
  // size, as long as all of them together take no more octets than the calls of `most`.
  uint32_t longest_call = 0;

  // Grant() within these limits.
  ConnectionLimits Grant(const ConnectionLimits& asked) const {
    ConnectionLimits granted = rpc::Grant(asked, most);
    const uint64_t each = uint64_t{most.max_request} * most.credits / granted.credits;
    const auto longest = static_cast<uint32_t>(std::min<uint64_t>(each, longest_call));
    granted.max_request = std::max(granted.max_request, std::min(asked.max_request, longest));
    return granted;
  }
};

// Belongs to a connection, and to its loop. All functions are called while the call `call` of that connection is
// executed.
class ConnectionControl {
 public:
  virtual ~ConnectionControl() = default;

  // Returns what the connection can grant of `asked`: each limit is at most the one that was asked for, except that a
  // size of 0 asks for the connection's own limit. Sizes that can no longer change are those of the connection: over
  // RDMA, this is so if the peer may already use more than one receive.
  virtual ConnectionLimits Offer(const ConnectionLimits& asked) const = 0;
  // Sets limits that Offer() has returned. They hold from the reply to `call` on: the receives that they need are
  // posted before the reply leaves.
  virtual void Bind(Xid call, const ConnectionLimits& limits) = 0;
  // The peer is about to ask for limits: the reply to `call` does not use up the chance to change the sizes. Over RDMA
  // this matters for a connection that began with one receive: other replies let the peer use more of them.
  virtual void KeepLimitsOpen(Xid /*call*/) {}

  // Returns the octets of the longest reply to `call` that the connection can send, with the RPC header and without the
  // payloads that Write chunks take: what fits in a Send or in the call's Reply chunk. SIZE_MAX if nothing limits it.
  virtual size_t ReplyRoom(Xid call) const = 0;
  // If a Write chunk of `call` takes the n-th payload of the reply, returns the octets of that chunk: the longest
  // payload that the connection can send there. Returns nothing if the payload is a part of the reply itself.
  virtual std::optional<size_t> PayloadRoom(Xid /*call*/, size_t /*n*/) const { return std::nullopt; }

  // If the connection can become an RDMA connection with the reply to `call`, returns what it can then grant of
  // `asked`. Returns nothing over RDMA, if the server makes no such change, or if anything but `call` is under way:
  // another call, a call to the client, or octets that were received after `call`.
  virtual std::optional<ConnectionLimits> OfferStepUp(Xid call, const ConnectionLimits& asked) const = 0;
  // Makes the connection an RDMA connection: posts the receives, sends the reply to `call` as the last record, and then
  // expects an MPA Request (RFC 5044 §7.1.3). `limits` is what OfferStepUp() has returned. The number of the connection
  // (Peer::connection) stays. If octets have arrived behind the call since, or the peer does not send an MPA Request
  // within 5 s, the connection is closed.
  virtual void StepUp(Xid call, const ConnectionLimits& limits) = 0;
};

}  // namespace penstock::rpc
