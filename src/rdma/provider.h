// Connection set-up: how endpoints come to be. See endpoint.h for what they do then.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/address.h"
#include "base/local_port.h"
#include "base/timer.h"
#include "rdma/endpoint.h"

namespace penstock::rdma {

struct ConnectOptions {
  // For the peer; at most 512 octets over iWARP (RFC 5044 §7.1), 56 in a request and 196 in its answer on InfiniBand and RoCE,
  // where the peer receives it padded with zeros.
  std::vector<std::byte> private_data;
  uint16_t ird = 16;                    // at most so many of the peer's Reads at once
  uint16_t ord = 16;                    // at most so many of ours
  std::vector<PostedReceive> receives;  // in place before the peer can send
  // Over software iWARP. An RDMA device chooses ports itself, as it does for the clients of Linux's kernel.
  LocalPort local_port = LocalPort::kAny;
  // For the whole of Connect(), the peer's answer included; over an adapter for the answer alone, of an Accept() too.
  Duration time_limit = std::chrono::seconds(10);
};

struct ConnectError {
  enum class Kind : uint8_t { kUnreachable, kRefused, kRejected, kTimedOut, kProtocol, kCancelled };
  Kind kind = Kind::kUnreachable;
  std::string detail;                   // for the user: one line
  std::vector<std::byte> private_data;  // kRejected: what the peer said
  // kRejected: what the peer would have wanted (RFC 6581 §9.1), where the provider carries it.
  std::optional<ReadDepths> peer_depths = {};
};

using ConnectResult = Result<std::unique_ptr<Endpoint>, ConnectError>;

// A peer that wants to connect. Destroying it unanswered rejects it.
class ConnectionRequest {
 public:
  virtual ~ConnectionRequest() = default;
  virtual const Address& peer() const = 0;
  virtual ConstBytes private_data() const = 0;
  // What the peer asks for; nothing where the provider does not carry it.
  virtual std::optional<ReadDepths> read_depths() const = 0;
  // The request must live until this has returned. May fail: the peer may have given up meanwhile.
  virtual Task<ConnectResult> Accept(ConnectOptions options) = 0;
  virtual void Reject(std::vector<std::byte> private_data) = 0;
};

class Provider;

class Listener {
 public:
  virtual ~Listener() = default;  // closes
  virtual Address local() const = 0;
  // The next peer whose request has come in whole; null after Close(), which also ends a Next() that waits. One at a
  // time. Slow or malformed peers hold up nobody.
  virtual Task<std::unique_ptr<ConnectionRequest>> Next() = 0;
  virtual void Close() = 0;
  // The same listening address, served by the provider of another loop as well. Each takes a peer in its turn (iWARP, verbs),
  // or whichever is free (sim).
  virtual SetupResult<std::unique_ptr<Listener>> Share(Provider& other) = 0;
};

// Makes connections that live on one loop. Outlives its listeners, requests and endpoints.
class Provider {
 public:
  // Calls of Connect and Accept that have not returned do so now, with kCancelled.
  virtual ~Provider() = default;
  virtual std::string_view name() const = 0;
  virtual BufferPool& buffers() = 0;
  // Whether a peer's Send may invalidate the memory that endpoints register.
  virtual bool remote_invalidation() const { return true; }
  // The provider that connects to `peer`: another one where this only chooses. To be asked anew for every connection.
  virtual SetupResult<Provider*> Toward(const IpAddress& /*peer*/) { return this; }
  virtual Task<ConnectResult> Connect(Address peer, ConnectOptions options) = 0;
  virtual SetupResult<std::unique_ptr<Listener>> Listen(Address local) = 0;
};

}  // namespace penstock::rdma
