// The establishment of a CCM context: see conjunction.h.
#include <fmt/core.h>

#include <utility>

#include "rpc/gss/acceptor.h"
#include "rpc/gss/conjunction.h"

namespace penstock::rpc::gss {
namespace {

std::unexpected<Failure> Refuse(uint32_t major, std::string why) {
  return std::unexpected(Failure{.major = major, .text = "CCM: " + std::move(why)});
}

// Takes the token's number, and returns the checksum of `confirmation`. Requires the turn of `inner`.
Result<Mic> Confirm(SecurityContext& inner, const ConjunctionToken& token, ConstBytes confirmation) {
  if (!inner.window.IsNew(token.number)) return Refuse(kFailure | kDuplicateToken, "the token was used before");
  PENSTOCK_CHECK(inner.protection->mechanism->VerifyMic(token.claim, token.mic));
  if (token.number >= rpcsecgss::MAXSEQ) return Refuse(kContextExpired, "the inner context has no number left");
  Mic mic;
  PENSTOCK_CHECK(inner.protection->mechanism->GetMic(confirmation, mic));
  inner.window.Take(token.number);
  return mic;
}

}  // namespace

Task<Result<Acceptor::Negotiated>> Acceptor::Conjoin(const Peer& peer, const Handle& handle, ConstBytes body) {
  const HostPair hosts(peer);
  if (!is_protected_ || !is_protected_(hosts.client())) {
    co_return Refuse(kBadMechanism, "the client's network is not named as a protected one (--ccm-from)");
  }
  PENSTOCK_CO_TRY(const ConjunctionToken token, ParseConjunction(body));
  const ContextTable::Found found = contexts_.Find(token.cookie, clock_.Now());
  if (!found.context) co_return Refuse(kNoContext, "there is no context with this cookie");
  if (found.expired) co_return Refuse(kContextExpired, "the context with this cookie has expired");
  if (found.context->conjunction) co_return Refuse(kDefectiveCredential, "the cookie is of a CCM context");
  if (token.hosts != hosts) {
    co_return Refuse(
        kBadBindings,
        fmt::format("the client connects from {} to {}, and the server sees {} and {}: addresses may not be "
                    "translated between them",
                    token.hosts.client().to_string(), token.hosts.server().to_string(), hosts.client().to_string(),
                    hosts.server().to_string()));
  }

  const xdr::Message confirmation = ConjunctionConfirmation(*peer.buffers, handle, token.claim);
  const auto confirm = [&] { return Confirm(*found.context, token, confirmation.stream.bytes()); };
  const Result<Mic> mic = co_await InTurn(*found.context->protection, peer.loop, pool_, false, confirm);
  if (!mic) co_return std::unexpected(mic.error());

  const SecurityContext& inner = *found.context;
  auto context = std::make_shared<SecurityContext>();
  context->handle = handle;
  context->initiator = inner.initiator;
  context->expires = inner.expires;
  context->conjunction.emplace(inner.handle, hosts);
  context->protection->mechanism = std::make_unique<ChannelProtection>();
  const ConstBytes answer = mic->bytes();
  Negotiated negotiated;
  negotiated.step.token.assign(answer.begin(), answer.end());
  negotiated.context = std::move(context);
  co_return negotiated;
}

}  // namespace penstock::rpc::gss
