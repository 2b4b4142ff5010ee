#include "rpc/gss/acceptor.h"

#include <utility>

#include "rpc/gss/data_call.h"
#include "rpc/gss/reverse_context.h"
#include "xdr/decode.h"

namespace penstock::rpc::gss {
namespace {

using rpcsecgss::rpc_gss_cred_t;
using rpcsecgss::rpc_gss_cred_vers_1_t;
using rpcsecgss::rpc_gss_proc_t;

// RFC 2203 §5.2.3.2, §5.3.3.3: a call of an unsupported version gets this error. RFC 5403 §4 relies on it when a client
// tries to create a context of a later version.
AuthStatus RefusalOfVersion(xdr::Decoder& decoder) {
  uint32_t procedure;
  if (!decoder.U32(procedure)) return AuthStatus::AUTH_BADCRED;
  const bool creates = procedure == static_cast<uint32_t>(rpcsecgss::RPCSEC_GSS_INIT) ||
                       procedure == static_cast<uint32_t>(rpcsecgss::RPCSEC_GSS_CONTINUE_INIT);
  return creates ? AuthStatus::AUTH_REJECTEDCRED : AuthStatus::AUTH_BADCRED;
}

penstock::Result<rpc_gss_cred_vers_1_t, AuthStatus> ReadCredential(ConstBytes body) {
  const Message message = Message::Whole(Slice::Borrowed(body));
  xdr::Decoder decoder(message);
  if (decoder.PeekU32().value_or(rpcsecgss::RPCSEC_GSS_VERS_1) != rpcsecgss::RPCSEC_GSS_VERS_1) {
    uint32_t version;
    decoder.U32(version);
    return std::unexpected(RefusalOfVersion(decoder));
  }
  rpc_gss_cred_t credential(rpcsecgss::RPCSEC_GSS_VERS_1);
  if (!xdr::Decode(decoder, credential) || !decoder.Finish()) return std::unexpected(AuthStatus::AUTH_BADCRED);
  return credential.vers_1();
}

// RFC 2203 §5.2.2: a creation request has no verifier yet.
bool HasEmptyVerifier(const CallHeader& header) {
  return header.verifier.flavor == AuthFlavor::AUTH_NONE && header.verifier.body.empty();
}

// The rules of RFC 2203 §5.2.2 and §5.4 for control messages.
AuthStatus CheckControl(const CallHeader& header, const rpc_gss_cred_vers_1_t& credential) {
  switch (credential.gss_proc) {
    case rpc_gss_proc_t::RPCSEC_GSS_INIT:
      if (!credential.handle.empty()) return AuthStatus::AUTH_BADCRED;
      [[fallthrough]];
    case rpc_gss_proc_t::RPCSEC_GSS_CONTINUE_INIT:
      if (!HasEmptyVerifier(header)) return AuthStatus::AUTH_BADVERF;
      [[fallthrough]];
    case rpc_gss_proc_t::RPCSEC_GSS_DESTROY:
      return header.procedure == 0 ? AuthStatus::AUTH_OK : AuthStatus::AUTH_BADCRED;
    case rpc_gss_proc_t::RPCSEC_GSS_DATA:
      return AuthStatus::AUTH_OK;
  }
  return AuthStatus::AUTH_BADCRED;
}

bool IsService(rpcsecgss::rpc_gss_service_t service) { return !XdrName(service).empty(); }

// Returns the header as it was sent, up to and including the credential.
ConstBytes VerifiedOctets(const Message& call, const CallHeader& header) {
  const ConstBytes body = header.credential.body.bytes();
  const std::byte* const end = body.data() + RoundUp(body.size(), 4);
  return {call.stream.data(), end};
}

SecurityFlavor::Admission Denied(const Peer& peer, Xid xid, AuthStatus why) {
  xdr::Encoder denial(*peer.buffers);
  EncodeAuthError(denial, xid, why);
  return {.call = nullptr, .reply = denial.Finish()};
}

Message Accepted(const Peer& peer, Xid xid, AcceptStatus status) {
  xdr::Encoder reply(*peer.buffers);
  EncodeAccepted(reply, xid, status);
  return reply.Finish();
}

}  // namespace

std::shared_ptr<ReverseProtection> Acceptor::Reverse(ConstBytes handle, ConstBytes reverse_handle,
                                                     const GssInitiator& initiator) {
  const ContextTable::Found found = contexts_.Find(handle, clock_.Now());
  const bool is_own = found.context && found.context->initiator.names.name == initiator.name;
  // A CCM context has no cryptography of its own.
  if (!is_own || found.expired || found.context->conjunction || reverse_handle.size() > kLongestHandle) return nullptr;
  CallingContext context{.protection = found.context->protection,
                         .handle = {reverse_handle.begin(), reverse_handle.end()}};
  return std::make_shared<ReverseContext>(std::move(context), found.context->expires, pool_);
}

std::optional<Handle> Acceptor::Adopt(std::shared_ptr<ProtectedContext> protection, Initiator caller) {
  const TimePoint now = clock_.Now();
  const auto handle = contexts_.Begin(IpAddress(), now);
  if (!handle) return std::nullopt;
  auto context = std::make_shared<SecurityContext>();
  context->protection = std::move(protection);
  context->handle = *handle;
  if (caller.lifetime) context->expires = now + *caller.lifetime;
  context->initiator = std::move(caller);
  contexts_.Establish(std::move(context), now);
  return handle;
}

Task<SecurityFlavor::Admission> Acceptor::Admit(const Message& call, const CallHeader& header, size_t arguments_at,
                                                const Peer& peer) {
  const auto credential = ReadCredential(header.credential.body.bytes());
  if (!credential) co_return Denied(peer, header.xid, credential.error());
  if (const AuthStatus status = CheckControl(header, *credential); status != AuthStatus::AUTH_OK) {
    co_return Denied(peer, header.xid, status);
  }
  const Incoming incoming{
      .call = call, .header = header, .arguments_at = arguments_at, .peer = peer, .credential = *credential};
  if (credential->gss_proc == rpcsecgss::RPCSEC_GSS_INIT ||
      credential->gss_proc == rpcsecgss::RPCSEC_GSS_CONTINUE_INIT) {
    Admission answered;
    answered.is_control = true;
    answered.reply = co_await Negotiate(incoming);
    co_return answered;
  }
  co_return co_await AdmitData(incoming);
}

// RFC 2203 §5.3.3.1. Before the verifier proves that the client has sent the sequence number, the number only serves to
// drop the call (§7.2.2).
Acceptor::Verdict Acceptor::Verify(const Incoming& incoming, SecurityContext& context) {
  const CallHeader& header = incoming.header;
  const uint32_t sequence = incoming.credential.seq_num;
  if (!context.window.IsNew(sequence)) return Verdict::kDropped;
  if (header.verifier.flavor != AuthFlavor::RPCSEC_GSS) return Verdict::kBadVerifier;
  const auto verified =
      context.protection->mechanism->VerifyMic(VerifiedOctets(incoming.call, header), header.verifier.body.bytes());
  if (!verified) return verified.error().major == kContextExpired ? Verdict::kContextOver : Verdict::kNotOfContext;
  if (sequence >= rpcsecgss::MAXSEQ) return Verdict::kContextOver;
  context.window.Take(sequence);
  return Verdict::kAccepted;
}

Task<SecurityFlavor::Admission> Acceptor::AdmitData(const Incoming& incoming) {
  const CallHeader& header = incoming.header;
  const Peer& peer = incoming.peer;
  if (!IsService(incoming.credential.service)) co_return Denied(peer, header.xid, AuthStatus::AUTH_BADCRED);
  const ContextTable::Found found = contexts_.Find(incoming.credential.handle.bytes(), clock_.Now());
  if (!found.context) co_return Denied(peer, header.xid, AuthStatus::RPCSEC_GSS_CREDPROBLEM);
  if (found.expired) co_return Denied(peer, header.xid, AuthStatus::RPCSEC_GSS_CTXPROBLEM);
  // The channel protects a CCM context, so the context serves no other channel.
  const auto& conjunction = found.context->conjunction;
  if (conjunction && conjunction->hosts != HostPair(peer)) {
    co_return Denied(peer, header.xid, AuthStatus::RPCSEC_GSS_CREDPROBLEM);
  }
  const auto verify = [&] { return Verify(incoming, *found.context); };
  const Verdict verdict = co_await InTurn(*found.context->protection, peer.loop, pool_, false, verify);
  switch (verdict) {
    case Verdict::kAccepted:
      break;
    case Verdict::kDropped:
      co_return Admission();
    case Verdict::kBadVerifier:
      co_return Denied(peer, header.xid, AuthStatus::AUTH_BADVERF);
    case Verdict::kNotOfContext:
      co_return Denied(peer, header.xid, AuthStatus::RPCSEC_GSS_CREDPROBLEM);
    case Verdict::kContextOver:
      co_return Denied(peer, header.xid, AuthStatus::RPCSEC_GSS_CTXPROBLEM);
  }

  const auto service = static_cast<GssService>(incoming.credential.service);
  auto call = std::make_unique<DataCall>(found.context, service, incoming.credential.seq_num, header.xid, pool_);
  Admission admission;
  if (incoming.credential.gss_proc == rpcsecgss::RPCSEC_GSS_DESTROY) {
    // RFC 2203 §5.4. Clients disagree on whether empty arguments are sealed, so the acceptor does not check them.
    contexts_.Remove(found.context->handle);
    admission.is_control = true;
    Message done = Accepted(peer, header.xid, AcceptStatus::SUCCESS);
    admission.reply = co_await call->Seal(std::move(done), peer);
    co_return admission;
  }
  const bool unsealed = co_await call->Unseal(incoming.call, incoming.arguments_at, peer);
  if (!unsealed) {
    // RFC 2203 §5.3.3.1, §5.3.3.4.2, §5.3.3.4.3
    Message garbage = Accepted(peer, header.xid, AcceptStatus::GARBAGE_ARGS);
    admission.reply = co_await call->Seal(std::move(garbage), peer);
    co_return admission;
  }
  admission.call = std::move(call);
  co_return admission;
}

}  // namespace penstock::rpc::gss
