// A connection of a host's provider, on its loop: it passes requests to the functions of the host, checks what the host
// tells about them, and makes completions of that. When the connection ends, it completes all requests itself.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/task.h"
#include "base/timer.h"
#include "library/provider/events.h"
#include "library/provider/host_loop.h"
#include "rdma/completion_queue.h"
#include "rdma/provider.h"

namespace penstock::library {

// Exposed memory, shared by the connection and the MemoryRegion of the owner.
struct HostRegion {
  rdma::Stag stag;
  uint64_t offset = 0;
  size_t length = 0;
  bool valid = false;
};

// The loop, its endpoint and waiting coroutines keep it alive.
class HostConnection : public std::enable_shared_from_this<HostConnection> {
 public:
  // A connection that this side begins.
  explicit HostConnection(std::shared_ptr<HostLoop> loop);
  // A connection that a peer asks for.
  HostConnection(std::shared_ptr<HostLoop> loop, uint64_t number, void* endpoint, PeerFacts peer);
  HostConnection(const HostConnection&) = delete;
  HostConnection& operator=(const HostConnection&) = delete;

  uint64_t number() const { return number_; }
  // The peer that asks for the connection.
  const PeerFacts& peer() const { return peer_; }
  // It has ended, or was never made.
  bool over() const { return state_ == State::kOver; }

  // Set-up. Each connection has one of the following calls.
  Task<rdma::ConnectResult> Connect(rdma::Address to, rdma::ConnectOptions options);
  Task<rdma::ConnectResult> Accept(rdma::ConnectOptions options);
  void Reject(ConstBytes private_data);
  // Ends Connect() and Accept() with kCancelled.
  void Cancel();

  // Takes what the host tells.
  void Handle(Event& event);

  // The functions of Endpoint.
  const rdma::ConnectionInfo& info() const { return info_; }
  const rdma::Limits& limits() const { return host().properties().limits; }
  BufferPool& buffers() { return own_buffers_ ? *own_buffers_ : loop_->loop().buffers(); }
  void Start(std::function<void()> on_completions);
  void PostReceive(rdma::ReceiveRequest request);
  void PostSend(rdma::SendRequest request);
  void PostWrite(rdma::WriteRequest request);
  void PostRead(rdma::ReadRequest request);
  std::unique_ptr<rdma::MemoryRegion> Register(Bytes memory, rdma::Access access);
  void PostInvalidate(rdma::Context context, rdma::MemoryRegion& region);
  void Disconnect();
  size_t Poll(std::span<rdma::Completion> out) { return queue_.Poll(out); }
  // Handles the destruction of the endpoint.
  void Destroy();
  // Handles the destruction of a MemoryRegion.
  void Drop(const std::shared_ptr<HostRegion>& region);

  // Calls the owner if the queue has completions.
  void Notify();

 private:
  enum class State : uint8_t { kNew, kConnecting, kRequested, kAccepting, kOpen, kOver };
  // The kind of a request is a part of its number, so that a request is found among those of its kind.
  enum class Kind : uint8_t { kReceive, kOutgoing, kRead, kInvalidation };

  struct Receive {
    uint64_t number = 0;
    rdma::PostedReceive posted;
  };
  // A Send or a Write.
  struct Outgoing {
    uint64_t number = 0;
    rdma::Operation operation = rdma::Operation::kSend;
    rdma::Context context = 0;
    rdma::Gather gather;  // keeps the memory
    bool done = false;    // waits for the completion of earlier ones
  };
  struct Read {
    uint64_t number = 0;
    rdma::ReadRequest request;
  };
  struct Invalidation {
    uint64_t number = 0;
    std::optional<rdma::Context> context;  // none: nobody waits for it
    std::shared_ptr<HostRegion> region;
  };

  HostProvider& host() const { return loop_->host(); }
  uint64_t NextNumber(Kind kind) { return (++requests_ << 2) | static_cast<uint64_t>(kind); }
  static Kind KindOf(uint64_t request) { return static_cast<Kind>(request & 3); }

  // Posts the receives of `options`, and fills the terms with what the host needs of them. The terms are valid as long
  // as the arrays.
  penstock_rdma_terms TermsOf(const rdma::ConnectOptions& options, std::vector<penstock_rdma_receive>& receives);
  // Allocates the memory of a receive, and remembers the receive.
  penstock_rdma_receive AddReceive(const rdma::ReceiveRequest& request);
  // Waits until the connection is open, or has failed.
  Task<rdma::ConnectResult> WaitForOpening(Duration limit, std::stop_token stop);
  // Ends a connection that is not open yet.
  void Abandon(rdma::ConnectError::Kind kind, std::string detail, std::vector<std::byte> private_data = {});

  void HandleConnected(const PeerFacts* peer);
  void HandleReceived(const Event::Received& received);
  void HandleCompleted(uint64_t request);
  void HandleEnded(EndFacts& end);
  // Ends the connection because the host tells something that cannot be.
  void Mistake(std::string_view function, std::string_view what);

  // Whether requests can still go to the host.
  bool takes_requests() const { return state_ == State::kOpen && !disconnecting_; }
  // Posts a Send or a Write of at most `most` octets. `call` takes its number and its pieces, calls the function of the
  // host, and returns what HostProvider::Call() returns.
  template <class Call>
  void PostOutgoing(rdma::Operation operation, rdma::Context context, rdma::Gather gather, uint32_t most, Call call);
  // Passes Reads on as far as the depth allows.
  void PassReads();
  void PassInvalidation(std::optional<rdma::Context> context, const std::shared_ptr<HostRegion>& region);
  // Ends the connection if a function of the host has failed. `request` is the one that it was called for.
  void Check(const char* function, int error, uint64_t request = 0);

  // Ends an open connection, completes all requests, and tells the owner. `culprit`: the request that is the cause,
  // which completes with `status`.
  void End(rdma::DisconnectReason reason, std::string detail, uint64_t culprit = 0,
           rdma::Status status = rdma::Status::kFlushed);
  void Flush(uint64_t culprit, rdma::Status status);
  void Ready(rdma::Completion completion);

  const std::shared_ptr<HostLoop> loop_;
  const std::shared_ptr<BufferPool> own_buffers_ = loop_->own_buffers();  // null: the host has none
  const uint64_t number_;
  State state_ = State::kNew;
  void* endpoint_ = nullptr;  // the host's name; null if it has none, or has it no more
  PeerFacts peer_;            // that asks for the connection
  rdma::ReadDepths asked_;    // in Connect()
  rdma::ConnectionInfo info_;
  OneShot<rdma::ConnectResult> opened_;

  bool disconnecting_ = false;
  std::unique_ptr<Timer> disconnect_limit_;
  uint64_t requests_ = 0;
  std::deque<Receive> receives_;
  std::deque<Outgoing> outgoing_;
  std::deque<Read> reads_;                       // the host has them
  std::deque<rdma::ReadRequest> waiting_reads_;  // more than the depth allows
  std::vector<Invalidation> invalidations_;
  std::unordered_map<rdma::Stag, std::shared_ptr<HostRegion>> regions_;  // valid ones
  std::vector<penstock_rdma_piece> pieces_;                              // used again for each request
  rdma::CompletionQueue queue_;
  bool notification_due_ = false;
};

}  // namespace penstock::library
