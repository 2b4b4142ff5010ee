// The side that calls: RFC 8166 §3.5, §4; RFC 8267 §3, §6.7.2. One coroutine per call, Call(), is the call's whole life.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/task.h"
#include "base/timer.h"
#include "rpc/transport.h"
#include "rpcrdma/call_plan.h"
#include "rpcrdma/connection.h"
#include "rpcrdma/credits.h"
#include "rpcrdma/pending_calls.h"
#include "rpcrdma/wait_queue.h"
#include "rpcrdma/work_batch.h"

namespace penstock::rpcrdma {

// Whether the peer is still there: RFC 8267 §6.7.2.
struct HealthCheck {
  // Makes a call with this XID that every server answers at once, briefly, and without doing anything: procedure 0 of a
  // program. Where there is such a function, one credit is kept for it, of two or more. Empty: no checks.
  std::function<rpc::Message(BufferPool&, rpc::Xid)> probe;
  // When no reply has come for this long (and up to a quarter more), whether calls are under way or not, a probe is sent.
  Duration after = std::chrono::seconds(15);
  // When still none comes for this long, the connection is ended.
  Duration limit = std::chrono::seconds(15);
  // A peer that grants one credit cannot be probed while a call has it (RFC 8166 §3.3.1), and that call may be slow. Then the
  // connection is ended only when no reply has come for this long. Before, what is below notices that a peer has vanished
  // (TCP's keep-alive, the retries of an adapter), and RequesterOptions::call_timeout that one hangs.
  Duration patience = std::chrono::minutes(5);
};

struct RequesterOptions {
  uint32_t credits = 64;    // asked for; so many receives are posted for replies
  size_t min_chunk = 4096;  // payloads of so many octets move by RDMA even where they would fit inline
  bool chunks = true;       // false: short messages only (RFC 8167 §5.3)
  // A call that has no reply after this time (and up to a quarter more) has failed with kTimedOut. Zero: waits for ever.
  Duration call_timeout = Duration::zero();
  HealthCheck health = {};
};

class Requester : public rpc::Channel {
 public:
  // `connection` outlives the requester.
  Requester(Connection& connection, const RequesterOptions& options);
  ~Requester() override;

  // While the call is under way the peer may read the call's payloads and write to the sinks' destinations. Before this
  // returns, whatever the result, all of that memory is fenced: invalidated by the peer or by us, or the connection is lost.
  // The XID of a call that was cancelled or has timed out stays in use until the connection ends.
  Task<Result<rpc::Message, rpc::CallError>> Call(rpc::Message call, rpc::ReplyShape shape) override;

  // Ends a call that has been sent with kCancelled; does nothing to one that is not under way. Should the peer still
  // access its memory, then that is refused, which costs the connection. The credit comes back with the late reply.
  void Cancel(rpc::Xid xid);

  // May change at any time: the next calls say so.
  void set_credits(uint32_t credits);
  const RequesterCredits& credits() const { return credits_; }

  // For the connection.
  void HandleReply(Received message);
  void HandleLost();
  bool Expects(rpc::Xid xid) const { return pending_.Contains(xid); }

 private:
  // What came of a call that was sent.
  using Outcome = Result<Received, rpc::CallError>;

  // A call on its way. Lives in the frame of Call().
  struct Attempt {
    Header header;
    CallPlan plan;
    std::vector<std::unique_ptr<rdma::MemoryRegion>> regions;
    std::vector<Slice> sinks;          // memory of the Write chunks
    std::vector<BufferRef> arguments;  // memory of ours in Read chunks
    Slice reply_chunk;
    WorkBatch work;
    OneShot<Outcome> outcome;
    uint64_t sent_at = 0;  // in ticks
  };

  void Offer(Attempt& attempt, rpc::Message& call, const rpc::ReplyShape& shape);
  void OfferCall(Attempt& attempt, rpc::Message& call);
  void OfferReply(Attempt& attempt, const rpc::ReplyShape& shape);
  Segment Register(Attempt& attempt, ConstBytes memory, rdma::Access access);
  // Offers memory and sends the call, whose credit is taken.
  void Begin(Attempt& attempt, rpc::Message& call, const rpc::ReplyShape& shape);
  void PostCall(Attempt& attempt, const rpc::Message& call);
  void PostInvalidations(Attempt& attempt);
  Result<rpc::Message, rpc::CallError> TakeReply(Attempt& attempt, Received& reply);

  void GiveUp(rpc::Xid xid, rpc::CallError error);
  void PassCreditsOn();

  bool checks_health() const { return options_.health.probe != nullptr; }
  void Tick();
  void GiveUpLateCalls();
  void CheckHealth();
  Task<void> Probe();

  Connection& connection_;
  const RequesterOptions options_;
  const CallConditions conditions_;
  RequesterCredits credits_;
  uint32_t receives_;
  PendingCalls<Attempt> pending_;
  struct Nothing {};
  WaitQueue<Nothing> waiting_;
  // Time, coarse: in quarters of the shortest of the limits. Runs only while there is something to be watched.
  const Duration tick_;
  std::unique_ptr<Timer> ticker_;
  bool ticking_ = false;
  uint64_t ticks_ = 0;
  // For the health check.
  rpc::Xid last_xid_{};
  bool heard_ = false;  // something, since the last tick
  uint64_t heard_at_ = 0;
  std::optional<uint64_t> probed_at_;  // and nothing was heard since
};

}  // namespace penstock::rpcrdma
