// The provider, listener and connection request of the simulated network. Internal to sim.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/address.h"
#include "rdma/sim/network.h"
#include "rdma/sim/side.h"
#include "rdma/sim/stream.h"

namespace penstock::rdma::sim {

// A Connect() or an Accept() that has not returned. The waiting coroutine and the events that end the wait share it.
struct PendingConnection {
  OneShot<ConnectResult> done;

  bool over() const { return done.is_set(); }
  void Finish(ConnectResult result) {
    if (!over()) done.Set(std::move(result));
  }
  void Fail(ConnectError::Kind kind, std::string detail, std::vector<std::byte> private_data = {}) {
    Finish(std::unexpected(ConnectError{kind, std::move(detail), std::move(private_data)}));
  }
};

// A Connect() of a client and its request, or the StepUp() of an initiator and its MPA Request.
struct Attempt : PendingConnection {
  Address from;
  BufferPool* pool = nullptr;  // the pool of the client; valid until over()
  ConnectOptions options;
};

class SimProvider : public Provider {
 public:
  SimProvider(Network& network, IpAddress host) : network_(network), host_(std::move(host)) {}
  ~SimProvider() override;
  std::string_view name() const override { return "sim"; }
  BufferPool& buffers() override { return pool_; }
  Task<ConnectResult> Connect(Address peer, ConnectOptions options) override;
  SetupResult<std::unique_ptr<Listener>> Listen(Address local) override;
  // For a StreamSocket of this network. The MPA Request and its answer are one step each.
  Task<ConnectResult> StepUp(ReleasedSocket socket, StepUpRole role, std::vector<std::byte> last_octets,
                             ConnectOptions options) override;

  const IpAddress& host() const { return host_; }
  // The destructor of this provider cancels `pending`.
  void Watch(const std::shared_ptr<PendingConnection>& pending);
  // Makes the connection that `attempt` asks for. The server at `local` gets its endpoint by `pending`.
  static void Join(Network& network, BufferPool& pool, const Address& local, const std::shared_ptr<Attempt>& attempt,
                   ConnectOptions options, const std::shared_ptr<PendingConnection>& pending);

 private:
  // Handles the arrival of a connection request at `peer`.
  void Request(const std::shared_ptr<Attempt>& attempt, const Address& peer);

  Network& network_;
  const IpAddress host_;
  BufferPool pool_;
  std::vector<std::weak_ptr<PendingConnection>> pending_;
};

class SimListener;

// A listening address, the requests that wait for a listener, and the listeners that wait for a request.
class ListenQueue {
 public:
  std::deque<std::shared_ptr<Attempt>> waiting;
  std::deque<SimListener*> free;  // listeners that wait in Next(), in the order of their calls
  size_t listeners = 0;
};

class SimListener : public Listener {
 public:
  SimListener(Network& network, SimProvider& provider, Address local, std::shared_ptr<ListenQueue> queue);
  ~SimListener() override { Close(); }
  Address local() const override { return local_; }
  Task<std::unique_ptr<ConnectionRequest>> Next() override;
  void Close() final;
  SetupResult<std::unique_ptr<Listener>> Share(Provider& other) override;

  // Ends the waiting Next() with the request of a peer.
  void Give(std::shared_ptr<Attempt> attempt);

 private:
  Network& network_;
  SimProvider& provider_;
  const Address local_;
  const std::shared_ptr<ListenQueue> queue_;
  OneShot<std::unique_ptr<ConnectionRequest>>* next_ = nullptr;  // lives in the frame of Next()
  bool closed_ = false;
};

class SimRequest : public ConnectionRequest {
 public:
  SimRequest(Network& network, SimProvider& provider, Address local, std::shared_ptr<Attempt> attempt)
      : network_(network), provider_(provider), local_(std::move(local)), attempt_(std::move(attempt)) {}
  ~SimRequest() override;
  const Address& peer() const override { return attempt_->from; }
  ConstBytes private_data() const override { return attempt_->options.private_data; }
  std::optional<ReadDepths> read_depths() const override {
    return ReadDepths{attempt_->options.ird, attempt_->options.ord};
  }
  Task<ConnectResult> Accept(ConnectOptions options) override;
  void Reject(std::vector<std::byte> private_data) final;

 private:
  Network& network_;
  SimProvider& provider_;
  const Address local_;
  const std::shared_ptr<Attempt> attempt_;
  bool answered_ = false;
};

}  // namespace penstock::rdma::sim
