// The establishment of a context: RFC 2203 §5.2.
#include <algorithm>
#include <utility>

#include "base/log.h"
#include "base/loop.h"
#include "base/workers.h"
#include "rpc/client_key.h"
#include "rpc/gss/acceptor.h"
#include "rpc/gss/data_call.h"
#include "xdr/decode.h"
#include "xdr/encode.h"

namespace penstock::rpc::gss {
namespace {

using rpcsecgss::rpc_gss_init_arg;
using rpcsecgss::rpc_gss_init_res;

// The maximum size of a token. Tickets of users with many groups are long, but not longer (MS-KILE §3.1.1.2).
constexpr size_t kLongestToken = 64 << 10;

std::optional<ConstBytes> ReadToken(const Message& call, size_t arguments_at) {
  if (!call.items.empty()) return std::nullopt;  // RFC 8166 §8.2.2: control messages are not reduced
  const auto argument = xdr::DecodeWhole<rpc_gss_init_arg>(Behind(call, arguments_at));
  if (!argument || argument->gss_token.size() > kLongestToken) return std::nullopt;
  return argument->gss_token.bytes();
}

// Makes the library's message safe for the log: it may quote the peer's octets.
std::string ForLog(std::string text) {
  constexpr size_t kLongest = 300;
  text.resize(std::min(text.size(), kLongest));
  std::ranges::replace_if(text, [](char character) { return character < ' ' || character > '~'; }, '?');
  return text;
}

}  // namespace

// May block.
Result<Acceptor::Negotiated> Acceptor::TakeToken(std::unique_ptr<MechanismContext> mechanism, const Handle& handle,
                                                 ConstBytes token) {
  Negotiated negotiated;
  PENSTOCK_TRY(negotiated.step, mechanism->Accept(token));
  if (negotiated.step.major == kContinueNeeded) {
    negotiated.mechanism = std::move(mechanism);
    return negotiated;
  }
  auto context = std::make_shared<SecurityContext>();
  context->handle = handle;
  PENSTOCK_TRY(context->initiator, mechanism->GetInitiator());
  if (context->initiator.lifetime) context->expires = clock_.Now() + *context->initiator.lifetime;
  // RFC 2203 §5.2.3.1: the verifier covers the size of the window.
  std::array<std::byte, 4> window;
  StoreBig(window.data(), SequenceWindow::kSize);
  PENSTOCK_CHECK(mechanism->GetMic(window, negotiated.verifier));
  context->protection->mic_size = negotiated.verifier.size;
  PENSTOCK_TRY(context->protection->wrap_room, mechanism->RoomToWrap(kLong));
  context->protection->mechanism = std::move(mechanism);
  negotiated.context = std::move(context);
  return negotiated;
}

Task<Message> Acceptor::Negotiate(const Incoming& incoming) {
  const Peer& peer = incoming.peer;
  const Xid xid = incoming.header.xid;
  xdr::Encoder reply(*peer.buffers);
  const auto token = ReadToken(incoming.call, incoming.arguments_at);
  if (!token) {
    EncodeAccepted(reply, xid, AcceptStatus::GARBAGE_ARGS);
    co_return reply.Finish();
  }
  // The result reports failures, not RPCSEC_GSS_CREDPROBLEM or RPCSEC_GSS_CTXPROBLEM (RFC 2203 §5.2.3.2).
  const auto fail = [&](const Failure& failure) {
    if (refusals_) {
      refusals_->Tell({.client = peer.address.address(), .reason = "gss"}, [&] {
        return RefusalDetails{.text = fmt::format("is refused a context of RPCSEC_GSS: {}", ForLog(failure.text))};
      });
    }
    EncodeAccepted(reply, xid, AcceptStatus::SUCCESS);
    xdr::Encode(reply, rpc_gss_init_res{.gss_major = failure.major, .gss_minor = failure.minor});
    return reply.Finish();
  };

  Handle handle;
  std::unique_ptr<MechanismContext> mechanism;  // null for CCM
  std::optional<ConstBytes> conjunction;
  if (incoming.credential.gss_proc == rpcsecgss::RPCSEC_GSS_INIT) {
    const auto begun = contexts_.Begin(peer.address.address(), clock_.Now());
    if (!begun) co_return fail({.text = "too many contexts are being established"});
    handle = *begun;
    conjunction = BodyOfConjunction(*token);
    if (!conjunction) mechanism = mechanism_.Begin();
  } else {
    mechanism = contexts_.Resume(incoming.credential.handle.bytes(), clock_.Now());
    if (!mechanism) co_return fail({.major = kNoContext, .text = "the pending context is unknown or has expired"});
    CopyBytes(handle, incoming.credential.handle.bytes());
  }

  Result<Negotiated> negotiated;
  if (conjunction) {
    negotiated = co_await Conjoin(peer, handle, *conjunction);
  } else {
    const auto take = [&] { return TakeToken(std::move(mechanism), handle, *token); };
    negotiated = co_await Offload(peer.loop, negotiators_, take, ClientKeyOf(peer));
  }
  if (!negotiated) {
    contexts_.Abandon(handle);
    co_return fail(negotiated.error());
  }
  OpaqueAuth verifier;
  if (negotiated->context) {
    const Initiator& initiator = negotiated->context->initiator;
    log::debug("RPCSEC_GSS context{} with {} of {}, uid {}", conjunction ? " (CCM)" : "", initiator.names.display,
               peer.address.address().to_string(), initiator.uid);
    verifier = {.flavor = AuthFlavor::RPCSEC_GSS, .body = negotiated->verifier.bytes()};
    contexts_.Establish(std::move(negotiated->context), clock_.Now());
  } else {
    contexts_.Continue(handle, std::move(negotiated->mechanism), clock_.Now());
  }
  EncodeAccepted(reply, xid, AcceptStatus::SUCCESS, verifier);
  xdr::Encode(reply, rpc_gss_init_res{.handle = ConstBytes(handle),
                                      .gss_major = negotiated->step.major,
                                      .gss_minor = negotiated->step.minor,
                                      .seq_window = SequenceWindow::kSize,
                                      .gss_token = ConstBytes(negotiated->step.token)});
  co_return reply.Finish();
}

}  // namespace penstock::rpc::gss
