// Tracing: any provider, with a record of its connections in a capture file that Wireshark reads as RPC over RDMA
// without being told anything. For sim and verbs, whose traffic no packet capture can see, and for all where capturing
// is not allowed.
//
// Recorded are: connections set up, with the private data of both sides, and connections refused here; Sends, RDMA
// Writes and RDMA Read Requests as they are posted; the peer's Sends, and the bytes that our Reads have fetched, as
// their completions are polled; the end. An RDMA interface does not show what the peer reads and writes in our memory
// by itself, so that is not in the file: of NFS the server's trace is whole, while the client's lacks what moved in
// chunks. Nor is it known when a request leaves, whether a Write has arrived, or how the provider cuts messages into
// segments: times are those of posting and polling, and where a connection breaks the last requests may never have
// left.
//
// What is not there costs nothing: tracing is this decorator and nowhere else.
#pragma once

#include <memory>

#include "rdma/provider.h"
#include "rdma/trace/file.h"

namespace penstock::rdma::trace {

struct Sink;

class Provider : public rdma::Provider {
 public:
  // `file` and `clock` outlive it and its connections.
  Provider(std::unique_ptr<rdma::Provider> inner, File& file, const TimerService& clock);

  bool remote_invalidation() const override { return inner_->remote_invalidation(); }
  std::string_view name() const override { return inner_->name(); }
  BufferPool& buffers() override { return inner_->buffers(); }
  Task<ConnectResult> Connect(Address peer, ConnectOptions options) override;
  // The listener may be shared with providers that trace and with others.
  SetupResult<std::unique_ptr<Listener>> Listen(Address local) override;

 private:
  friend class TracedListener;
  Sink sink();
  SetupResult<std::unique_ptr<Listener>> Traced(SetupResult<std::unique_ptr<Listener>> listener);

  const std::unique_ptr<rdma::Provider> inner_;
  File& file_;
  const TimerService& clock_;
};

}  // namespace penstock::rdma::trace
