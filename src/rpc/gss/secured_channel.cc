#include "rpc/gss/secured_channel.h"

#include <algorithm>
#include <array>
#include <optional>
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

// How often a call is sent with another context before its denial is believed.
constexpr int kMostContexts = 3;
// The size of an accepted reply with an empty verifier, up to its results.
constexpr size_t kPlainHead = 24;

// Reads what rpc::ClientCredential has made.
std::optional<rpc_gss_cred_vers_1_t> TemplateOf(const CallHeader& header) {
  if (header.credential.flavor != AuthFlavor::RPCSEC_GSS) return std::nullopt;
  const auto credential =
      xdr::DecodeWhole<rpc_gss_cred_t>(Message::Whole(Slice::Borrowed(header.credential.body.bytes())));
  if (!credential || !credential->is_vers_1()) return std::nullopt;
  return credential->vers_1();
}

// Makes room for the verifier of the reply, and for its seal. Sealed results are not placed directly (RFC 8166 §8.2.2).
ReplyShape Enlarged(ReplyShape shape, const ProtectedContext& context, GssService service) {
  shape.max_stream += SealOverhead(context, service);
  if (service == GssService::kNone) return shape;
  for (const ResultSink& sink : shape.results) shape.max_stream += RoundUp(sink.max_length, 4);
  shape.results.clear();
  return shape;
}

// RFC 2203 §5.3.3.3
bool MeansForgotten(const ReplyHeader& header) {
  if (!header.body.is_rreply() || !header.body.rreply().is_why()) return false;
  const AuthStatus why = header.body.rreply().why();
  return why == AuthStatus::RPCSEC_GSS_CREDPROBLEM || why == AuthStatus::RPCSEC_GSS_CTXPROBLEM;
}

// Puts the head of an accepted reply with an empty verifier before the results, in the room that Unseal() has left.
Message WithPlainHead(const Message& results, Xid xid) {
  const BufferRef& owner = results.stream.owner();
  const auto at = static_cast<size_t>(results.stream.data() - owner->data()) - kPlainHead;
  const Bytes whole = owner->bytes().subspan(at, kPlainHead + results.stream.size());
  std::ranges::fill(whole.first(kPlainHead), std::byte{0});
  StoreBig(whole.data(), xid.value());
  StoreBig(whole.data() + 4, static_cast<uint32_t>(rpcmsg::REPLY));
  // MSG_ACCEPTED, an empty verifier of AUTH_NONE, and SUCCESS are zeros.
  return Message::Whole(Slice(owner, whole));
}

}  // namespace

Task<penstock::Result<Message, CallError>> SecuredChannel::Call(Message call, ReplyShape shape) {
  xdr::Decoder decoder(call);
  CallHeader header;
  const bool is_whole = DecodeCallHeader(decoder, header) == HeaderProblem::kNone;
  const auto asked = is_whole ? TemplateOf(header) : std::nullopt;
  if (!asked) co_return co_await channel_->Call(std::move(call), std::move(shape));
  if (asked->gss_proc == rpcsecgss::RPCSEC_GSS_DESTROY) {
    if (auto use = context_->Close()) co_await GiveBack(*std::move(use), header);
    xdr::Encoder done(context_->place().buffers);
    EncodeAccepted(done, header.xid, AcceptStatus::SUCCESS);
    co_return done.Finish();
  }

  const Message arguments = Behind(call, decoder.reduced_position());
  const Plain plain{.header = header, .service = static_cast<GssService>(asked->service), .arguments = arguments};
  for (int contexts = 1;; ++contexts) {
    auto use = co_await context_->Begin(*channel_, header);
    if (!use) co_return std::unexpected(use.error());
    Outcome outcome = co_await CallUnder(*use, plain, shape);
    if (outcome.forgotten) context_->Forget(*use);
    if (auto last = context_->End(*use)) co_await GiveBack(*std::move(last), header);
    if (!outcome.forgotten || contexts == kMostContexts) co_return std::move(outcome.reply);
  }
}

Task<Result<Head>> SecuredChannel::MakeHead(const ClientContext::Use& use, const CallHeader& header,
                                            rpcsecgss::rpc_gss_proc_t procedure, GssService service) {
  const SealingPlace& place = context_->place();
  rpc_gss_cred_vers_1_t credential;
  credential.gss_proc = procedure;
  credential.seq_num = use.number;
  credential.service = static_cast<rpcsecgss::rpc_gss_service_t>(service);
  credential.handle = ConstBytes(use.context->handle);
  xdr::Encoder body(place.buffers);
  xdr::Encode(body, rpc_gss_cred_t(rpcsecgss::RPCSEC_GSS_VERS_1, credential));
  const Message encoded = body.Finish();
  xdr::Encoder start(place.buffers);
  const OpaqueAuth auth{.flavor = AuthFlavor::RPCSEC_GSS, .body = encoded.stream.bytes()};
  EncodeCallHeader(start, {header.xid, header.program, header.version, header.procedure, auth, {}});
  const Message whole = start.Finish();
  constexpr size_t kEmptyVerifier = 8;
  Head head;
  head.Append(whole.stream.bytes().first(whole.stream.size() - kEmptyVerifier));
  Mic mic;
  const auto sign = [&] { return use.context->mechanism->GetMic(head.bytes(), mic); };
  const Result<void> made = co_await InTurn(*use.context, place.loop, place.pool, false, sign);
  if (!made) co_return std::unexpected(made.error());
  head.AppendVerifier(mic);
  co_return head;
}

