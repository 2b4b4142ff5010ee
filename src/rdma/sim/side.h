// One end of a connection of the simulated network. Internal to sim.
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

struct RegionState {
  Stag stag;
  uint64_t offset = 0;
  Bytes memory;
  Access access = Access::kRemoteRead;
  bool valid = true;
  bool invalidating = false;  // PostInvalidate has not completed
};

// Held by its Endpoint and by the events that concern it.
class Side : public std::enable_shared_from_this<Side> {
 public:
  Side(Network& network, BufferPool& pool, std::string name, ConnectionInfo info, std::vector<PostedReceive> receives);
  static void Join(const std::shared_ptr<Side>& a, const std::shared_ptr<Side>& b);
  // The endpoint through which the owner uses this side.
  static std::unique_ptr<Endpoint> MakeEndpoint(std::shared_ptr<Side> side);
  static Side& Of(const Endpoint& endpoint);

  // What Endpoint does.
  const ConnectionInfo& info() const { return info_; }
  const Limits& limits() const { return network_.options_.limits; }
  BufferPool& buffers() { return pool_; }
  void Start(std::function<void()> on_completions);
  void PostReceive(Context context, BufferRef buffer);
  void PostSend(SendRequest request);
  void PostWrite(WriteRequest request);
  void PostRead(ReadRequest request);
  std::unique_ptr<MemoryRegion> Register(Bytes memory, Access access);
  void PostInvalidate(Context context, MemoryRegion& region);
  void Disconnect();
  size_t Poll(std::span<Completion> out) { return ready_.Poll(out); }
  // The owner has destroyed the endpoint.
  void Destroy();

  // Nothing is delivered any more in either direction; both sides learn of it, each after a while of its own.
  void Break(DisconnectReason here, DisconnectReason there, std::string detail);
  void RegionDestroyed(RegionState& region);
  EndpointState Inspect() const;

 private:
  // A Send, a Write, a Read Request or the close, on its way to the peer. All leave in the order of posting.
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
    std::vector<std::byte> staged{};  // holds the bytes where the completion came early
    bool early = false;
    bool completed = false;
    Status if_flushed = Status::kFlushed;
  };
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
  // Completions of one class come in order; those of different classes in any.
  enum Class : size_t { kReceives, kSendsAndWrites, kReads, kInvalidations, kClasses };

  // Runs `method` on this side after `delay`, unless the connection has broken by then.
  void Later(Duration delay, void (Side::*method)());
  bool StepLoses(const char* what);

  void Post(Message message);
  void CompleteEarly();
  void CompleteMessage(const Message& message);
  void KickOutgoing();
  void DeliverNext();
  void FinishMessage();
  // The connection ends where the octets of a request cannot be read.
  void FileFails(Message& message);
  bool CopySegment(Message& message, Bytes to);
  bool DeliverSend(Side& peer, Message& message, size_t segment);
  bool DeliverWrite(Side& peer, Message& message, size_t segment);
  void KickReads();
  void ServeNextRead();
  // What the peer wants of our memory; nothing where it has to be refused.
  std::optional<Bytes> Reach(const RemoteSegment& remote, Access access) const;
  void InvalidateNext();
  void Invalidate(RegionState& region);
  // The peer refuses `request` of ours.
  void Refused(Status& request, const std::string& why);
  size_t SegmentOf(size_t remaining);

  void Complete(Class requests, Completion completion);
  void Release(Class requests);
  void LoseAfter(Duration delay, DisconnectReason reason, std::string detail);
  void Lost(DisconnectReason reason, std::string detail);
  void FlushAll();
  void Ready(Completion completion);
  void NotifySoon();

  Network& network_;
  World& world_;
  BufferPool& pool_;
  const std::string name_;
  const ConnectionInfo info_;
  std::weak_ptr<Side> peer_;

  bool closing_ = false;  // Disconnect() was called
  bool broken_ = false;   // nothing moves any more
  bool lost_ = false;     // and the owner has been told

  std::deque<PostedReceive> receives_;
  std::optional<PostedReceive> receiving_;  // the first segments of a Send are in it
  Status receiving_if_flushed_ = Status::kFlushed;
  std::deque<Message> outgoing_;
  bool delivering_ = false;
  std::deque<Read> reads_waiting_;  // one for each Read Request in outgoing_
  std::deque<Read> reads_out_;      // whose requests the peer has: no more than ORD
  bool serving_ = false;
  std::list<Invalidation> invalidations_;
  std::map<Stag, std::shared_ptr<RegionState>> regions_;

  std::array<std::deque<Completion>, kClasses> completing_;
  std::array<TimePoint, kClasses> last_release_{};
  CompletionQueue ready_;
  bool notification_scheduled_ = false;
};

}  // namespace penstock::rdma::sim
