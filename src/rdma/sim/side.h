// One end of a connection of the simulated network: it keeps the posted requests, moves their octets to the other end,
// and completes them. Internal to sim.
#pragma once

#include <array>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "rdma/completion_queue.h"
#include "rdma/sim/network.h"

namespace penstock::rdma::sim {

// A region of memory, shared by the Side and the MemoryRegion of the owner.
struct RegionState {
  Stag stag;
  uint64_t offset = 0;
  Bytes memory;
  Access access = Access::kRemoteRead;
  bool valid = true;
  bool invalidating = false;  // PostInvalidate has not completed
};

// The Endpoint and the scheduled events of a Side keep it alive.
class Side : public std::enable_shared_from_this<Side> {
 public:
  Side(Network& network, BufferPool& pool, std::string name, ConnectionInfo info,
       const std::vector<ReceiveRequest>& receives);
  // Makes the two sides peers of each other.
  static void Join(const std::shared_ptr<Side>& a, const std::shared_ptr<Side>& b);
  // Makes the endpoint through which the owner uses `side`.
  static std::unique_ptr<Endpoint> MakeEndpoint(std::shared_ptr<Side> side);
  // The side of an endpoint that MakeEndpoint() has made.
  static Side& Of(const Endpoint& endpoint);

  // The functions of Endpoint.
  const ConnectionInfo& info() const { return info_; }
  const Limits& limits() const { return network_.options_.limits; }
  BufferPool& buffers() { return pool_; }
  void Start(std::function<void()> on_completions);
  void PostReceive(ReceiveRequest request);
  void PostSend(SendRequest request);
  void PostWrite(WriteRequest request);
  void PostRead(ReadRequest request);
  std::unique_ptr<MemoryRegion> Register(Bytes memory, Access access);
  void PostInvalidate(Context context, MemoryRegion& region);
  void Disconnect();
  size_t Poll(std::span<Completion> out) { return ready_.Poll(out); }
  // Handles the destruction of the endpoint by its owner.
  void Destroy();

  // Ends the connection: from now on nothing is delivered in either direction. Each side learns of the loss after a
  // delay of its own, this one with the reason `here`, the peer with the reason `there`.
  void Break(DisconnectReason here, DisconnectReason there, std::string detail);
  // Handles the destruction of a MemoryRegion by its owner.
  void RegionDestroyed(RegionState& region);
  EndpointState Inspect() const;

 private:
  // A Send, a Write, a Read Request or the close on its way to the peer. Messages leave in the order of posting.
  struct Message {
    enum class Kind : uint8_t { kSend, kWrite, kReadRequest, kClose };
    Kind kind = Kind::kClose;
    Context context = 0;
    Gather gather{};
    size_t size = 0;
    size_t delivered = 0;
    RemoteSegment remote{};
    bool solicited = false;
    std::optional<Stag> invalidate{};
    bool early = false;               // completes before the peer has it
    std::vector<std::byte> staged{};  // the octets of an early message, whose memory is free after its completion
    bool completed = false;
    Status if_flushed = Status::kFlushed;  // the status of its completion if the connection is lost
  };
  // A Read of this side.
  struct Read {
    ReadRequest request;
    size_t placed = 0;
    Status if_flushed = Status::kFlushed;
  };
  struct Invalidation {
    Context context;
    std::shared_ptr<RegionState> region;
    Status if_flushed = Status::kFlushed;
  };
  // Completions of the same class come in order. The order of completions of different classes is random.
  enum Class : size_t { kReceives, kSendsAndWrites, kReads, kInvalidations, kClasses };

  // Runs `method` on this side after `delay`, unless the connection is broken by then.
  void Later(Duration delay, void (Side::*method)());
  // Counts a step of the network. Returns true if the plan of faults loses the connection at this step.
  bool StepLoses(const char* step);

  void Post(Message message);
  void CompleteEarly();
  void CompleteMessage(const Message& message);
  void KickOutgoing();
  void DeliverNext();
  void FinishMessage();
  // Ends the connection because the file of a message cannot be read.
  void FileFails(Message& message);
  // Copies the next octets of a message to the peer's memory. Returns false, and ends the connection, if its file
  // cannot be read.
  bool CopySegment(Message& message, Bytes to);
  // These two return false if the peer refuses the message.
  bool DeliverSend(Side& peer, Message& message, size_t segment);
  bool DeliverWrite(Side& peer, Message& message, size_t segment);
  void KickReads();
  void ServeNextRead();
  // Memory of this side for an access of the peer. Returns nullopt if the access must be refused.
  std::optional<Bytes> Reach(const RemoteSegment& remote, Access access) const;
  void InvalidateNext();
  void Invalidate(RegionState& region);
  // Ends the connection because the peer refuses a request of this side. `if_flushed` is that of the request.
  void Refused(Status& if_flushed, const std::string& why);
  // The size of the next segment of a message with `remaining` octets.
  size_t SegmentOf(size_t remaining);

  // Completes a request of class `requests` after a random delay, when Release() runs.
  void Complete(Class requests, Completion completion);
  void Release(Class requests);
  void LoseAfter(Duration delay, DisconnectReason reason, std::string detail);
  void Lost(DisconnectReason reason, std::string detail);
  void FlushAll();
  // A buffer for a message of `size` octets of the peer.
  BufferRef MakeMessage(size_t size);
  // Hands a completion to the owner.
  void Ready(Completion completion);
  // Schedules the notification of the owner if it is due.
  void NotifySoon();

  Network& network_;
  World& world_;
  BufferPool& pool_;
  const std::string name_;
  const ConnectionInfo info_;
  std::weak_ptr<Side> peer_;

  bool closing_ = false;  // Disconnect() was called
  bool broken_ = false;   // nothing is delivered any more
  bool lost_ = false;     // broken, and the owner has the completion kDisconnected

  std::deque<ReceiveRequest> receives_;
  std::optional<PostedReceive> receiving_;  // holds the first segments of a Send
  Status receiving_if_flushed_ = Status::kFlushed;
  std::deque<Message> outgoing_;
  bool delivering_ = false;
  std::deque<Read> reads_waiting_;  // one for each Read Request in outgoing_
  std::deque<Read> reads_out_;      // the peer has their requests; no more than ORD
  bool serving_ = false;
  std::list<Invalidation> invalidations_;
  std::map<Stag, std::shared_ptr<RegionState>> regions_;

  std::array<std::deque<Completion>, kClasses> completing_;
  std::array<TimePoint, kClasses> last_release_{};
  CompletionQueue ready_;
  bool notification_scheduled_ = false;
};

}  // namespace penstock::rdma::sim
