#include "rpc/dispatch.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>

#include "base/log.h"
#include "base/mix.h"
#include "base/probes.h"
#include "metrics/counts.h"
#include "rpc/argument_checksum.h"
#include "rpc/call_order.h"
#include "rpc/tls/certificate.h"

namespace penstock::rpc {
namespace {

// Includes the credential in the checksum, so that no user gets a reply for another user of the same machine. Includes
// the protection of the connection and the client's certificate, so that nobody gets a reply that was sent within TLS
// to another one.
uint64_t WithCaller(uint64_t checksum, const Credential& credential, const Peer& peer) {
  checksum = Mix(checksum, static_cast<uint64_t>(peer.protection));
  if (peer.protection == Protection::kMutualTls && peer.certificate) {
    const std::string& names = peer.certificate->names_key;
    for (size_t at = 0; at + 8 <= names.size(); at += 8) {
      checksum = Mix(checksum, LoadBig<uint64_t>(AsBytes(names).data() + at));
    }
  }
  checksum = Mix(checksum, static_cast<uint64_t>(credential.flavor) << 32 | credential.uid);
  checksum = Mix(checksum, uint64_t{credential.gid} << 32 | credential.groups().size());
  for (const uint32_t group : credential.groups()) checksum = Mix(checksum, group);
  return checksum;
}

CallKey KeyOf(const CallHeader& header, const Credential& credential, const Message& call, size_t arguments_at,
              const Peer& peer) {
  return {.address = CacheAddress(peer.address.address()),
          .xid = header.xid,
          .program = header.program,
          .version = header.version,
          .procedure = header.procedure,
          .length = static_cast<uint32_t>(call.flat_size() - arguments_at),
          .checksum = WithCaller(ArgumentChecksum(call, arguments_at), credential, peer),
          .initiator = credential.initiator ? credential.initiator->name : std::string()};
}

bool IsSecured(ConstBytes stream) {
  return stream.size() >= kCredentialFlavorAt + 4 &&
         LoadBig<uint32_t>(stream.data() + kCredentialFlavorAt) == static_cast<uint32_t>(AuthFlavor::RPCSEC_GSS);
}

using metrics::CallRefusal;

// Returns false, and writes the reply, if the header requires one, and the reason, when the header cannot be decoded.
bool DecodeOrAnswer(xdr::Decoder& decoder, CallHeader& header, xdr::Encoder& reply, CallRefusal& why) {
  switch (DecodeCallHeader(decoder, header)) {
    case HeaderProblem::kNone:
      return true;
    case HeaderProblem::kNotACall:
      why = CallRefusal::kMalformed;
      break;
    case HeaderProblem::kRpcVersion:
      why = CallRefusal::kVersion;
      EncodeRpcMismatch(reply, header.xid);
      break;
    case HeaderProblem::kTruncated:
      why = CallRefusal::kMalformed;
      EncodeAccepted(reply, header.xid, AcceptStatus::GARBAGE_ARGS);
      break;
    case HeaderProblem::kBadCredential:
      why = CallRefusal::kCredential;
      EncodeAuthError(reply, header.xid, AuthStatus::AUTH_BADCRED);
      break;
    case HeaderProblem::kBadVerifier:
      why = CallRefusal::kCredential;
      EncodeAuthError(reply, header.xid, AuthStatus::AUTH_BADVERF);
      break;
  }
  return false;
}

bool IsArriving(const Message& call) {
  return std::ranges::any_of(call.items, [](const xdr::Item& item) { return item.data.arriving(); });
}

// Waits for all payloads of a call. Returns false if one of them is lost.
Task<bool> AllArrived(const Message& call) {
  for (const xdr::Item& item : call.items) {
    const bool arrived = co_await item.data.AllArrived();
    if (!arrived) co_return false;
  }
  co_return true;
}

void Count(const Peer& peer, CallRefusal why) {
  if (peer.counts) peer.counts->loop().Count(why);
}

metrics::CacheOutcome ToMetrics(ReplyCache::Outcome outcome) {
  switch (outcome) {
    case ReplyCache::Outcome::kExecute:
      return metrics::CacheOutcome::kNew;
    case ReplyCache::Outcome::kWait:
      return metrics::CacheOutcome::kWaited;
    case ReplyCache::Outcome::kReplay:
      return metrics::CacheOutcome::kReplayed;
    case ReplyCache::Outcome::kUncached:
      return metrics::CacheOutcome::kUncached;
    case ReplyCache::Outcome::kLeft:
      return metrics::CacheOutcome::kLeft;
  }
  std::unreachable();
}

// Returns the status in the results of a successful call.
uint32_t StatusIn(const Message& reply, metrics::StatusPlace place) {
  // XID, direction, MSG_ACCEPTED, an empty verifier, SUCCESS
  constexpr size_t kResultsAt = 24;
  const ConstBytes stream = reply.stream.bytes();
  size_t at = kResultsAt;
  if (place == metrics::StatusPlace::kAfterOpaque && stream.size() >= at + 4) {
    at += 4 + RoundUp(size_t{LoadBig<uint32_t>(stream.data() + at)}, 4);
  }
  if (place == metrics::StatusPlace::kNone || stream.size() < at + 4) return 0;
  return LoadBig<uint32_t>(stream.data() + at);
}

// Counts a call that a procedure has executed. `reply` is not sealed yet.
void Count(const CallHeader& header, const CallContext& context, AcceptStatus status, const Message& reply) {
  metrics::ConnectionCounts& counts = *context.peer.counts;
  const metrics::CallNotes& notes = context.notes;
  metrics::InterfaceCounts* const interface =
      counts.loop().Find({header.program, static_cast<uint16_t>(header.version), notes.variant});
  if (!interface) return;
  metrics::OperationCounts& operation = interface->Get(header.procedure);
  uint32_t code = 0;
  if (context.no_reply) {
    code = metrics::kDropped;
  } else if (context.denial != AuthStatus::AUTH_OK) {
    code = metrics::kAuthStatus | static_cast<uint32_t>(context.denial);
  } else if (status != AcceptStatus::SUCCESS) {
    code = metrics::kAcceptStatus | static_cast<uint32_t>(status);
  } else {
    code = StatusIn(reply, operation.status_place());
  }
  const metrics::Clock& clock = counts.loop().clock();
  const Duration duration = clock.Between(notes.began, notes.ended > 0 ? notes.ended : clock.Now());
  operation.Record(code, duration);
  counts.client().Record(notes.operations, duration, notes.read_octets, notes.written_octets);
  if (notes.export_id)
    counts.loop().exports.Get(*notes.export_id).Record(code, duration, notes.read_octets, notes.written_octets);
}

}  // namespace

void Dispatcher::Add(Program& program) {
  std::optional<VersionRange> known;
  assert(!Find(program.number(), program.versions().low, known) &&
         !Find(program.number(), program.versions().high, known));
  programs_.push_back(&program);
}

Program* Dispatcher::Find(uint32_t number, uint32_t version, std::optional<VersionRange>& known) const {
  for (Program* program : programs_) {
    if (program->number() != number) continue;
    const VersionRange versions = program->versions();
    if (version >= versions.low && version <= versions.high) return program;
    if (!known) known = versions;
    known = {std::min(known->low, versions.low), std::max(known->high, versions.high)};
  }
  return nullptr;
}

Program* Dispatcher::Route(const CallHeader& header, CallContext& context, xdr::Decoder& arguments, xdr::Encoder& reply,
                           metrics::CallRefusal& why) const {
  context.xid = header.xid;
  context.version = header.version;
  context.procedure = header.procedure;
  std::optional<VersionRange> known;
  Program* program = Find(header.program, header.version, known);
  if (!program) {
    why = known ? CallRefusal::kProgramVersion : CallRefusal::kProgram;
    if (known) {
      EncodeProgramMismatch(reply, header.xid, *known);
    } else {
      EncodeAccepted(reply, header.xid, AcceptStatus::PROG_UNAVAIL);
    }
    return nullptr;
  }
  const Classification classification = program->Classify(context, arguments);
  if (header.procedure != 0 && !classification.accepts_flavor) {
    why = CallRefusal::kFlavor;
    EncodeAuthError(reply, header.xid, AuthStatus::AUTH_TOOWEAK);
    return nullptr;
  }
  // The key of the reply cache would count the pads, and a retransmission may have others. Pads are for the sessions of
  // 2004, which recognise duplicates themselves.
  if (classification.is_garbage || (classification.keep != Keep::kNothing && arguments.may_have_pads())) {
    why = CallRefusal::kArguments;
    EncodeAccepted(reply, header.xid, AcceptStatus::GARBAGE_ARGS);
    return nullptr;
  }
  context.keep = classification.keep;
  context.takes_arriving = classification.takes_arriving;
  if (context.peer.order && !classification.is_judged) context.peer.order->SetJudged(context.xid);
  return program;
}

void Dispatcher::LogRefusal(const CallHeader& header, const Peer& peer, CallRefusal why) const {
  if (!refusals_) return;
  const auto tell = [&](std::string_view reason, auto make) {
    refusals_->Tell({.client = peer.address.address(), .reason = reason},
                    [&] { return RefusalDetails{.text = make()}; });
  };
  switch (why) {
    case CallRefusal::kProgramVersion:
    case CallRefusal::kProgram:
      return tell("version", [&] {
        std::optional<VersionRange> known;
        Find(header.program, header.version, known);
        const std::string advice = advice_ ? advice_(header.program, header.version) : std::string();
        return fmt::format("is refused a call of program {}, version {}: the server {}{}", header.program,
                           header.version,
                           known ? fmt::format("has versions {} to {}", known->low, known->high) : "does not have it",
                           advice.empty() ? advice : fmt::format(" ({})", advice));
      });
    case CallRefusal::kCredential:
      return tell("credential", [&] {
        const bool is_gss = header.credential.flavor == AuthFlavor::RPCSEC_GSS;
        return fmt::format("is refused a call of program {}: {}", header.program,
                           is_gss ? "it uses RPCSEC_GSS (Kerberos), which the server does not offer (option keytab)"
                                  : "its credential is malformed, or of a flavor that the server does not know");
      });
    case CallRefusal::kFlavor:
      return tell("sec", [&] {
        return fmt::format("is refused procedure {} of program {}: it does not take calls of this security flavor",
                           header.procedure, header.program);
      });
    default:
      return;  // malformed messages: they belong to no rule that the operator has made
  }
}

Task<Message> Dispatcher::HandleCall(Message call, const Peer& peer) {
  assert(peer.buffers);
  if (gss_ && IsSecured(call.stream.bytes())) return HandleSecured(std::move(call), peer);
  return Execute(std::move(call), peer, nullptr);
}

void Dispatcher::PreviewCall(const Message& call, const Peer& peer) {
  if (IsSecured(call.stream.bytes())) return;
  xdr::Decoder arguments(call);
  xdr::Encoder refusal(*peer.buffers);  // HandleCall() writes it again
  CallHeader header;
  CallContext context{.peer = peer};
  CallRefusal why{};
  if (!DecodeOrAnswer(arguments, header, refusal, why)) return;
  if (Authenticate(header, context.credential) != AuthStatus::AUTH_OK) return;
  if (const Program* program = Route(header, context, arguments, refusal, why)) program->Preview(context, arguments);
}

Task<Message> Dispatcher::HandleSecured(Message call, const Peer& peer) {
  xdr::Decoder decoder(call);
  xdr::Encoder answer(*peer.buffers);
  CallHeader header;
  CallRefusal why{};
  if (!DecodeOrAnswer(decoder, header, answer, why)) {
    Count(peer, why);
    co_return answer.Finish();
  }
  if (IsArriving(call)) {
    const bool arrived = co_await AllArrived(call);
    if (!arrived) co_return Message();
  }
  SecurityFlavor::Admission admission = co_await gss_->Admit(call, header, decoder.reduced_position(), peer);
  if (admission.is_control && peer.order) peer.order->SetJudged(header.xid);
  if (!admission.call) {
    if (!admission.is_control) Count(peer, CallRefusal::kCredential);
    co_return std::move(admission.reply);
  }
  SecuredCall& secured = *admission.call;
  Message arguments = secured.TakeArguments();
  const Secured facts{.header = header,
                      .credential = secured.credential(),
                      .call_overhead = call.flat_size() - arguments.flat_size(),
                      .reply_overhead = secured.reply_overhead()};
  Message reply = co_await Execute(std::move(arguments), peer, &facts);
  if (reply.empty()) co_return reply;
  co_return co_await secured.Seal(std::move(reply), peer);
}

Task<Message> Dispatcher::Execute(Message message, const Peer& peer, const Secured* secured) {
  xdr::Decoder arguments(message);
  xdr::Encoder reply(*peer.buffers);
  CallHeader header;
  CallContext context{.peer = peer};
  CallRefusal why{};
  if (peer.counts) context.notes.began = peer.counts->loop().clock().Now();
  if (secured) {
    header = secured->header;
    context.credential = secured->credential;
    context.call_overhead = secured->call_overhead;
    context.reply_overhead = secured->reply_overhead;
  } else {
    if (!DecodeOrAnswer(arguments, header, reply, why)) {
      Count(peer, why);
      co_return reply.Finish();
    }
    if (const AuthStatus status = Authenticate(header, context.credential); status != AuthStatus::AUTH_OK) {
      Count(peer, CallRefusal::kCredential);
      LogRefusal(header, peer, CallRefusal::kCredential);
      EncodeAuthError(reply, header.xid, status);
      co_return reply.Finish();
    }
  }
  const size_t arguments_at = arguments.reduced_position();
  Program* program = Route(header, context, arguments, reply, why);
  if (!program) {
    Count(peer, why);
    LogRefusal(header, peer, why);
    co_return reply.Finish();
  }

  if (!context.takes_arriving && IsArriving(message)) {
    const bool arrived = co_await AllArrived(message);
    if (!arrived) co_return Message();
  }

  PENSTOCK_PROBE(5, call__dispatched, header.xid.value(), peer.connection, header.program, header.version,
                 header.procedure);
  auto outcome = ReplyCache::Outcome::kUncached;
  uint32_t ticket = 0;
  if (cache_ && context.keep != Keep::kNothing) {
    const CallKey key = KeyOf(header, context.credential, message, arguments_at, peer);
    ReplyCache::Waiter duplicate{.loop = peer.loop};
    ReplyCache::Found found = cache_->Start(key, peer.connection, clock_->Now(), duplicate);
    if (peer.counts) peer.counts->loop().Count(ToMetrics(found.outcome));
    if (found.outcome == ReplyCache::Outcome::kReplay) co_return std::move(found.reply);
    if (found.outcome == ReplyCache::Outcome::kWait) co_return co_await duplicate.reply;
    if (found.outcome == ReplyCache::Outcome::kLeft) {
      log::debug("call {:08x} dropped: its client has left connection {} for another", header.xid.value(),
                 peer.connection);
      co_return Message();
    }
    outcome = found.outcome;
    ticket = found.ticket;
  }

  const auto start = reply.mark();
  EncodeAccepted(reply, header.xid, AcceptStatus::SUCCESS);
  const AcceptStatus status = co_await program->Call(context, arguments, reply);
  if (context.outcome.status != 0) [[unlikely]]
    program->HandleFailure(context);
  if (context.denial != AuthStatus::AUTH_OK) {
    reply.Rewind(start);
    EncodeAuthError(reply, header.xid, context.denial);
  } else if (status != AcceptStatus::SUCCESS) {
    reply.Rewind(start);
    EncodeAccepted(reply, header.xid, status);
  }
  Message answer;
  if (!context.no_reply) answer = reply.Finish();
  if (outcome == ReplyCache::Outcome::kExecute) {
    cache_->Finish(ticket, answer, clock_->Now(), peer.loop, context.keep);
  }
  if (peer.counts) Count(header, context, status, answer);
  PENSTOCK_PROBE(3, reply__made, header.xid.value(), peer.connection, answer.stream.size());
  co_return answer;
}

}  // namespace penstock::rpc
