#include "rpc/gss/secured_channel.h"

#include "base/log.h"
#include "rpc/gss/secured_call.h"
#include "xdr/encode.h"

namespace penstock::rpc::gss {
namespace {

// How often a call is sent with another context before its denial is believed.
constexpr int kMostContexts = 3;

}  // namespace

Task<penstock::Result<Message, CallError>> SecuredChannel::Call(Message call, ReplyShape shape) {
  const auto plain = ReadPlainCall(call);
  if (!plain) co_return co_await channel_->Call(std::move(call), std::move(shape));
  if (plain->procedure == rpcsecgss::RPCSEC_GSS_DESTROY) {
    co_await GiveBack(context_->Close(), plain->header);
    xdr::Encoder done(context_->place().buffers);
    EncodeAccepted(done, plain->header.xid, AcceptStatus::SUCCESS);
    co_return done.Finish();
  }
  for (int contexts = 1;; ++contexts) {
    auto use = co_await context_->Begin(*channel_, plain->header);
    if (!use) co_return std::unexpected(use.error());
    CallOutcome outcome = co_await CallUnder(*channel_, *use->context, use->number, *plain, shape, context_->place());
    if (!outcome.why.empty()) log::warn("a call or reply under RPCSEC_GSS: {}", outcome.why);
    if (outcome.forgotten) context_->Forget(*use);
    auto unneeded = context_->End(*use);
    if (unneeded) co_await GiveBack(std::move(unneeded), plain->header);
    if (!outcome.forgotten || contexts == kMostContexts) co_return std::move(outcome.reply);
  }
}

// The client does not depend on the answers.
Task<void> SecuredChannel::GiveBack(std::optional<ClientContext::Use> use, const CallHeader& header) {
  PlainCall destruction;
  destruction.header.xid = ControlXid(header.xid);
  destruction.header.program = header.program;
  destruction.header.version = header.version;
  destruction.procedure = rpcsecgss::RPCSEC_GSS_DESTROY;
  destruction.service = GssService::kNone;
  while (use) {
    ReplyShape shape{.max_stream = kMaxReplyHeader, .results = {}};
    (void)co_await CallUnder(*channel_, *use->context, use->number, destruction, std::move(shape), context_->place());
    context_->Forget(*use);
    use = context_->End(*use);
  }
}

}  // namespace penstock::rpc::gss
