#include "nfs/v4/engine/judged_request.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "base/mix.h"
#include "nfs/v4/state/state.h"
#include "protocol/nfs4_compound.h"
#include "protocol/nfs4_sess01.h"
#include "xdr/decode.h"

namespace penstock::nfs::v4 {

using namespace nfs4;  // NOLINT: the protocol's own names

using sess01::BoundSessions;
using sess01::StreamTable;

namespace {

// Returns how many octets of an operation precede its payload, if it has one. A retry may convey a payload in another
// way: in a chunk, inline, or with a pad before it.
size_t OctetsBeforePayload(const nfs_argop4& operation) {
  switch (operation.argop()) {
    case OP_WRITE:
      return 36;  // the number, the stateid, the offset, the stability, and the length of the data
    case OP_CREATE:
      return 12;  // the number, the type, and the length of the text of a symbolic link
    default:
      return SIZE_MAX;
  }
}

// Adds the operations that follow the opener, without their payloads. XIDs are not unique over the life of a client, so
// the digest must tell its requests apart.
uint64_t DigestOfOperations(uint64_t digest, uint32_t count, const xdr::Decoder& arguments) {
  xdr::Decoder rest = arguments.Fork();
  for (uint32_t i = 1; i < count; ++i) {
    const ConstBytes octets = rest.rest();
    nfs_argop4 operation;
    if (!xdr::Decode(rest, operation)) return Mix(digest, octets.size());
    const size_t size = octets.size() - rest.rest().size();
    digest = Mix(digest, octets.first(std::min(size, OctetsBeforePayload(operation))));
    if (operation.argop() == OP_CREATE) digest = Mix(digest, AsBytes(operation.opcreate().objname));
  }
  return digest;
}

}  // namespace

Sessions::RequestFacts FactsAfterOpener(const rpc::CallContext& call, const CompoundHead& head,
                                        const xdr::Decoder& arguments) {
  const size_t size = arguments.flat_size() - head.pads;
  return {.size = size + call.call_overhead,
          .operations = head.count,
          .digest = RequestDigest(call.credential, head.count, size - arguments.position(), arguments.rest())};
}

BoundRequest DescribeRequest(const rpc::CallContext& call, const CompoundHead& head,
                             const OPERATIONCONTROL4args& control, const xdr::Decoder& arguments) {
  const Sessions::RequestFacts facts = FactsAfterOpener(call, head, arguments);
  return {.arguments = control,
          .facts = {.xid = call.xid,
                    .digest = DigestOfOperations(facts.digest, head.count, arguments),
                    .size = facts.size,
                    .is_stream = call.peer.transport == rpc::TransportKind::kTcp}};
}

JudgedRequest::Started Judge(const Services& services, const rpc::CallContext& call, const BoundRequest& request) {
  BoundSessions::RequestFacts facts = request.facts;
  facts.follows_gap = call.peer.order && call.peer.order->TakeGap(call.xid);
  return services.state.Run([&](StateTables& state) {
    return state.bound_sessions.StartRequest(request.arguments, facts, SessionConnection::Of(call.peer), call.peer.loop,
                                             services.clock.Now());
  });
}

JudgedRequest::JudgedRequest(const Services& services, const rpc::CallContext& call, const BoundRequest& request)
    : services_(services), request_(request), started_(Judge(services, call, request)) {}

JudgedRequest::~JudgedRequest() {
  if (taken_ || !started_ || started_->outcome != StreamTable::Outcome::kRun) return;
  services_.state.Run([&](StateTables& state) { state.bound_sessions.WithdrawRequest(started_->request); });
}

JudgedRequest::Started JudgedRequest::Take() {
  taken_ = true;
  return std::move(started_);
}

void JudgeAhead(const Services& services, const rpc::CallContext& call, const CompoundHead& head,
                xdr::Decoder& arguments) {
  rpc::CallOrder* const order = call.peer.order;
  if (!order || !order->MayJudge(call.xid) || head.first_operation != OP_OPERATION_CONTROL) return;
  if (head.count > services.settings.max_bound_operations) return;
  uint32_t number;
  OPERATIONCONTROL4args control;
  if (!arguments.U32(number) || !xdr::Decode(arguments, control)) return;
  const BoundRequest request = DescribeRequest(call, head, control, arguments);
  order->SetJudged(call.xid, std::make_unique<JudgedRequest>(services, call, request));
}

Task<JudgedRequest::Started> JudgeInOrder(const Services& services, const rpc::CallContext& call,
                                          BoundRequest request) {
  rpc::CallOrder* const order = call.peer.order;
  if (!order) co_return Judge(services, call, request);
  const std::unique_ptr<rpc::CallOrder::Judgement> ahead = order->Take(call.xid);
  if (auto* const judged = dynamic_cast<JudgedRequest*>(ahead.get()); judged && judged->IsOf(request)) {
    JudgedRequest::Started started = judged->Take();
    // Its session may have ended meanwhile.
    const bool ended =
        started && started->outcome == StreamTable::Outcome::kRun &&
        !services.state.Run([&](StateTables& state) { return state.bound_sessions.IsUnderWay(started->request); });
    if (ended) co_return std::unexpected(NFS4ERR_SESS01_NOT_BOUND);
    co_return started;
  }
  co_await order->AwaitJudgements(call.xid);
  JudgedRequest::Started started = Judge(services, call, request);
  order->SetJudged(call.xid);
  co_return started;
}

}  // namespace penstock::nfs::v4
