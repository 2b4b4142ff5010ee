#include "client/nfs4/session.h"

#include <algorithm>

#include "base/log.h"
#include "nfs_protocol/number_set.h"

namespace penstock::client::v4 {

using nfs4::nfsstat4;

// RFC 8881 §18.46.3
constexpr uint32_t kSomeStateRevoked = nfs4::SEQ4_STATUS_EXPIRED_SOME_STATE_REVOKED |
                                       nfs4::SEQ4_STATUS_ADMIN_STATE_REVOKED |
                                       nfs4::SEQ4_STATUS_RECALLABLE_STATE_REVOKED;

// The operations that only the principal of the client id may call: those that Linux names as well.
const nfs_protocol::NumberSet<nfs4::nfs_opnum4> kProtected{nfs4::OP_BIND_CONN_TO_SESSION, nfs4::OP_EXCHANGE_ID,
                                                           nfs4::OP_CREATE_SESSION, nfs4::OP_DESTROY_SESSION,
                                                           nfs4::OP_DESTROY_CLIENTID};

// How often a request has its connection bound before the session counts as lost.
constexpr int kMostBinds = 3;
// So long may a server delay the answer who it is.
constexpr Duration kLongestDelayOfIdentity = std::chrono::seconds(2);

Session::Session(TimerService& timers, rpc::Client& client, CallerOptions options)
    : CompoundCaller(timers, client, std::move(options)) {}

Task<void> Session::Close() {
  co_await EndBackground();
  // A server that does not answer forgets this client when the lease expires.
  if (!lease_.ready() || !answered_) co_return;
  const auto ended = co_await Bare(client_, nfs4::DESTROY_SESSION4args{lease_.session()}, "unmounting");
  if (ended) (void)co_await Bare(client_, nfs4::DESTROY_CLIENTID4args{lease_.client()}, "unmounting");
}

// ---- set-up and recovery ----

Task<Result<void>> Session::TakeStep(std::string_view what) {
  switch (lease_.next()) {
    case Lease::Step::kExchangeId:
      co_return co_await ExchangeId(what);
    case Lease::Step::kDestroySession:
      co_await DestroySession(what);
      break;
    case Lease::Step::kCreateSession:
      co_return co_await CreateSession(what);
    case Lease::Step::kReclaim: {
      const uint64_t generation = lease_.generation();
      co_await Reclaim();
      if (generation == lease_.generation()) lease_.HandleReclaimed();
      break;
    }
    case Lease::Step::kReclaimComplete:
      co_return co_await ReclaimComplete(what);
    case Lease::Step::kReady:
      break;
  }
  co_return Result<void>();
}

// RFC 8881 §18.35
Task<Result<void>> Session::ExchangeId(std::string_view what) {
  nfs4::EXCHANGE_ID4args arguments;
  arguments.eia_clientowner.co_verifier = options_.verifier;
  arguments.eia_clientowner.co_ownerid = AsBytes(options_.owner);
  // RFC 8881 §18.35.3: the client follows referrals.
  arguments.eia_flags = nfs4::EXCHGID4_FLAG_USE_NON_PNFS | nfs4::EXCHGID4_FLAG_SUPP_MOVED_REFER;
  const bool protects_state = asks_for_protection_ && options_.security && options_.security->seals();
  if (protects_state) {
    nfs4::state_protect_ops4 operations;
    operations.spo_must_enforce = kProtected.ToBitmap();
    arguments.eia_state_protect = nfs4::state_protect4_a(nfs4::SP4_MACH_CRED, std::move(operations));
  }
  auto reply = co_await Bare(client_, std::move(arguments), what);
  if (!reply) co_return std::unexpected(std::move(reply).error());
  const nfs4::EXCHANGE_ID4res& result = std::get<0>(reply->results);
  if (result.is_eir_resok4()) {
    const nfs4::state_protect4_r& granted = result.eir_resok4().eir_state_protect;
    const bool is_protected =
        granted.is_spr_mach_ops() &&
        nfs_protocol::NumberSet<nfs4::nfs_opnum4>(granted.spr_mach_ops().spo_must_enforce).Contains(kProtected);
    if (protects_state && !is_protected) {
      log::warn("{}: the server does not let this client alone manage its session (SP4_MACH_CRED)", what);
    }
    must_bind_ = granted.is_spr_mach_ops();
    lease_.HandleExchangeId(result.eir_resok4());
  } else if (protects_state && result.eir_status() == nfsstat4::NFS4ERR_SERVERFAULT) {
    // Linux's server does not know the principal of a user if rpc.svcgssd has accepted the context.
    log::info("{}: the server cannot protect this client's session (SP4_MACH_CRED)", what);
    asks_for_protection_ = false;
    co_return co_await ExchangeId(what);
  } else if (result.eir_status() != nfsstat4::NFS4ERR_DELAY) {
    co_return std::unexpected(v4::ErrorOf(result.eir_status(), what));
  }
  co_return Result<void>();
}

Task<std::optional<ServerIdentity>> Session::Identify(rpc::Client& connection, Cancellation* cancellation) {
  const std::string owner = options_.owner + " asks";
  nfs4::EXCHANGE_ID4args arguments;
  arguments.eia_clientowner.co_verifier = options_.verifier;
  arguments.eia_clientowner.co_ownerid = AsBytes(owner);
  arguments.eia_flags = nfs4::EXCHGID4_FLAG_USE_NON_PNFS;
  Retries retries(timers_.Now() + kLongestDelayOfIdentity);
  auto reply = co_await Bare(connection, arguments, "asking who the server is");
  while (reply && reply->status == nfsstat4::NFS4ERR_DELAY && timers_.Now() < retries.give_up &&
         !IsCancelled(cancellation)) {
    co_await Pause(timers_, retries.NextDelay(), cancellation);
    reply = co_await Bare(connection, arguments, "asking who the server is");
  }
  if (!reply || !std::get<0>(reply->results).is_eir_resok4()) co_return std::nullopt;
  const nfs4::EXCHANGE_ID4resok& result = std::get<0>(reply->results).eir_resok4();
  co_return ServerIdentity{.major = std::string(AsText(result.eir_server_owner.so_major_id.bytes())),
                           .minor = result.eir_server_owner.so_minor_id,
                           .scope = std::string(AsText(result.eir_server_scope.bytes()))};
}

// Waits until all requests have replies. No new request begins before the next session exists.
Task<void> Session::DestroySession(std::string_view what) {
  while (!slots_.idle()) co_await slots_changed_;
  if (lease_.next() != Lease::Step::kDestroySession) co_return;
  (void)co_await Bare(client_, nfs4::DESTROY_SESSION4args{lease_.session()}, what);
  lease_.HandleDestroyed();
}

// RFC 8881 §18.36
Task<Result<void>> Session::CreateSession(std::string_view what) {
  nfs4::CREATE_SESSION4args arguments;
  arguments.csa_clientid = lease_.client();
  arguments.csa_sequence = lease_.create_sequence();
  // A server with persistent sessions keeps its replies over a restart. Other servers clear the flag.
  if (options_.callbacks) arguments.csa_flags |= nfs4::CREATE_SESSION4_FLAG_CONN_BACK_CHAN;
  if (options_.persist) arguments.csa_flags |= nfs4::CREATE_SESSION4_FLAG_PERSIST;
  arguments.csa_fore_chan_attrs = {.ca_headerpadsize = 0,
                                   .ca_maxrequestsize = options_.max_message,
                                   .ca_maxresponsesize = options_.max_message,
                                   .ca_maxresponsesize_cached = kMaxCachedReply,
                                   .ca_maxoperations = 16,
                                   .ca_maxrequests = options_.slots,
                                   .ca_rdma_ird = {}};
  arguments.csa_back_chan_attrs = {.ca_headerpadsize = 0,
                                   .ca_maxrequestsize = kMaxBackMessage,
                                   .ca_maxresponsesize = kMaxBackMessage,
                                   .ca_maxresponsesize_cached = kMaxBackMessage,
                                   .ca_maxoperations = 4,
                                   .ca_maxrequests = kBackSlots,
                                   .ca_rdma_ird = {}};
  arguments.csa_cb_program = kCallbackProgram;
  const auto offer = OfferCallbackContext();
  arguments.csa_sec_parms = ParametersFor(offer);
  auto reply = co_await Bare(client_, std::move(arguments), what);
  if (!reply) co_return std::unexpected(std::move(reply).error());
  const nfs4::CREATE_SESSION4res& result = std::get<0>(reply->results);
  if (lease_.HandleCreateSession(result)) {
    const nfs4::channel_attrs4& agreed = result.csr_resok4().csr_fore_chan_attrs;
    slots_ = SlotTable(std::min(agreed.ca_maxrequests, options_.slots));
    max_request_ = agreed.ca_maxrequestsize;
    max_response_ = agreed.ca_maxresponsesize;
    keeps_replies_ = (result.csr_resok4().csr_flags & nfs4::CREATE_SESSION4_FLAG_PERSIST) != 0;
    callback_context_ = offer ? offer->number : 0;
    slots_changed_.Notify();
    if (bind_all_) co_await bind_all_(true);
    co_return Result<void>();
  }
  switch (result.csr_status()) {
    case nfsstat4::NFS4ERR_DELAY:
    case nfsstat4::NFS4ERR_STALE_CLIENTID:
    case nfsstat4::NFS4ERR_SEQ_MISORDERED:
      co_return Result<void>();
    default:
      co_return std::unexpected(v4::ErrorOf(result.csr_status(), what));
  }
}

std::optional<CallSecurity::CallbackContext> Session::OfferCallbackContext() const {
  return options_.security ? options_.security->OfferCallbackContext() : std::nullopt;
}

// The server uses the first entry that it can. AUTH_NONE is for servers that do not protect callbacks, like Linux's.
// The entries refer to `offer`.
Session::SecurityParameters Session::ParametersFor(const std::optional<CallSecurity::CallbackContext>& offer) {
  SecurityParameters parameters;
  if (offer) {
    nfs4::gss_cb_handles4 handles;
    handles.gcbp_service = static_cast<nfs4::rpc_gss_svc_t>(offer->service);
    handles.gcbp_handle_from_server = ConstBytes(offer->handle_from_server);
    handles.gcbp_handle_from_client = ConstBytes(offer->handle_from_client);
    parameters.emplace_back(rpcmsg::RPCSEC_GSS, handles);
  }
  parameters.emplace_back(rpcmsg::AUTH_NONE);
  return parameters;
}

// RFC 8881 §18.51
Task<Result<void>> Session::ReclaimComplete(std::string_view what) {
  const auto build = [] { return std::tuple(nfs4::RECLAIM_COMPLETE4args()); };
  auto reply = co_await ReclaimCall(build, what);
  if (!reply) co_return std::unexpected(std::move(reply).error());
  switch (reply->status) {
    case nfsstat4::NFS4_OK:
    case nfsstat4::NFS4ERR_COMPLETE_ALREADY:
      lease_.HandleReclaimComplete();
      break;
    case nfsstat4::NFS4ERR_DELAY:
      break;
    default:
      if (lease_.next() == Lease::Step::kReclaimComplete) co_return std::unexpected(v4::ErrorOf(reply->status, what));
  }
  co_return Result<void>();
}

// ---- calls in slots ----

Task<Result<CompoundCaller::Executed>> Session::Execute(Compound& compound, std::string_view what) {
  const uint64_t generation = lease_.generation();
  PENSTOCK_CO_TRY(const std::optional<SlotUse> use, co_await TakeSlot(generation, what));
  // The session was replaced or will be, and the new one must reclaim all state first. The stateids of the request may
  // be out of date.
  if (!use) co_return Executed{.message = {}, .status = nfsstat4::NFS4ERR_DELAY, .fate = Fate::kAgain};
  const nfs4::SEQUENCE4args sequence{lease_.session(), use->sequence, use->slot, slots_.highest_in_use(),
                                     compound.must_be_cached};
  AddBounds(sequence, {}, compound.shape);
  const auto encode = [&](xdr::Encoder& encoder) {
    xdr::Encode(encoder, nfs4::COMPOUND4args_head{{}, dialect().minor_version, compound.count + 1});
    EncodeOperation(encoder, sequence);
    compound.Encode(encoder);
  };
  nfs4::COMPOUND4res_head head;
  const auto decode = [&](xdr::Decoder& decoder, nfs4::SEQUENCE4res& result) {
    return DecodeHead(decoder, compound.count + 1, head) && head.count > 0 &&
           DecodeOperation<nfs4::SEQUENCE4args>(decoder, result) && compound.Decode(decoder, head.count - 1);
  };
  auto answer = co_await CallInSlot(*use, generation, compound.shape, encode, decode, what);
  if (!answer) {
    // An error of the COMPOUND itself tells more than the missing results.
    co_return std::unexpected(head.count == 0 && head.status != nfsstat4::NFS4_OK ? v4::ErrorOf(head.status, what)
                                                                                  : answer.error());
  }
  Executed executed{std::move(answer->message), head.status, head.count - 1, answer->fate};
  if (executed.fate == Fate::kDone && head.status != nfsstat4::NFS4_OK) {
    lease_.HandleStatus(head.status, generation);
    if (!lease_.ready() && generation == lease_.generation() && !recovering()) executed.fate = Fate::kAgain;
    // The channel has repeated the call over another connection. The server has executed it and did not have to keep
    // the reply, so the client may execute it again (RFC 8881 §2.10.6.1.3).
    if (head.status == nfsstat4::NFS4ERR_RETRY_UNCACHED_REP && !compound.must_be_cached) executed.fate = Fate::kAgain;
    // RFC 8881 §15.1.1.3, §15.1.9.2
    if (head.status == nfsstat4::NFS4ERR_DELAY || head.status == nfsstat4::NFS4ERR_GRACE) executed.fate = Fate::kLater;
  }
  co_return executed;
}

// RFC 8881 §2.10.6.2: SEQUENCE also gives NFS4ERR_DELAY while the server still executes a request in the slot that came
// over a lost connection. Only the same sequence id in the same slot gets the reply of that request later. No other
// request may use the slot before.
template <class Encode, class Decode>
Task<Result<Session::Answer>> Session::CallInSlot(SlotUse use, uint64_t generation, rpc::ReplyShape shape,
                                                  Encode encode, Decode decode, std::string_view what) {
  nfs4::SEQUENCE4res result;
  const auto decode_all = [&](xdr::Decoder& decoder) { return decode(decoder, result); };
  Retries retries(timers_.Now() + options_.give_up_after);
  int binds = 0;
  for (;;) {
    const TimePoint sent = timers_.Now();
    auto message = co_await client_.CallWith<nfs4::NFSPROC4_COMPOUND>(encode, shape, decode_all);
    answered_ = message.has_value();
    if (!message) {
      HandleNoReply(use, generation);
      co_return std::unexpected(v4::ErrorOf(message.error(), what));
    }
    // The connection was replaced, and could not be bound (RFC 8881 §2.10.8.3). Another session would lose the reply of
    // a request that was executed already.
    if (result.sr_status() == nfsstat4::NFS4ERR_CONN_NOT_BOUND_TO_SESSION && must_bind_ && binds++ < kMostBinds &&
        generation == lease_.generation()) {
      co_await BindAll();
      continue;
    }
    if (result.sr_status() != nfsstat4::NFS4ERR_DELAY) {
      co_return Answer{*std::move(message), HandleSequenceReply(use, generation, sent, result)};
    }
    if (timers_.Now() >= retries.give_up) {
      HandleNoReply(use, generation);
      co_return std::unexpected(v4::ErrorOf(nfsstat4::NFS4ERR_DELAY, what));
    }
    log::debug("{}: slot {} is busy", what, use.slot);
    co_await Pause(timers_, retries.NextDelay(), ending());
  }
}

Task<Result<std::optional<SlotUse>>> Session::TakeSlot(uint64_t generation, std::string_view what) {
  while (!ended() && generation == lease_.generation() && lease_.next() != Lease::Step::kDestroySession) {
    if (const auto doubtful = slots_.TakeDoubtful()) {
      PENSTOCK_CO_CHECK(co_await Settle(*doubtful, what));
      continue;
    }
    if (const auto use = slots_.Take()) co_return use;
    co_await slots_changed_;
  }
  co_return std::nullopt;
}

// RFC 8881 §2.10.6.1.3: sends a SEQUENCE alone with the same sequence id. If the server has executed the request, it
// takes this for a repetition and may answer with the whole cached reply. If it has not, it takes this for the request.
Task<Result<void>> Session::Settle(SlotUse use, std::string_view what) {
  const std::tuple operations(
      nfs4::SEQUENCE4args{lease_.session(), use.sequence, use.slot, slots_.highest_in_use(), false});
  const auto encode = [&](xdr::Encoder& encoder) { EncodeCompound(encoder, dialect().minor_version, operations); };
  const auto decode = [&](xdr::Decoder& decoder, nfs4::SEQUENCE4res& result) {
    nfs4::COMPOUND4res_head head;
    const std::byte* rest = nullptr;
    return xdr::Decode(decoder, head) && head.count > 0 && DecodeOperation<nfs4::SEQUENCE4args>(decoder, result) &&
           decoder.Take(rest, decoder.remaining());
  };
  const rpc::ReplyShape shape{.max_stream = kMaxCachedReply, .results = {}};
  PENSTOCK_CO_CHECK(co_await CallInSlot(use, lease_.generation(), shape, encode, decode, what));
  co_return Result<void>();
}

Session::Fate Session::HandleSequenceReply(SlotUse use, uint64_t generation, TimePoint sent,
                                           const nfs4::SEQUENCE4res& result) {
  const nfsstat4 status = result.sr_status();
  Fate fate = Fate::kAgain;
  if (generation != lease_.generation()) {
    // The slot belongs to the table of an earlier session.
    return status == nfsstat4::NFS4_OK ? Fate::kDone : Fate::kAgain;
  }
  switch (status) {
    case nfsstat4::NFS4_OK: {
      const nfs4::SEQUENCE4resok& said = result.sr_resok4();
      slots_.HandleExecuted(use);
      slots_.HandleLimits(said.sr_highest_slotid, said.sr_target_highest_slotid);
      lease_.HandleSequence(said.sr_status_flags, generation, sent);
      HandleRevoked((said.sr_status_flags & kSomeStateRevoked) != 0);
      if (said.sr_status_flags & nfs4::SEQ4_STATUS_LEASE_MOVED) HandleLeaseMoved();
      if (options_.callbacks && lease_.back_channel_down() && !binding_ && !closing() && timers_.Now() >= bind_again_) {
        SpawnBackground(BindAgain());
      }
      if (options_.callbacks && NeedsCallbackProtection()) SpawnBackground(ProtectCallbacks());
      fate = Fate::kDone;
      break;
    }
    // The server has executed the request and has not kept the reply.
    case nfsstat4::NFS4ERR_RETRY_UNCACHED_REP:
      slots_.HandleExecuted(use);
      fate = Fate::kDone;
      break;
    // Another request had this sequence id, so the server has not seen this request.
    case nfsstat4::NFS4ERR_SEQ_FALSE_RETRY:
      slots_.HandleExecuted(use);
      break;
    // SEQUENCE has no such error (RFC 8881 §15.2). nfs-ganesha answers so between the end of a lease and its next look
    // at the leases of all clients.
    case nfsstat4::NFS4ERR_EXPIRED:
      slots_.HandleRefused(use);
      lease_.HandleExpired(generation);
      break;
    default:
      slots_.HandleRefused(use);
      if (Lease::EndsSession(status)) {
        lease_.HandleStatus(status, generation);
      } else {
        fate = Fate::kDone;  // the error concerns this request only, e.g. its size
      }
  }
  slots_changed_.Notify();
  return fate;
}

void Session::HandleNoReply(SlotUse use, uint64_t generation) {
  if (generation != lease_.generation()) return;
  slots_.HandleLost(use);
  slots_changed_.Notify();
}

// ---- the lease and the back channel ----

Task<void> Session::RenewLease() {
  auto reply = co_await RenewalCall([] { return std::tuple<>(); }, "renewing the lease");
  if (!reply && !ended()) log::warn("{}", reply.error().message);
}

Task<bool> Session::Bind(rpc::Client& connection) {
  if (!lease_.has_session()) co_return false;
  const uint64_t generation = lease_.generation();
  const nfs4::BIND_CONN_TO_SESSION4args arguments{lease_.session(), nfs4::channel_dir_from_client4::CDFC4_FORE_OR_BOTH,
                                                  false};
  auto reply = co_await Bare(connection, arguments, "binding the connection");
  // The next call notices if the session is lost.
  const bool is_bound = reply && reply->status == nfsstat4::NFS4_OK;
  if (is_bound && generation == lease_.generation()) lease_.HandleBound();
  co_return is_bound;
}

bool Session::NeedsCallbackProtection() const {
  if (protecting_ || closing() || timers_.Now() < protect_again_) return false;
  const auto offer = OfferCallbackContext();
  return offer && offer->number != callback_context_;
}

// RFC 8881 §18.33: the client has made another context.
Task<void> Session::ProtectCallbacks() {
  protecting_ = true;
  protect_again_ = timers_.Now() + lease_.lease_time() / 2;
  const uint64_t generation = lease_.generation();
  const auto offer = OfferCallbackContext();
  nfs4::BACKCHANNEL_CTL4args arguments;
  arguments.bca_cb_program = kCallbackProgram;
  arguments.bca_sec_parms = ParametersFor(offer);
  auto reply = co_await Call([&] { return std::tuple(arguments); }, "protecting callbacks");
  if (!reply) {
    if (!ended()) log::warn("{}; the client tries again", reply.error().message);
  } else if (generation == lease_.generation()) {
    callback_context_ = offer ? offer->number : 0;
  }
  protecting_ = false;
}

Task<void> Session::BindAgain() {
  binding_ = true;
  bind_again_ = timers_.Now() + lease_.lease_time() / 2;
  co_await BindAll();
  binding_ = false;
}

Task<void> Session::BindAll() {
  if (bind_all_) {
    co_await bind_all_(false);
  } else {
    (void)co_await Bind(client_);
  }
}

}  // namespace penstock::client::v4
