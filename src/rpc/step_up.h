// The change of a TCP connection into an RDMA connection, in place ("stepping up": draft-talpey-nfsv4-rdma-sess-01
// §2.3.2, RFC 8881 §18.36.3). The TCP server gives the connection away, and a server of RPC-over-RDMA takes it. Here
// are the parts that they hand over.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/released_socket.h"
#include "rpc/connection_control.h"
#include "rpc/connection_table.h"
#include "rpc/memory_budget.h"
#include "rpc/transport.h"

namespace penstock::rpc {

// A channel for calls to a client that stays the same when its connection changes the transport. Calls that are made
// during the change wait for its end. Both functions belong to the connection's loop.
class LastingBackChannel : public BackChannel {
 public:
  // Ends the change: from now on the calls go over `next`.
  virtual void Continue(std::shared_ptr<BackChannel> next) = 0;
  // The connection is lost, or about to be destroyed. Waiting calls fail.
  virtual void HandleLost() = 0;

 protected:
  using BackChannel::BackChannel;
};

// A TCP connection on its way. The socket is the connection; without its new owner, its loss must be told to
// `back_channel`.
struct SteppingConnection {
  ReleasedSocket socket;
  // Octets to send before RDMA mode: the record with the reply that has granted it.
  std::vector<std::byte> last_octets;
  ConnectionLimits limits;
  uint64_t number = 0;                            // Peer::connection
  std::unique_ptr<ConnectionTable::Place> place;  // busy
  std::unique_ptr<MemoryAccount> memory;          // nothing of it is used
  std::shared_ptr<LastingBackChannel> back_channel;
};

}  // namespace penstock::rpc
