// The requester of a connection: it sends calls, offers memory for their chunks and returns their replies (RFC 8166
// §3.5, §4, RFC 8267 §3, §6.7.2). The coroutine Call() runs once per call, from its start until its memory is fenced.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/signal.h"
#include "base/task.h"
#include "base/timer.h"
#include "rpc/connection_control.h"
#include "rpc/transport.h"
#include "rpcrdma/call_plan.h"
#include "rpcrdma/connection.h"
#include "rpcrdma/credits.h"
#include "rpcrdma/pending_calls.h"
#include "rpcrdma/wait_queue.h"
#include "rpcrdma/work_batch.h"

namespace penstock::rpcrdma {

// Detects a peer that has stopped: RFC 8267 §6.7.2.
struct HealthCheck {
  // Makes a probe with this XID. A probe is a call with a short reply and no effect, such as procedure 0 of a program.
  // If this function is set and there are two or more credits, one is reserved for probes. Empty: no checks.
  std::function<rpc::Message(BufferPool&, rpc::Xid)> probe;
  // The requester sends a probe when no reply has arrived for this time (and up to a quarter more), even without calls.
  Duration after = std::chrono::seconds(15);
  // The requester ends the connection when no reply has arrived for this time after the probe.
  Duration limit = std::chrono::seconds(15);
  // A requester with only one credit cannot send a probe while a call uses the credit (RFC 8166 §3.3.1), and that call
  // may be slow. It then ends the connection only when no reply has arrived for this time. Until then, the lower layers
  // detect a peer that has vanished (TCP's keep-alive, the retries of an adapter), and RequesterOptions::call_timeout
  // detects one that hangs.
  Duration patience = std::chrono::minutes(5);
};

struct RequesterOptions {
  uint32_t credits = 64;    // the number to request; as many receives are posted for replies
  size_t min_chunk = 4096;  // payloads of at least this size move by RDMA, even if they would fit inline
  bool chunks = true;       // false: only short messages (RFC 8167 §5.3)
  // The connection begins with one receive and one credit, whatever the peer grants. Bind() posts the receives for the
  // others. For peers that agree on other sizes first (draft-talpey-nfsv4-rdma-sess-01 §2.3.3).
  bool one_receive_first = false;
  // A call without a reply fails with kTimedOut after this time (and up to a quarter more). Zero: no limit.
  Duration call_timeout = Duration::zero();
  HealthCheck health = {};

  // The number of receives to post with the connection.
  uint32_t first_receives() const { return one_receive_first ? 1 : std::max(credits, 1u); }
};

class Requester : public rpc::Channel {
 public:
  // `connection` must outlive the requester.
  Requester(Connection& connection, const RequesterOptions& options);
  ~Requester() override;

  // Sends a call and returns its reply. While the call is under way, the peer may read the call's payloads and write to
  // the destinations of the sinks. Before Call() returns, with any result, all of that memory is fenced: either side
  // has invalidated it, or the connection is lost. The XID of a call that was cancelled or has timed out stays in use
  // until its late reply or the end of the connection.
  Task<Result<rpc::Message, rpc::CallError>> Call(rpc::Message call, rpc::ReplyShape shape) override;

  // Ends a sent call with kCancelled. Does nothing if no such call is under way. If the peer accesses the memory of the
  // call later, the access fails and ends the connection. The credit returns with the late reply.
  void Cancel(rpc::Xid xid);

  // May be called at any time. The next calls request the new number.
  void set_credits(uint32_t credits);
  // Sets the limits that the peer has granted in the reply to a call. See Client::Bind().
  void Bind(const rpc::ConnectionLimits& limits);
  // See Client::ReturnCredits().
  Task<bool> ReturnCredits(uint32_t target);
  const RequesterCredits& credits() const { return credits_; }
  // Pads the payloads of the next calls to this boundary; 0: no pads. The peer must have granted it. See padding.h.
  void SetPadding(uint32_t boundary) { conditions_.padding = boundary; }

  // The connection calls these functions.
  void HandleReply(Received&& message);
  void HandleLost();
  bool Expects(rpc::Xid xid) const { return pending_.Contains(xid); }

 private:
  // The outcome of a call that was sent.
  using Outcome = Result<Received, rpc::CallError>;

  // A call under way. It lives in the frame of Call().
  struct Attempt {
    Header header;
    CallPlan plan;
    std::vector<std::unique_ptr<rdma::MemoryRegion>> regions;
    std::vector<Slice> sinks;          // the memory of the Write chunks
    std::vector<BufferRef> arguments;  // buffers of this requester behind Read chunks
    Slice reply_chunk;
    WorkBatch work;
    OneShot<Outcome> outcome;
    uint64_t sent_at = 0;          // the tick
    uint64_t returned_before = 0;  // RequesterCredits::returned() when the call was sent
  };

  void Offer(Attempt& attempt, rpc::Message& call, const rpc::ReplyShape& shape);
  void OfferCall(Attempt& attempt, rpc::Message& call);
  void OfferReply(Attempt& attempt, const rpc::ReplyShape& shape);
  Segment Register(Attempt& attempt, ConstBytes memory, rdma::Access access);
  // Registers memory and sends the call. The caller has already taken a credit.
  void Begin(Attempt& attempt, rpc::Message& call, const rpc::ReplyShape& shape);
  void PostCall(Attempt& attempt, const rpc::Message& call);
  void PostInvalidations(Attempt& attempt);
  Result<rpc::Message, rpc::CallError> TakeReply(Attempt& attempt, Received& reply);

  void GiveUp(rpc::Xid xid, rpc::CallError error);
  void PostReceives();
  // Gives free credits to calls that wait, or returns them to the peer.
  void PassCreditsOn();
  Task<void> SendEmpty();

  bool checks_health() const { return options_.health.probe != nullptr; }
  void Tick();
  void GiveUpLateCalls();
  void CheckHealth();
  Task<void> Probe();

  Connection& connection_;
  const RequesterOptions options_;
  CallConditions conditions_;
  RequesterCredits credits_;
  uint32_t receives_;
  PendingCalls<Attempt> pending_;
  struct Nothing {};
  WaitQueue<Nothing> waiting_;
  Signal returned_;  // a return of credits may have ended
  // A coarse clock. A tick is a quarter of the shortest limit. The ticker runs only while there are calls or health to
  // watch.
  const Duration tick_;
  std::unique_ptr<Timer> ticker_;
  bool ticking_ = false;
  uint64_t ticks_ = 0;
  // For the health check.
  rpc::Xid last_xid_{};
  bool heard_ = false;                 // a reply has arrived since the last tick
  uint64_t heard_at_ = 0;              // the tick of the last reply
  std::optional<uint64_t> probed_at_;  // the tick of a probe, if no reply has arrived since
};

}  // namespace penstock::rpcrdma
