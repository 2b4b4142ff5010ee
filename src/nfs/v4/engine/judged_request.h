// How a session of 2004 judges a request by its OPERATION_CONTROL: in the order in which the requests of a channel
// arrived (draft-talpey-nfsv4-rdma-sess-01 §2.7; docs/sessions-2004.md). The judgement may precede the execution, while
// the payloads of the request are still on their way.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "nfs/v4/engine/compound.h"
#include "nfs/v4/engine/compound_head.h"
#include "nfs/v4/state/sess01/bound_sessions.h"
#include "nfs/v4/state/sessions/sessions.h"
#include "rpc/call_order.h"
#include "xdr/decoder.h"

namespace penstock::nfs::v4 {

// Returns the facts that distinguish a request from another one with the same name. The decoder is positioned after the
// arguments of the opener. A retry may have other pads, or none.
Sessions::RequestFacts FactsAfterOpener(const rpc::CallContext& call, const CompoundHead& head,
                                        const xdr::Decoder& arguments);

// A request as its OPERATION_CONTROL and its operations describe it.
struct BoundRequest {
  nfs4::OPERATIONCONTROL4args arguments;
  sess01::BoundSessions::RequestFacts facts;

  bool operator==(const BoundRequest&) const = default;
};

// The decoder is positioned after the arguments of OPERATION_CONTROL.
BoundRequest DescribeRequest(const rpc::CallContext& call, const CompoundHead& head,
                             const nfs4::OPERATIONCONTROL4args& control, const xdr::Decoder& arguments);

// A request that was judged before its execution. If nobody takes the judgement, the request counts as never received.
class JudgedRequest final : public rpc::CallOrder::Judgement {
 public:
  using Started = sess01::BoundSessions::Started;

  // Judges the request. `services` and `call.peer` outlive this.
  JudgedRequest(const Services& services, const rpc::CallContext& call, const BoundRequest& request);
  JudgedRequest(const JudgedRequest&) = delete;
  JudgedRequest& operator=(const JudgedRequest&) = delete;
  ~JudgedRequest() override;

  // Whether this is the judgement of `request`. A call with the XID of another one may ask for it, too.
  bool IsOf(const BoundRequest& request) const { return request_ == request; }
  // The caller then ends the request with FinishRequest() or WithdrawRequest(). Call it once.
  Started Take();

 private:
  const Services& services_;
  const BoundRequest request_;
  Started started_;
  bool taken_ = false;
};

// Judges a request now. `services` and `call.peer` outlive the request.
JudgedRequest::Started Judge(const Services& services, const rpc::CallContext& call, const BoundRequest& request);

// Judges a call whose payloads are still on their way, if all earlier calls of the connection are judged, and leaves
// the judgement in the order of the connection. The decoder is positioned after the head, whose dialect is that of the
// sessions of 2004.
void JudgeAhead(const Services& services, const rpc::CallContext& call, const CompoundHead& head,
                xdr::Decoder& arguments);

// Judges a request at its execution: after all earlier calls of the connection, unless JudgeAhead() has done so.
Task<JudgedRequest::Started> JudgeInOrder(const Services& services, const rpc::CallContext& call, BoundRequest request);

}  // namespace penstock::nfs::v4
