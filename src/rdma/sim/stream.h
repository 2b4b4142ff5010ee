// Simulated TCP connections. They lie on the same Network as the RDMA connections, share its latency and its faults,
// and can become RDMA connections in place (Provider::StepUp()).
#pragma once

#include <array>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <utility>
#include <variant>
#include <vector>

#include "base/released_socket.h"
#include "rdma/sim/network.h"

namespace penstock::rdma::sim {

struct Attempt;
struct PendingConnection;
class SimProvider;
class Stream;

// One end of a TCP connection. It sends and receives whole messages, in their order. Each delivery is a step of the
// network, which may lose the connection.
class StreamSocket final : public SimulatedSocket {
 public:
  class Owner {
   public:
    virtual void HandleReceived(std::vector<std::byte> octets) = 0;
    // The peer has closed the connection, or the network has lost it.
    virtual void HandleClosed() = 0;

   protected:
    ~Owner() = default;
  };

  // Connects to a listener from the host of `provider`, which is a provider of this network. Returns null if the
  // network or its plan of failures prevents that.
  static Task<std::unique_ptr<StreamSocket>> Connect(Network& network, Provider& provider, Address peer);

  // Closes the connection.
  ~StreamSocket() override;

  const Address& local() const { return local_; }
  const Address& peer() const { return peer_; }
  bool closed() const { return closed_; }

  // Both functions of `owner` are called from events. Messages that have arrived before wait for the owner. `owner`
  // outlives the socket, or is replaced by null.
  void set_owner(Owner* owner);
  void Send(std::vector<std::byte> octets);
  // The owner gets no call for this.
  void Close();

  // Gives the connection away, for StepUp().
  static ReleasedSocket Release(std::unique_ptr<StreamSocket> socket);

 private:
  friend class SimProvider;
  friend class Stream;
  friend class StreamListener;

  StreamSocket(std::shared_ptr<Stream> stream, size_t end, Address local, Address peer);
  void Receive(std::vector<std::byte> octets);
  // Gives the owner one message that has waited. Returns false if there is none.
  bool GiveWaiting();
  void ReceiveRequest(const std::shared_ptr<Attempt>& attempt);
  void HandleEnd();
  // The other functions do nothing from now on: an RDMA connection has taken the place of this one.
  void HandleSteppedUp() { closed_ = true; }

  const std::shared_ptr<Stream> stream_;
  const size_t end_;
  const Address local_;
  const Address peer_;
  Owner* owner_ = nullptr;
  std::deque<std::vector<std::byte>> waiting_;
  bool closed_ = false;
  // StepUp() under way: it fails if the connection ends.
  std::shared_ptr<PendingConnection> stepping_;
  // The responder in StepUp() takes the MPA Request.
  std::function<void(const std::shared_ptr<Attempt>&)> accept_;
};

// Hands accepted connections to a function. At most one listener may have an address.
class StreamListener {
 public:
  using Accept = std::function<void(std::unique_ptr<StreamSocket>)>;
  StreamListener(Network& network, Address local, Accept accept);
  ~StreamListener();
  StreamListener(const StreamListener&) = delete;
  StreamListener& operator=(const StreamListener&) = delete;

 private:
  friend class StreamSocket;
  Network& network_;
  const Address local_;
  const Accept accept_;
};

// The connection between two ends. Internal to sim.
class Stream : public std::enable_shared_from_this<Stream> {
 public:
  explicit Stream(Network& network) : network_(network) {}

  struct Close {};
  using Item = std::variant<std::vector<std::byte>, std::shared_ptr<Attempt>, Close>;
  // Sends an item to the other end than `from`.
  void Send(size_t from, Item item);
  // Nothing is delivered any more, in either direction. Each end learns of the loss after a delay of its own.
  void Lose();
  // Gives an end all messages that have waited for its owner.
  void GiveWaiting(size_t end) {
    while (ends_[end] && ends_[end]->GiveWaiting()) {
    }
  }
  // An RDMA connection takes the place of this one.
  void HandleSteppedUp();
  // Whether one of the ends is open and the connection is that of this host.
  bool IsOf(const IpAddress& host) const;
  void Detach(size_t end) { ends_[end] = nullptr; }
  void Attach(size_t end, StreamSocket& socket) { ends_[end] = &socket; }
  Network& network() { return network_; }

 private:
  void Deliver(size_t to, Item& item);

  Network& network_;
  std::array<StreamSocket*, 2> ends_{};
  std::array<TimePoint, 2> arrivals_{};  // the last arrival at each end: messages do not overtake each other
  bool over_ = false;
};

}  // namespace penstock::rdma::sim
