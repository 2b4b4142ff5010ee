// EXCHANGE_ID, CREATE_SESSION, BIND_CONN_TO_SESSION, BACKCHANNEL_CTL, DESTROY_SESSION, DESTROY_CLIENTID, SET_SSV,
// RECLAIM_COMPLETE: clients and sessions of minor version 1 and later.
#include <algorithm>
#include <limits>
#include <optional>

#include "nfs/v4/callback/callbacks.h"
#include "nfs/v4/operations/lease.h"
#include "nfs/v4/operations/operations.h"
#include "nfs/v4/state/sessions/channel_attributes.h"
#include "nfs/v4/state/stable/recovery_queue.h"
#include "nfs/v4/state/stable/reply_writer.h"
#include "nfs/v4/state/state.h"
#include "rpc/connection_control.h"

namespace penstock::nfs::v4 {

using namespace nfs4;  // NOLINT: the protocol's own names, RFC 8881

namespace {

constexpr uint32_t kExchangeFlags = EXCHGID4_FLAG_SUPP_MOVED_REFER | EXCHGID4_FLAG_SUPP_MOVED_MIGR |
                                    EXCHGID4_FLAG_BIND_PRINC_STATEID | EXCHGID4_FLAG_MASK_PNFS |
                                    EXCHGID4_FLAG_UPD_CONFIRMED_REC_A;
constexpr uint32_t kSessionFlags =
    CREATE_SESSION4_FLAG_PERSIST | CREATE_SESSION4_FLAG_CONN_BACK_CHAN | CREATE_SESSION4_FLAG_CONN_RDMA;

// RFC 8881 §18.35.3: both kinds of state protection require RPCSEC_GSS with integrity or privacy. SP4_SSV is not
// supported: the error says that no hash algorithm is available.
Result<StateProtection, nfsstat4> ProtectionOf(const state_protect4_a& asked, const Sender& sender) {
  switch (asked.spa_how()) {
    case SP4_NONE:
      return StateProtection{};
    case SP4_MACH_CRED:
      if (!sender.is_protected) return std::unexpected(NFS4ERR_INVAL);
      return StateProtection::ByMachine(asked.spa_mach_ops());
    case SP4_SSV:
      break;
  }
  const ssv_sp_parms4& parameters = asked.spa_ssv_parms();
  const bool offers = !parameters.ssp_hash_algs.empty() && !parameters.ssp_encr_algs.empty();
  return std::unexpected(offers ? NFS4ERR_HASH_ALG_UNSUPP : NFS4ERR_INVAL);
}

state_protect4_r AnswerOf(const StateProtection& protection) {
  if (!protection.by_machine) return state_protect4_r(SP4_NONE);
  return state_protect4_r(SP4_MACH_CRED, state_protect_ops4{.spo_must_enforce = protection.enforced.ToBitmap(),
                                                            .spo_must_allow = protection.allowed.ToBitmap()});
}

rpc::ClientCredential CredentialOf(const rpcmsg::authsys_parms& asked) {
  return rpc::ClientCredential(rpc::SystemIdentity{.machine = std::string(asked.machinename),
                                                   .uid = asked.uid,
                                                   .gid = asked.gid,
                                                   .groups = {asked.gids.begin(), asked.gids.end()}});
}

// Returns the credential of callbacks in this flavor. NFS4ERR_NOENT if the caller has made no such context.
Result<rpc::ClientCredential, nfsstat4> CredentialOf(const callback_sec_parms4& offer, const Compound& compound) {
  switch (offer.cb_secflavor()) {
    case rpcmsg::AUTH_SYS:
      return CredentialOf(offer.cbsp_sys_cred());
    case rpcmsg::RPCSEC_GSS:
      break;
    default:
      return rpc::ClientCredential();
  }
  rpc::SecurityFlavor* const gss = compound.services.gss;
  const rpc::GssInitiator* const initiator = compound.call.credential.initiator;
  if (!gss || !initiator) return std::unexpected(NFS4ERR_NOENT);
  const gss_cb_handles4& handles = offer.cbsp_gss_handles();
  auto protection =
      gss->Reverse(handles.gcbp_handle_from_server.bytes(), handles.gcbp_handle_from_client.bytes(), *initiator);
  if (!protection) return std::unexpected(NFS4ERR_NOENT);
  return rpc::ClientCredential(static_cast<rpc::GssService>(handles.gcbp_service), std::move(protection));
}

// Chooses the credential of callbacks (RFC 8881 §18.36.3): the first one that the client lists and that the server can
// use. An empty list means AUTH_NONE.
Result<rpc::ClientCredential, nfsstat4> CallbackCredential(const decltype(CREATE_SESSION4args::csa_sec_parms)& offered,
                                                           const Compound& compound) {
  Result<rpc::ClientCredential, nfsstat4> chosen;
  for (const callback_sec_parms4& each : offered) {
    chosen = CredentialOf(each, compound);
    if (chosen) break;
  }
  return chosen;
}

}  // namespace

// RFC 8881 §18.35
EXCHANGE_ID4res ExchangeId(Compound& compound, const EXCHANGE_ID4args& arguments) {
  const uint32_t known = kExchangeFlags | (compound.dialect.has_fence_operations() ? EXCHGID4_FLAG_SUPP_FENCE_OPS : 0);
  if (arguments.eia_flags & ~known) return EXCHANGE_ID4res(NFS4ERR_INVAL);
  const Sender sender = Sender::Of(compound.call.credential);
  const auto protection = ProtectionOf(arguments.eia_state_protect, sender);
  if (!protection) return EXCHANGE_ID4res(protection.error());
  const Settings& settings = compound.services.settings;
  const ExchangeIdRequest asked{.verifier = arguments.eia_clientowner.co_verifier,
                                .owner = AsText(arguments.eia_clientowner.co_ownerid.bytes()),
                                .update = (arguments.eia_flags & EXCHGID4_FLAG_UPD_CONFIRMED_REC_A) != 0,
                                .dialect = compound.dialect,
                                .protection = *protection};
  return compound.services.state.Run([&](StateTables& state) {
    const auto exchanged = state.Exchange(asked, sender, compound.now());
    if (!exchanged) return EXCHANGE_ID4res(exchanged.error());
    if (exchanged->replaces) {
      compound.services.recovery.RemoveLater(compound.call.peer.loop, OwnerKey(compound.dialect, asked.owner));
    }
    EXCHANGE_ID4resok result{
        .eir_clientid = exchanged->id.value(),
        .eir_sequenceid = exchanged->sequence.value(),
        .eir_flags = EXCHGID4_FLAG_USE_NON_PNFS,
        .eir_state_protect = AnswerOf(exchanged->protection),
        .eir_server_owner = {.so_minor_id = 0, .so_major_id = AsBytes(settings.server_owner)},
        .eir_server_scope = AsBytes(settings.server_scope),
        .eir_server_impl_id = nfs_impl_id4{
            .nii_domain = settings.implementation_domain, .nii_name = settings.implementation_name, .nii_date = {}}};
    if (exchanged->confirmed) result.eir_flags |= EXCHGID4_FLAG_CONFIRMED_R;
    return EXCHANGE_ID4res(NFS4_OK, std::move(result));
  });
}

// Makes the connection of the call an RDMA connection after the reply, if it can become one. Returns true if it does.
// No message tells the client the sizes of Sends, so both are the default inline threshold (RFC 8166 §3.3.3). Longer
// messages use chunks.
bool StepUp(const Compound& compound, const channel_attrs4& fore) {
  constexpr uint32_t kInlineThreshold = 1024;
  rpc::ConnectionControl* const control = compound.call.peer.control;
  // Only for an operation that is alone in its COMPOUND. The slot of a session would repeat the grant on the connection
  // of a retry, and a later operation would delay the change.
  if (!control || compound.session || compound.following) return false;
  rpc::ConnectionLimits asked{
      .max_request = kInlineThreshold, .max_response = kInlineThreshold, .credits = fore.ca_maxrequests};
  asked.reads = fore.ca_rdma_ird.value_or(std::numeric_limits<uint32_t>::max());
  const auto granted = control->OfferStepUp(compound.call.xid, asked);
  if (!granted || granted->max_request < kInlineThreshold || granted->max_response < kInlineThreshold) return false;
  control->StepUp(compound.call.xid, *granted);
  return true;
}

// RFC 8881 §18.36. Errors that do not depend on the client's slot are returned before the slot is used, so that the
// client can repeat the request with the same sequence ID.
Task<CREATE_SESSION4res> CreateSession(Compound& compound, const CREATE_SESSION4args& arguments) {
  if (arguments.csa_flags & ~kSessionFlags) co_return CREATE_SESSION4res(NFS4ERR_INVAL);
  const Services& services = compound.services;
  const auto fore = NegotiateFore(arguments.csa_fore_chan_attrs, services.settings);
  if (!fore) co_return CREATE_SESSION4res(fore.error());
  auto credential = CallbackCredential(arguments.csa_sec_parms, compound);
  if (!credential) co_return CREATE_SESSION4res(credential.error());
  const auto back = NegotiateBack(arguments.csa_back_chan_attrs, credential->protection().get());
  if (!back) co_return CREATE_SESSION4res(back.error());

  Sessions::CreateRequest asked{.client = ClientId(arguments.csa_clientid),
                                .sequence = SequenceId(arguments.csa_sequence),
                                .minor_version = compound.dialect.minor_version(),
                                .back_channel = (arguments.csa_flags & CREATE_SESSION4_FLAG_CONN_BACK_CHAN) != 0,
                                .persist = services.replies && (arguments.csa_flags & CREATE_SESSION4_FLAG_PERSIST),
                                .fore = *fore,
                                .back = *back,
                                .callback_program = arguments.csa_cb_program,
                                .callback_credential = *std::move(credential)};
  const ClientId client = asked.client;
  Sessions::CreateResult created;
  services.state.Run([&](StateTables& state) {
    created = state.CreateSession(std::move(asked), SessionConnection::Of(compound.call.peer),
                                  Sender::Of(compound.call.credential), services.random(), compound.now());
  });
  if (created.room) {
    // RFC 8881 §18.36.3: if replies cannot be kept, the session is made without the flag.
    auto replies = co_await services.replies->Create(compound.call.peer.loop, created.session, *created.room);
    created.reply = services.state.Run(
        [&](StateTables& state) { return state.sessions.FinishCreate(client, created.session, std::move(replies)); });
  }
  // A retry comes over another connection, so this flag is not part of the kept reply (RFC 8881 §18.36.4).
  if (created.reply.csr_status() == NFS4_OK && (arguments.csa_flags & CREATE_SESSION4_FLAG_CONN_RDMA) &&
      StepUp(compound, created.reply.csr_resok4().csr_fore_chan_attrs)) {
    created.reply.csr_resok4().csr_flags |= CREATE_SESSION4_FLAG_CONN_RDMA;
  }
  // After the change of the connection, which no other call may precede.
  if (created.has_back_channel) {
    services.callbacks.ProbeSession(created.session, compound.call.peer.back_channel);
  }
  co_return std::move(created.reply);
}

// RFC 8881 §18.34
BIND_CONN_TO_SESSION4res BindConnection(Compound& compound, const BIND_CONN_TO_SESSION4args& arguments) {
  std::optional<channel_attrs4> fore;
  const auto bound = compound.services.state.Run([&](StateTables& state) {
    fore = state.sessions.ForeChannel(arguments.bctsa_sessid);
    return state.sessions.Bind(arguments.bctsa_sessid, SessionConnection::Of(compound.call.peer), arguments.bctsa_dir,
                               Sender::Of(compound.call.credential));
  });
  if (!bound) return BIND_CONN_TO_SESSION4res(bound.error());
  const bool steps_up = fore && arguments.bctsa_use_conn_in_rdma_mode && StepUp(compound, *fore);
  if (*bound != CDFS4_FORE) {
    compound.services.callbacks.ProbeSession(arguments.bctsa_sessid, compound.call.peer.back_channel);
  }
  return BIND_CONN_TO_SESSION4res(NFS4_OK, BIND_CONN_TO_SESSION4resok{.bctsr_sessid = arguments.bctsa_sessid,
                                                                      .bctsr_dir = *bound,
                                                                      .bctsr_use_conn_in_rdma_mode = steps_up});
}

// RFC 8881 §18.33: all listed RPCSEC_GSS handles must be known. A client without contexts has no known handle.
BACKCHANNEL_CTL4res ControlBackChannel(Compound& compound, const BACKCHANNEL_CTL4args& arguments) {
  const rpc::Credential& caller = compound.call.credential;
  // Unlike CREATE_SESSION, this operation fails if one of the contexts is unknown (RFC 8881 §18.33.3).
  for (const callback_sec_parms4& each : arguments.bca_sec_parms) {
    if (const auto known = CredentialOf(each, compound); !known) return {known.error()};
  }
  auto credential = CallbackCredential(arguments.bca_sec_parms, compound);
  if (!credential) return {credential.error()};
  return {compound.services.state.Run([&](StateTables& state) {
    return state.sessions.ControlBackChannel(compound.session->name->session, arguments.bca_cb_program,
                                             *std::move(credential), Sender::Of(caller));
  })};
}

// RFC 8881 §18.37
DESTROY_SESSION4res DestroySession(Compound& compound, const DESTROY_SESSION4args& arguments) {
  const bool own = compound.session && compound.session->name->session == arguments.dsa_sessionid;
  if (own && compound.following) return {NFS4ERR_NOT_ONLY_OP};
  return {compound.services.state.Run([&](StateTables& state) {
    return state.sessions.Destroy(arguments.dsa_sessionid, compound.call.peer.connection,
                                  Sender::Of(compound.call.credential));
  })};
}

// RFC 8881 §18.50
DESTROY_CLIENTID4res DestroyClientId(Compound& compound, const DESTROY_CLIENTID4args& arguments) {
  const ClientId id(arguments.dca_clientid);
  return compound.services.state.Run([&](StateTables& state) -> DESTROY_CLIENTID4res {
    const auto destroyed = state.Destroy(id, Sender::Of(compound.call.credential), compound.now());
    if (!destroyed) return {destroyed.error()};
    if (*destroyed) compound.services.recovery.RemoveLater(compound.call.peer.loop, **destroyed);
    return {NFS4_OK};
  });
}

// RFC 8881 §18.47: only for clients with SP4_SSV, which is not supported.
SET_SSV4res SetSecret(Compound&, const SET_SSV4args&) { return SET_SSV4res(NFS4ERR_INVAL); }

// RFC 8881 §18.51. File systems never migrate, so completing the reclaims of one file system has no effect.
Task<RECLAIM_COMPLETE4res> ReclaimComplete(Compound& compound, const RECLAIM_COMPLETE4args& arguments) {
  if (arguments.rca_one_fs) {
    co_return RECLAIM_COMPLETE4res{compound.current ? NFS4_OK : NFS4ERR_NOFILEHANDLE};
  }
  const Services& services = compound.services;
  Loop* loop = compound.call.peer.loop;
  const ClientId client = compound.session->client;
  const nfsstat4 status = services.state.Run([&](StateTables& state) { return state.clients.CompleteReclaim(client); });
  if (status != NFS4_OK) co_return RECLAIM_COMPLETE4res{status};
  // Record the client, so that it may reclaim its state after another restart. If the store fails, the next open
  // reports it; RECLAIM_COMPLETE succeeds.
  co_await RecordClient(services, loop, client);
  co_await EndGraceIfDue(services, loop);
  co_return RECLAIM_COMPLETE4res{NFS4_OK};
}

}  // namespace penstock::nfs::v4
