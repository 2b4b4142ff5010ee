// Tracing: a decorator of any provider that records its connections in a capture file. Wireshark reads the file as RPC
// over RDMA without any setting. A packet capture cannot see the traffic of sim and verbs, and often a user may not
// capture packets at all.
//
// The file holds:
//   - the set-up of each connection with the private data of both sides, and the connections that this side refuses,
//   - our Sends, RDMA Writes and RDMA Read Requests, when the owner posts them,
//   - the peer's Sends and the octets that our Reads have fetched, when the owner polls their completions,
//   - the end of each connection.
//
// The file does not hold the peer's Reads and Writes in our memory, because an RDMA interface does not show them. So
// the trace of an NFS server is complete, and the trace of a client lacks the data in chunks. The interface also does
// not show when a request leaves, whether a Write has arrived, or how the provider cuts messages into segments. The
// times are those of posting and polling. If a connection breaks, its last requests in the file may never have left.
//
// No other code knows about tracing, and a connection that is not recorded is that of the traced provider itself. So a
// program that does not trace pays nothing for it.
#pragma once

#include <memory>

#include "rdma/provider.h"
#include "rdma/trace/file.h"
#include "rdma/trace/recording.h"

namespace penstock::rdma::trace {

struct Sink;

class Provider : public rdma::Provider {
 public:
  // Records the connections that `recording` chooses; `clock` must outlive this provider and its connections.
  Provider(std::unique_ptr<rdma::Provider> inner, std::shared_ptr<const Recording> recording,
           const TimerService& clock);
  // Records all connections. `file` and `clock` must outlive this provider and its connections.
  Provider(std::unique_ptr<rdma::Provider> inner, File& file, const TimerService& clock);

  bool remote_invalidation() const override { return inner_->remote_invalidation(); }
  std::string_view name() const override { return inner_->name(); }
  uint32_t inline_data() const override { return inner_->inline_data(); }
  bool receives_hold_memory() const override { return inner_->receives_hold_memory(); }
  BufferPool& buffers() override { return inner_->buffers(); }
  Task<ConnectResult> Connect(Address peer, ConnectOptions options) override;
  // The listener can be shared with providers that trace and with providers that do not.
  SetupResult<std::unique_ptr<Listener>> Listen(Address local) override;
  // Records the connections of a listener of the inner provider. Passes an error on.
  SetupResult<std::unique_ptr<Listener>> Traced(SetupResult<std::unique_ptr<Listener>> listener);
  Task<ConnectResult> StepUp(ReleasedSocket socket, StepUpRole role, std::vector<std::byte> last_octets,
                             ConnectOptions options) override;

 private:
  friend class TracedListener;
  // What records a connection with this peer; nothing if it is not to be recorded.
  std::optional<Sink> SinkFor(const IpAddress& peer);

  const std::unique_ptr<rdma::Provider> inner_;
  const std::shared_ptr<const Recording> recording_;
  const TimerService& clock_;
};

}  // namespace penstock::rdma::trace
