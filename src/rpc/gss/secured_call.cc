#include "rpc/gss/secured_call.h"

#include <algorithm>
#include <array>
#include <utility>

#include "xdr/decode.h"
#include "xdr/encode.h"

namespace penstock::rpc::gss {
namespace {

using rpcsecgss::rpc_gss_cred_t;
using rpcsecgss::rpc_gss_cred_vers_1_t;

// The size of an accepted reply with an empty verifier, up to its results.
constexpr size_t kPlainHead = 24;

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

// Makes the head of a call, signed (RFC 2203 §5.3.1).
Task<Result<Head>> MakeHead(const CallingContext& context, uint32_t number, const PlainCall& plain,
                            SealingPlace place) {
  rpc_gss_cred_vers_1_t credential;
  credential.gss_proc = plain.procedure;
  credential.seq_num = number;
  credential.service = static_cast<rpcsecgss::rpc_gss_service_t>(plain.service);
  credential.handle = ConstBytes(context.handle);
  xdr::Encoder body(place.buffers);
  xdr::Encode(body, rpc_gss_cred_t(rpcsecgss::RPCSEC_GSS_VERS_1, credential));
  const Message encoded = body.Finish();
  xdr::Encoder start(place.buffers);
  const OpaqueAuth auth{.flavor = AuthFlavor::RPCSEC_GSS, .body = encoded.stream.bytes()};
  const CallHeader& header = plain.header;
  EncodeCallHeader(start, {header.xid, header.program, header.version, header.procedure, auth, {}});
  const Message whole = start.Finish();
  constexpr size_t kEmptyVerifier = 8;
  Head head;
  head.Append(whole.stream.bytes().first(whole.stream.size() - kEmptyVerifier));
  Mic mic;
  const auto sign = [&] { return context.protection->mechanism->GetMic(head.bytes(), mic); };
  const Result<void> made = co_await InTurn(*context.protection, place.loop, place.pool, false, sign);
  if (!made) co_return std::unexpected(made.error());
  head.AppendVerifier(mic);
  co_return head;
}

// RFC 2203 §5.3.3.2, §5.3.3.3.
Task<CallOutcome> Open(const CallingContext& context, uint32_t number, const PlainCall& plain, Message answer,
                       SealingPlace place) {
  const auto not_authentic = [](std::string why) {
    return CallOutcome{.reply = std::unexpected(CallError::kNotAuthentic), .why = std::move(why)};
  };
  xdr::Decoder decoder(answer);
  ReplyHeader header;
  if (!DecodeReplyHeader(decoder, header) || header.xid != plain.header.xid) {
    co_return CallOutcome{.reply = std::unexpected(CallError::kMalformed)};
  }
  if (!header.body.is_areply()) {
    const bool forgotten = MeansForgotten(header);
    co_return CallOutcome{.reply = std::move(answer), .forgotten = forgotten};
  }
  const OpaqueAuth& verifier = header.body.areply().verf;
  if (verifier.flavor != AuthFlavor::RPCSEC_GSS) co_return not_authentic("it has no verifier");
  std::array<std::byte, 4> octets;
  StoreBig(octets.data(), number);
  const auto verify = [&] { return context.protection->mechanism->VerifyMic(octets, verifier.body.bytes()); };
  const Result<void> verified = co_await InTurn(*context.protection, place.loop, place.pool, false, verify);
  if (!verified) co_return not_authentic(verified.error().text);
  const bool has_results = header.body.areply().reply_data.discriminant() == AcceptStatus::SUCCESS;
  if (!has_results || plain.service == GssService::kNone) co_return CallOutcome{.reply = std::move(answer)};

  if (!answer.items.empty() || std::ranges::any_of(answer.placed, &xdr::PlacedResult::has_value)) {
    co_return CallOutcome{.reply = std::unexpected(CallError::kMalformed)};
  }
  const Message results = Behind(answer, decoder.reduced_position());
  const auto opened = co_await Unseal(*context.protection, plain.service, number, results, kPlainHead, place);
  if (!opened) co_return not_authentic(opened.error().text);
  co_return CallOutcome{.reply = WithPlainHead(*opened, plain.header.xid)};
}

}  // namespace

// Reads what rpc::ClientCredential has made.
std::optional<PlainCall> ReadPlainCall(const Message& call) {
  xdr::Decoder decoder(call);
  PlainCall plain;
  if (DecodeCallHeader(decoder, plain.header) != HeaderProblem::kNone) return std::nullopt;
  if (plain.header.credential.flavor != AuthFlavor::RPCSEC_GSS) return std::nullopt;
  const ConstBytes body = plain.header.credential.body.bytes();
  const auto credential = xdr::DecodeWhole<rpc_gss_cred_t>(Message::Whole(Slice::Borrowed(body)));
  if (!credential || !credential->is_vers_1()) return std::nullopt;
  plain.procedure = credential->vers_1().gss_proc;
  plain.service = static_cast<GssService>(credential->vers_1().service);
  plain.arguments = Behind(call, decoder.reduced_position());
  return plain;
}

Task<CallOutcome> CallUnder(Channel& channel, const CallingContext& context, uint32_t number, const PlainCall& plain,
                            ReplyShape shape, SealingPlace place) {
  const Result<Head> head = co_await MakeHead(context, number, plain, place);
  // The mechanism refuses to use a context that has expired.
  if (!head) {
    co_return CallOutcome{.reply = std::unexpected(CallError::kNoContext), .forgotten = true, .why = head.error().text};
  }
  Result<Message> sealed;
  if (plain.service == GssService::kNone) {
    sealed = Joined(place.buffers, *head, plain.arguments);
  } else {
    sealed = co_await Seal(*context.protection, plain.service, number, *head, plain.arguments, place);
  }
  if (!sealed) {
    co_return CallOutcome{.reply = std::unexpected(CallError::kUnreadable), .why = sealed.error().text};
  }
  ReplyShape larger = Enlarged(std::move(shape), *context.protection, plain.service);
  auto answer = co_await channel.Call(*std::move(sealed), std::move(larger));
  if (!answer) co_return CallOutcome{.reply = std::unexpected(answer.error())};
  co_return co_await Open(context, number, plain, *std::move(answer), place);
}

}  // namespace penstock::rpc::gss
