// What peers tell each other when a connection is set up: RFC 8797.
//
//    0                   1                   2                   3
//   +---------------------------------------------------------------+
//   |  f6 ab 0e 18                                                  |
//   +---------------+-------------+-+---------------+---------------+
//   |  version: 1   |  reserved   |R|   send size   | receive size  |  sizes: KiB, less one
//   +---------------+-------------+-+---------------+---------------+
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/bytes.h"
#include "rpc/connection_table.h"

namespace penstock::rpcrdma {

// Inline thresholds where nothing was said (RFC 8166 §3.3.3).
constexpr uint32_t kDefaultThreshold = 1024;
constexpr uint32_t kMaxThreshold = 256 * 1024;

struct PrivateData {
  bool remote_invalidation = false;
  uint32_t send_size = kDefaultThreshold;     // the largest Send that this peer makes
  uint32_t receive_size = kDefaultThreshold;  // the largest that it takes
  bool operator==(const PrivateData&) const = default;

  // Looks for the message anywhere in what the connection manager has delivered, for other layers put things before and
  // after it (§5.2). The defaults where there is none, or none of version 1.
  static PrivateData Parse(ConstBytes delivered);
  // Sizes are rounded down to a KiB; they must lie between the two thresholds above.
  std::vector<std::byte> Serialize() const;
};

// Why a connection is rejected, in words: the private data of the rejection.
std::vector<std::byte> SerializeRejection(rpc::ConnectionTable::Refusal refusal);
// kNone where it says nothing, or nothing that we know.
rpc::ConnectionTable::Refusal ParseRejection(ConstBytes delivered);

// What holds on a connection, seen from one side.
struct Thresholds {
  uint32_t send = kDefaultThreshold;     // no Send of ours is longer
  uint32_t receive = kDefaultThreshold;  // no Send of the peer is
  bool remote_invalidation = false;

  // RFC 8166 §3.3.2, RFC 8797 §4.1, §4.2. `max_message` is what the provider can send at once.
  static Thresholds Agree(const PrivateData& own, const PrivateData& peer, uint32_t max_message);
};

}  // namespace penstock::rpcrdma
