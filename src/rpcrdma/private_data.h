// The private data that peers exchange when they set up a connection: RFC 8797. Both sides announce their buffer sizes,
// and whether they support remote invalidation.
//
//    0                   1                   2                   3
//   +---------------------------------------------------------------+
//   |  f6 ab 0e 18                                                  |
//   +---------------+-------------+-+---------------+---------------+
//   |  version: 1   |  reserved   |R|   send size   | receive size  |  sizes: in KiB, minus one
//   +---------------+-------------+-+---------------+---------------+
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/bytes.h"
#include "rpc/connection_control.h"
#include "rpc/connection_table.h"

namespace penstock::rpcrdma {

// The inline threshold of a peer that sends no private data (RFC 8166 §3.3.3).
constexpr uint32_t kDefaultThreshold = 1024;
constexpr uint32_t kMaxThreshold = 256 * 1024;
// The inline threshold of Linux, which Penstock can always afford.
constexpr uint32_t kUsualThreshold = 4096;

struct PrivateData {
  bool remote_invalidation = false;
  uint32_t send_size = kDefaultThreshold;     // the largest Send that this peer makes
  uint32_t receive_size = kDefaultThreshold;  // the largest Send that this peer can receive
  bool operator==(const PrivateData&) const = default;

  // The sizes of messages that hold data of up to `data` octets, with what surrounds them. At most
  // rdma::kMostInlineData.
  static PrivateData ForInlineData(uint32_t data);

  // Finds the private data anywhere in the octets that the connection manager has delivered, because other layers may
  // put their own data before and after it (§5.2). Returns the defaults if there is no private data of version 1.
  static PrivateData Parse(ConstBytes delivered);
  // Rounds the sizes down to KiB. They must lie between the two thresholds above.
  std::vector<std::byte> Serialize() const;
};

// The private data that peers with these limits would have exchanged: those of the client, and those of the server.
PrivateData ClientDataOf(const rpc::ConnectionLimits& limits);
PrivateData ServerDataOf(const rpc::ConnectionLimits& limits);

// Serializes the reason for a rejection as text, for the private data of the rejection.
std::vector<std::byte> SerializeRejection(rpc::ConnectionTable::Refusal refusal);
// Returns kNone if the private data of a rejection has no known reason.
rpc::ConnectionTable::Refusal ParseRejection(ConstBytes delivered);

// The agreed properties of a connection, as one side sees them.
struct Thresholds {
  uint32_t send = kDefaultThreshold;     // the longest Send of this side
  uint32_t receive = kDefaultThreshold;  // the longest Send of the peer
  bool remote_invalidation = false;

  // RFC 8166 §3.3.2, RFC 8797 §4.1, §4.2. `max_message` is the longest message that the provider can send.
  static Thresholds Agree(const PrivateData& own, const PrivateData& peer, uint32_t max_message);
};

}  // namespace penstock::rpcrdma
