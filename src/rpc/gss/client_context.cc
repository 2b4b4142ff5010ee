#include "rpc/gss/client_context.h"

#include <fmt/core.h>

#include <algorithm>
#include <cassert>
#include <utility>

#include "base/log.h"
#include "protocol/rpcsec_gss.h"
#include "rpc/client.h"
#include "xdr/decode.h"
#include "xdr/encode.h"

namespace penstock::rpc::gss {
namespace {

using rpcsecgss::rpc_gss_cred_t;
using rpcsecgss::rpc_gss_cred_vers_1_t;

// The most tokens of an initiator for one context. Kerberos needs one.
constexpr int kMostTokens = 10;
// The longest results of a token that the client accepts.
constexpr size_t kLongestAnswer = 16 << 10;
// Another context is made so long before the end of the current one, or after three quarters of its lifetime.
constexpr Duration kRenewBefore = std::chrono::minutes(5);
// The pause between two attempts to renew a context that can still be used.
constexpr Duration kRenewPause = std::chrono::seconds(10);
// The oldest token that is sent: acceptors of Kerberos compare its time with their clock.
constexpr Duration kTokenAge = std::chrono::minutes(1);
// The pauses between attempts to make a context while a service in the network does not answer.
constexpr Duration kFirstPause = std::chrono::milliseconds(500);
constexpr Duration kLongestPause = std::chrono::seconds(10);

std::vector<std::byte> Copied(ConstBytes octets) { return {octets.begin(), octets.end()}; }

}  // namespace

struct ClientContext::Answer {
  std::vector<std::byte> handle;
  bool complete = false;
  std::vector<std::byte> verifier;  // of a complete context
  uint32_t window = 0;
  std::vector<std::byte> token;
};

bool ClientContext::Established::has_number() const { return last_number + 1 < rpcsecgss::MAXSEQ; }

bool ClientContext::IsUsable() const {
  return current_ && parts_.timers.Now() < current_->expires && current_->has_number();
}

Task<penstock::Result<ClientContext::Use, CallError>> ClientContext::Begin(Channel& channel, const CallHeader& header) {
  for (;;) {
    const bool is_usable = IsUsable();
    if (!is_usable && making_) {
      const uint64_t before = attempts_;
      while (attempts_ == before) co_await changed_;
      // If the connection of the other call was lost, this call tries over its own.
      if (!IsUsable() && last_error_ == CallError::kNoContext) co_return std::unexpected(last_error_);
      continue;
    }
    if (is_usable && !making_ && parts_.timers.Now() >= current_->renew_at) BeginToken();
    if (!making_ && (!is_usable || (first_token_ && first_token_->is_done()))) {
      const auto made = co_await MakeCurrent(channel, header);
      if (!made && !IsUsable()) co_return std::unexpected(made.error());
      continue;
    }
    const std::shared_ptr<Established> context = current_;
    if (context->under_way < context->window) {
      ++context->under_way;
      co_return Use{context, ++context->last_number};
    }
    co_await context->freed;
  }
}

std::optional<ClientContext::Use> ClientContext::LastUse(const std::shared_ptr<Established>& context) {
  if (!context || context->forgotten || context->under_way > 0 || !context->has_number()) return std::nullopt;
  ++context->under_way;
  return Use{context, ++context->last_number};
}

std::optional<ClientContext::Use> ClientContext::End(const Use& use) {
  assert(use.context->under_way > 0);
  --use.context->under_way;
  use.context->freed.Notify();
  if (use.context != current_) {
    if (auto last = LastUse(use.context)) return last;
  }
  while (!previous_.empty()) {
    const std::shared_ptr<Established> previous = std::move(previous_.back());
    previous_.pop_back();
    if (auto last = LastUse(previous)) return last;
  }
  return std::nullopt;
}

void ClientContext::Forget(const Use& use) {
  use.context->forgotten = true;
  if (current_ == use.context) current_.reset();
}

std::optional<ClientContext::Use> ClientContext::Close() { return LastUse(std::exchange(current_, nullptr)); }

void ClientContext::Stop() {
  pauses_.EndAll();
  if (waiting_for_) waiting_for_->Cancel();
}

TokenMaker::Place ClientContext::PlaceOfToken() {
  std::shared_ptr<Workers>& threads = parts_.token_threads;
  if (parts_.place.loop && !threads)
    threads = std::make_shared<Workers>(1, Workers::AtEnd::kLeave, Workers::ThreadSettings{.name = "penstock-gss"});
  return {.timers = parts_.timers, .loop = parts_.place.loop, .threads = threads, .client = parts_.place.client};
}

void ClientContext::BeginToken() {
  const auto is_old = [&](const TokenMaker& token) {
    return token.is_done() && parts_.timers.Now() >= token.done_at() + kTokenAge;
  };
  if (first_token_ && !is_old(*first_token_)) return;
  first_token_ = std::make_unique<TokenMaker>(parts_.mechanism, parts_.mechanism->Begin(), std::vector<std::byte>(),
                                              PlaceOfToken());
}

Task<penstock::Result<void, CallError>> ClientContext::MakeCurrent(Channel& channel, const CallHeader& header) {
  making_ = true;
  const TimePoint until = parts_.timers.Now() + parts_.patience;
  const TimePoint give_up = made_ > 0 ? until : parts_.timers.Now();
  Duration pause = kFirstPause;
  penstock::Result<void, CallError> result;
  for (;;) {
    Made made = co_await Make(channel, header, until);
    if (made) {
      if (current_ && current_->under_way == 0) previous_.push_back(current_);
      current_ = *std::move(made);
      ++made_;
      trouble_.clear();
      break;
    }
    const Refusal& refusal = made.error();
    result = std::unexpected(refusal.error);
    if (refusal.error != CallError::kNoContext) break;
    if (IsUsable()) {
      log::warn("the security context with {} cannot be renewed yet: {}", parts_.mechanism->Acceptor(),
                refusal.failure.text);
      const TimePoint now = parts_.timers.Now();
      current_->renew_at = now + std::max<Duration>(kRenewPause, (current_->expires - now) / 2);
      break;
    }
    trouble_ = refusal.failure.text;
    trouble_may_pass_ = refusal.failure.may_pass;
    if (!refusal.failure.may_pass || pauses_.ended() || parts_.timers.Now() + pause >= give_up) break;
    log::warn("{}; the client tries again", trouble_);
    co_await pauses_.For(pause);
    pause = std::min(2 * pause, kLongestPause);
  }
  making_ = false;
  if (!result) last_error_ = result.error();
  ++attempts_;
  changed_.Notify();
  co_return result;
}

// RFC 2203 §5.2.
Task<ClientContext::Made> ClientContext::Make(Channel& channel, const CallHeader& header, TimePoint until) {
  const SealingPlace& place = parts_.place;
  const auto fail = [&](std::string_view why) {
    return std::unexpected(Refusal{.failure = {.text = fmt::format("{}: {}", parts_.mechanism->Acceptor(), why)}});
  };
  auto context = std::make_shared<Established>();
  BeginToken();
  std::unique_ptr<TokenMaker> maker = std::move(first_token_);
  std::unique_ptr<InitiatingContext> mechanism;
  Answer answer;
  for (int tokens = 0;; ++tokens) {
    if (pauses_.ended()) co_return fail("the calls end");
    waiting_for_ = maker.get();
    co_await maker->Wait(until);
    waiting_for_ = nullptr;
    if (!maker->is_done()) {
      Refusal refusal = fail(tokens > 0 ? "Kerberos has not taken the server's answer in time"
                                        : "no KDC has answered in time: see whether krb5.conf names the right one, and "
                                          "whether it runs")
                            .error();
      refusal.failure.may_pass = true;
      if (tokens == 0) first_token_ = std::move(maker);  // for the next attempt
      co_return std::unexpected(std::move(refusal));
    }
    TokenMaker::Made made = maker->Take();
    mechanism = std::move(made.context);
    const Result<InitiatingContext::Step>& step = made.step;
    if (!step) co_return std::unexpected(Refusal{.failure = step.error()});
    // Either both ends are complete, or each has a token for the other.
    const bool is_last = answer.complete || step->token.empty();
    if (is_last && answer.complete && step->complete && step->token.empty()) break;
    if (is_last || tokens == kMostTokens) co_return fail("the server does not complete the security context");
    auto answered = co_await SendToken(channel, header, answer.handle, step->token);
    if (!answered) co_return std::unexpected(std::move(answered).error());
    answer = *std::move(answered);
    if (answer.complete && answer.token.empty() && step->complete) break;
    maker = std::make_unique<TokenMaker>(parts_.mechanism, std::move(mechanism), answer.token, PlaceOfToken());
  }
  context->handle = std::move(answer.handle);
  context->window = std::max<uint32_t>(answer.window, 1);
  const std::optional<Duration> lifetime = mechanism->lifetime();
  if (lifetime) {
    if (*lifetime <= Duration::zero()) co_return fail("the ticket ends now");
    const TimePoint now = parts_.timers.Now();
    context->expires = now + *lifetime;
    // Tickets that are not renewed end at the same time as before, so that renewals would come ever faster.
    context->renew_at = std::max(now + kRenewPause, context->expires - std::min<Duration>(kRenewBefore, *lifetime / 4));
  }
  const std::string initiator = mechanism->initiator();
  // The files that are open belong to this user.
  if (!initiator_.empty() && initiator != initiator_) {
    co_return fail(fmt::format("the tickets are of {}, and the mount is of {}", initiator, initiator_));
  }
  ProtectedContext& protection = *context->protection;
  protection.mechanism = std::move(mechanism);
  // RFC 2203 §5.2.3.1: the verifier covers the size of the window as the server has sent it.
  std::array<std::byte, 4> window;
  StoreBig(window.data(), answer.window);
  const auto complete = [&]() -> gss::Result<void> {
    PENSTOCK_CHECK(protection.mechanism->VerifyMic(window, answer.verifier));
    Mic own;
    PENSTOCK_CHECK(protection.mechanism->GetMic(window, own));
    protection.mic_size = std::max(own.size, answer.verifier.size());
    PENSTOCK_TRY(protection.wrap_room, protection.mechanism->RoomToWrap(kLong));
    return {};
  };
  const gss::Result<void> completed = co_await InTurn(protection, place.loop, place.pool, false, complete);
  if (!completed) {
    co_return fail(fmt::format("the answer is not authentic: {}", completed.error().text));
  }
  initiator_ = initiator;
  const auto minutes = lifetime ? std::chrono::duration_cast<std::chrono::minutes>(*lifetime).count() : 0;
  log::info("security context of {} with {}{}", initiator, parts_.mechanism->Acceptor(),
            lifetime ? fmt::format(" for {} min", minutes) : std::string());
  co_return context;
}

Task<penstock::Result<ClientContext::Answer, ClientContext::Refusal>> ClientContext::SendToken(Channel& channel,
                                                                                               const CallHeader& header,
                                                                                               ConstBytes handle,
                                                                                               ConstBytes token) {
  const std::string server = parts_.mechanism->Acceptor();
  const auto fail = [&](std::string_view why) {
    return std::unexpected(Refusal{.failure = {.text = fmt::format("{}: {}", server, why)}});
  };
  rpc_gss_cred_vers_1_t credential;
  credential.gss_proc = handle.empty() ? rpcsecgss::RPCSEC_GSS_INIT : rpcsecgss::RPCSEC_GSS_CONTINUE_INIT;
  credential.service = rpcsecgss::rpc_gss_svc_none;
  credential.handle = handle;
  xdr::Encoder body(parts_.place.buffers);
  xdr::Encode(body, rpc_gss_cred_t(rpcsecgss::RPCSEC_GSS_VERS_1, credential));
  const Message encoded = body.Finish();
  xdr::Encoder call(parts_.place.buffers);
  const OpaqueAuth auth{.flavor = AuthFlavor::RPCSEC_GSS, .body = encoded.stream.bytes()};
  const Xid xid = ControlXid(header.xid);
  EncodeCallHeader(call, {xid, header.program, header.version, 0, auth, {}});
  xdr::Encode(call, rpcsecgss::rpc_gss_init_arg{.gss_token = token});
  Message message = call.Finish();
  ReplyShape shape{.max_stream = kLongestAnswer, .results = {}};
  const auto reply = co_await channel.Call(std::move(message), std::move(shape));
  if (!reply) co_return std::unexpected(Refusal{.error = reply.error()});

  xdr::Decoder decoder(*reply);
  ReplyHeader head;
  if (reply->stream.size() > kLongestAnswer || !DecodeReplyHeader(decoder, head) || head.xid != xid) {
    co_return fail("the server's answer to RPCSEC_GSS is malformed");
  }
  if (!head.body.is_areply() || head.body.areply().reply_data.discriminant() != AcceptStatus::SUCCESS) {
    const Error error = ErrorOf(head);
    const bool is_denied = error.kind == Error::Kind::kAuthentication;
    co_return fail(fmt::format("{}: {}", is_denied ? "the server does not offer RPCSEC_GSS" : "no security context",
                               Describe(error)));
  }
  rpcsecgss::rpc_gss_init_res results;
  if (!xdr::Decode(decoder, results) || !decoder.Finish()) {
    co_return fail("the server's answer to RPCSEC_GSS is malformed");
  }
  if (results.gss_major != kComplete && results.gss_major != kContinueNeeded) {
    // Without a reason of the mechanism, the server may be busy, or may wait for its directory of users.
    const bool may_pass = results.gss_major == kFailure && results.gss_minor == 0;
    co_return std::unexpected(
        Refusal{.failure = {.text = fmt::format("{} refuses {}: {}", server, parts_.mechanism->Initiator(),
                                                parts_.mechanism->Explain(results.gss_major, results.gss_minor)),
                            .may_pass = may_pass}});
  }
  if (results.handle.empty() || results.handle.size() > kLongestHandle) {
    co_return fail("the server's handle for the security context is malformed");
  }
  Answer answer{.handle = Copied(results.handle.bytes()),
                .complete = results.gss_major == kComplete,
                .verifier = {},
                .window = results.seq_window,
                .token = Copied(results.gss_token.bytes())};
  if (answer.complete) {
    const OpaqueAuth& verifier = head.body.areply().verf;
    if (verifier.flavor != AuthFlavor::RPCSEC_GSS) co_return fail("the server does not prove who it is");
    answer.verifier = Copied(verifier.body.bytes());
  }
  co_return answer;
}

}  // namespace penstock::rpc::gss