Task<SecuredChannel::Outcome> SecuredChannel::CallUnder(const ClientContext::Use& use, const Plain& plain,
                                                        ReplyShape shape) {
  const SealingPlace& place = context_->place();
  ClientContext::Established& context = *use.context;
  const Result<Head> head = co_await MakeHead(use, plain.header, rpcsecgss::RPCSEC_GSS_DATA, plain.service);
  // The mechanism refuses to use a context that has expired.
  if (!head) co_return Outcome{.reply = std::unexpected(CallError::kNoContext), .forgotten = true};
  Result<Message> sealed;
  if (plain.service == GssService::kNone) {
    sealed = Joined(place.buffers, *head, plain.arguments);
  } else {
    sealed = co_await Seal(context, plain.service, use.number, *head, plain.arguments, place);
  }
  if (!sealed) {
    log::warn("a call cannot be sealed: {}", sealed.error().text);
    co_return Outcome{.reply = std::unexpected(CallError::kUnreadable)};
  }
  ReplyShape larger = Enlarged(std::move(shape), context, plain.service);
  auto answer = co_await channel_->Call(*std::move(sealed), std::move(larger));
  if (!answer) co_return Outcome{.reply = std::unexpected(answer.error())};
  co_return co_await Open(use, plain, *std::move(answer));
}

// RFC 2203 §5.3.3.2, §5.3.3.3.
Task<SecuredChannel::Outcome> SecuredChannel::Open(const ClientContext::Use& use, const Plain& plain, Message answer) {
  const SealingPlace& place = context_->place();
  ClientContext::Established& context = *use.context;
  const auto not_authentic = [&](const Failure& why) {
    log::warn("a reply is not authentic: {}", why.text);
    return Outcome{.reply = std::unexpected(CallError::kNotAuthentic)};
  };
  xdr::Decoder decoder(answer);
  ReplyHeader header;
  if (!DecodeReplyHeader(decoder, header) || header.xid != plain.header.xid) {
    co_return Outcome{.reply = std::unexpected(CallError::kMalformed)};
  }
  if (!header.body.is_areply()) {
    const bool forgotten = MeansForgotten(header);
    co_return Outcome{.reply = std::move(answer), .forgotten = forgotten};
  }
  const OpaqueAuth& verifier = header.body.areply().verf;
  if (verifier.flavor != AuthFlavor::RPCSEC_GSS) co_return not_authentic({.text = "it has no verifier"});
  std::array<std::byte, 4> number;
  StoreBig(number.data(), use.number);
  const auto verify = [&] { return context.mechanism->VerifyMic(number, verifier.body.bytes()); };
  const Result<void> verified = co_await InTurn(context, place.loop, place.pool, false, verify);
  if (!verified) co_return not_authentic(verified.error());
  const bool has_results = header.body.areply().reply_data.discriminant() == AcceptStatus::SUCCESS;
  if (!has_results || plain.service == GssService::kNone) co_return Outcome{.reply = std::move(answer)};

  if (!answer.items.empty() || std::ranges::any_of(answer.placed, &xdr::PlacedResult::has_value)) {
    co_return Outcome{.reply = std::unexpected(CallError::kMalformed)};
  }
  const Message results = Behind(answer, decoder.reduced_position());
  const auto opened = co_await Unseal(context, plain.service, use.number, results, kPlainHead, place);
  if (!opened) co_return not_authentic(opened.error());
  co_return Outcome{.reply = WithPlainHead(*opened, plain.header.xid)};
}

// RFC 2203 §5.4. The client does not depend on the answer.
Task<void> SecuredChannel::GiveBack(ClientContext::Use use, const CallHeader& header) {
  const SealingPlace& place = context_->place();
  ClientContext::Established& context = *use.context;
  CallHeader null;
  null.xid = header.xid;
  null.program = header.program;
  null.version = header.version;
  const Result<Head> head = co_await MakeHead(use, null, rpcsecgss::RPCSEC_GSS_DESTROY, GssService::kNone);
  if (head) {
    Message call = Joined(place.buffers, *head, {});
    ReplyShape shape{.max_stream = kMaxReplyHeader + SealOverhead(context, GssService::kNone), .results = {}};
    (void)co_await channel_->Call(std::move(call), std::move(shape));
  }
  context_->Forget(use);
  context_->End(std::move(use));
}

}  // namespace penstock::rpc::gss
