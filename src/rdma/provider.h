// Connection set-up: a Provider connects and listens, and so makes Endpoints (endpoint.h). Each kind of network has its
// own provider.
#pragma once

#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "base/address.h"
#include "base/local_port.h"
#include "base/timer.h"
#include "rdma/endpoint.h"

namespace penstock {
struct ReleasedSocket;
}

namespace penstock::rdma {

struct ConnectOptions {
  // Data for the peer. iWARP carries at most 512 octets (RFC 5044 §7.1). InfiniBand and RoCE carry at most 56 octets in
  // a request and 196 in its answer, and the peer receives them padded with zeros.
  std::vector<std::byte> private_data;
  uint16_t ird = 16;                     // upper limit of the peer's Reads at once
  uint16_t ord = 16;                     // upper limit of this side's Reads at once
  std::vector<ReceiveRequest> receives;  // posted before the peer can send
  // Only software iWARP uses this. An RDMA device chooses the port itself, also for the client of the Linux kernel.
  LocalPort local_port = LocalPort::kAny;
  // Limits the whole of Connect(), the peer's answer included, and the whole of StepUp(). Over an adapter it limits the
  // wait for the answer only, in Connect() and in Accept().
  Duration time_limit = std::chrono::seconds(10);
  // Ends Connect() and StepUp() early, with kCancelled. Requested on the thread of the loop.
  std::stop_token stop{};
};

struct ConnectError {
  enum class Kind : uint8_t { kUnreachable, kRefused, kRejected, kTimedOut, kProtocol, kCancelled };
  Kind kind = Kind::kUnreachable;
  std::string detail;                   // one line for the user
  std::vector<std::byte> private_data;  // kRejected: private data from the peer
  // kRejected: the depths that the peer asks for (RFC 6581 §9.1). Empty if the provider does not carry them.
  std::optional<ReadDepths> peer_depths = {};
};

using ConnectResult = Result<std::unique_ptr<Endpoint>, ConnectError>;

// The request of a peer to connect. Destroying an unanswered request rejects it.
class ConnectionRequest {
 public:
  virtual ~ConnectionRequest() = default;
  virtual const Address& peer() const = 0;
  virtual ConstBytes private_data() const = 0;
  // The depths that the peer asks for. Empty if the provider does not carry them.
  virtual std::optional<ReadDepths> read_depths() const = 0;
  // Accepts the connection. The request must live until the task has finished. Accept() fails, for example, if the peer
  // has given up in the meantime.
  virtual Task<ConnectResult> Accept(ConnectOptions options) = 0;
  virtual void Reject(std::vector<std::byte> private_data) = 0;
};

// The sides of a TCP connection that becomes an RDMA connection. The initiator sends the MPA Request.
enum class StepUpRole : uint8_t { kInitiator, kResponder };

// The most data that a user may ask for in one message. RFC 8797 can announce messages of 256 KiB.
constexpr uint32_t kMostInlineData = 112 << 10;

class Provider;

class Listener {
 public:
  virtual ~Listener() = default;  // closes
  virtual Address local() const = 0;
  // Returns the next complete request of a peer. Returns null after Close(), which also ends a waiting Next(). Only one
  // Next() may wait at a time. A peer whose request is slow or malformed does not delay others.
  virtual Task<std::unique_ptr<ConnectionRequest>> Next() = 0;
  virtual void Close() = 0;
  // Returns a listener on the same address whose endpoints live on `other`, a provider of another loop. The listeners
  // take peers in turn (iWARP, verbs), or the first free listener takes a peer (sim).
  virtual SetupResult<std::unique_ptr<Listener>> Share(Provider& other) = 0;
};

// Makes connections that live on one loop. The provider must outlive its listeners, requests and endpoints.
class Provider {
 public:
  // Ends calls of Connect() and Accept() that have not returned, with kCancelled.
  virtual ~Provider() = default;
  virtual std::string_view name() const = 0;
  virtual BufferPool& buffers() = 0;
  // True if a Send of the peer can invalidate memory that endpoints of this provider register.
  virtual bool remote_invalidation() const { return true; }
  // Data of up to this many octets are best sent in messages. Longer data move faster by RDMA Read and Write, or the
  // messages would take too much memory.
  virtual uint32_t inline_data() const { return 4096; }
  // True if a posted receive holds its memory while it waits for a message.
  virtual bool receives_hold_memory() const { return true; }
  // Returns the provider that connects to `peer`. It is another provider if this one only chooses among others. Ask
  // again for each connection.
  virtual SetupResult<Provider*> Toward(const IpAddress& /*peer*/) { return this; }
  virtual Task<ConnectResult> Connect(Address peer, ConnectOptions options) = 0;
  virtual SetupResult<std::unique_ptr<Listener>> Listen(Address local) = 0;
  // Makes an RDMA connection of a TCP connection that has carried other octets (RFC 5044 §7.1.3). The provider first
  // sends `last_octets`, the end of that conversation: their receiver may use the RDMA connection at once. The socket
  // belongs to the loop of this provider. It is closed if the peer sends anything but the MPA frame that is due, and on
  // every other failure. Only software iWARP can do this; other providers fail with kUnreachable.
  virtual Task<ConnectResult> StepUp(ReleasedSocket socket, StepUpRole role, std::vector<std::byte> last_octets,
                                     ConnectOptions options);
};

}  // namespace penstock::rdma
