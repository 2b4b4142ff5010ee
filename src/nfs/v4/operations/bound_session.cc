// SESSION_CREATE, SESSION_BIND and SESSION_DESTROY: the sessions of 2004 (draft-talpey-nfsv4-rdma-sess-01 §6.1 to
// §6.3). docs/sessions-2004.md lists the decisions on what the draft leaves open.
#include <algorithm>
#include <array>
#include <limits>

#include "base/host.h"
#include "base/log.h"
#include "base/log_limit.h"
#include "nfs/v4/operations/operations.h"
#include "nfs/v4/state/stable/recovery_queue.h"
#include "nfs/v4/state/stable/reply_writer.h"
#include "nfs/v4/state/state.h"
#include "protocol/nfs4_compound.h"
#include "rpc/connection_control.h"
#include "xdr/decode.h"
#include "xdr/encode.h"

namespace penstock::nfs::v4 {

using namespace nfs4;  // NOLINT: the protocol's own names

namespace {

// The smallest sizes that a peer may ask for: a RENAME with two longest names, and the longest reply to a request that
// changes something (§2.2.2). 0 asks for the server's own limit.
constexpr uint32_t kSmallestRequest = 2048;
constexpr uint32_t kSmallestResponse = 1024;
constexpr size_t kMaxAttributes = 1024;
// The limits of a back channel. The server sends one operation in each request.
constexpr rpc::ConnectionLimits kMostOfBack{.max_request = 4096, .max_response = 4096, .credits = 16};

bool IsTooSmall(const SESSIONBIND4args& asked) {
  const auto is_below = [](uint32_t size, uint32_t smallest) { return size != 0 && size < smallest; };
  return is_below(asked.maxrequestsize, kSmallestRequest) || is_below(asked.maxresponsesize, kSmallestResponse);
}

// The server knows no attribute of a request, so it ignores all of them. NFS4ERR_INVAL if there are too many octets.
nfsstat4 CheckAttributes(ConstBytes attributes) {
  if (attributes.size() > kMaxAttributes) return NFS4ERR_INVAL;
  if (attributes.empty()) return NFS4_OK;
  const xdr::Message message = xdr::Message::Whole(Slice::Borrowed(attributes));
  return xdr::DecodeWhole<transportattrs4>(message) ? NFS4_OK : NFS4ERR_BADXDR;
}

// Whether the operations that follow SESSION_BIND change nothing: no stream protects them against a second execution.
bool OnlyReadsFollow(const Compound& compound) {
  if (!compound.following) return true;
  xdr::Decoder rest = compound.following->Fork();
  while (rest.remaining() > 0) {
    nfs_argop4 operation;
    if (!xdr::Decode(rest, operation)) return false;
    const Operation* const row = compound.dialect.Find(operation.argop());
    if (!row || row->placement != Placement::kInRequest || row->may_change()) return false;
  }
  return true;
}

// The limits that the client asks for. Callbacks carry no data, so a back channel has no padding (§2.8).
rpc::ConnectionLimits AskedBy(const SESSIONBIND4args& asked) {
  return {.max_request = asked.maxrequestsize,
          .max_response = asked.maxresponsesize,
          .credits = asked.maxrequests,
          .padding = asked.channel == BACK ? 0 : asked.headerpadsize,
          .reads = asked.maxrdmareads};
}

// The change of a connection by a binding.
struct Binding {
  rpc::ConnectionLimits limits;
  ConnectionMode mode = STREAM;
  bool steps_up = false;  // the connection becomes an RDMA connection with this reply
};

// NFS4ERR_SESS01_BADBIND if a connection that is in RDMA mode is to become a stream.
Result<Binding, nfsstat4> Negotiate(const Compound& compound, const SESSIONBIND4args& asked) {
  const rpc::Peer& peer = compound.call.peer;
  const Settings& settings = compound.services.settings;
  const bool is_rdma = peer.transport == rpc::TransportKind::kRdma;
  if (is_rdma && asked.mode == STREAM) return std::unexpected(NFS4ERR_SESS01_BADBIND);
  const rpc::ConnectionLimits most{.max_request = settings.max_request,
                                   .max_response = settings.max_response,
                                   .credits = settings.max_streams,
                                   .padding = peer.control ? rpc::kMostPadding : 0,
                                   .reads = std::numeric_limits<uint32_t>::max()};
  Binding binding{.limits = rpc::Grant(AskedBy(asked), most), .mode = is_rdma ? RDMA : STREAM};
  if (asked.mode == RDMA && !is_rdma && peer.control) {
    if (const auto offered = peer.control->OfferStepUp(compound.call.xid, binding.limits)) {
      return Binding{.limits = *offered, .mode = RDMA, .steps_up = true};
    }
  }
  if (peer.control) binding.limits = peer.control->Offer(binding.limits);
  return binding;
}

// Marks whether the connection of the call is bound. See ChooseDialect().
void SetBound(const Compound& compound, bool bound) {
  if (const auto& way = compound.call.peer.back_channel) way->set_bound(bound);
}

// Whether the client has its session or not, it asks for limits next, or again. A binding of the operations channel
// then sets them.
void KeepLimitsOpen(const Compound& compound) {
  if (rpc::ConnectionControl* const control = compound.call.peer.control) control->KeepLimitsOpen(compound.call.xid);
}

// Applies the limits of an operations channel to its connection.
void Apply(const Compound& compound, const Binding& binding) {
  rpc::ConnectionControl* const control = compound.call.peer.control;
  if (!control) return;
  if (binding.steps_up) {
    control->StepUp(compound.call.xid, binding.limits);
  } else {
    control->Bind(compound.call.xid, binding.limits);
  }
}

// Whether the connection belonged to a session that was destroyed. A binding never changes (§2.3), and a connection
// creates one session (§6.1).
bool IsSpent(const Compound& compound) {
  const auto& way = compound.call.peer.back_channel;
  return way && way->spent();
}

// Makes the storage of a session that outlives the server, before its first binding. Sessions that are never bound
// cost the disk nothing.
Task<nfsstat4> MakeStorage(const Compound& compound, const BindRequest& asked) {
  State& state = compound.services.state;
  auto needed = state.Run([&](StateTables& tables) { return tables.StorageFor(asked); });
  if (!needed) co_return needed.error();
  std::optional<BoundSessionRecord>& record = *needed;
  if (!record) co_return NFS4_OK;
  record->reply = compound.services.settings.max_cached_response;
  auto storage = co_await compound.services.replies->Create(compound.call.peer.loop, *record);
  const nfsstat4 status = storage ? NFS4_OK : NFS4ERR_SERVERFAULT;
  state.Run([&](StateTables& tables) { tables.bound_sessions.FinishStorage(record->id, std::move(storage)); });
  co_return status;
}

// Reserves numbers of channels for a session that outlives the server, so that no run of the server gives one twice.
Task<nfsstat4> ReserveChannels(const Compound& compound, const BindRequest& asked) {
  State& state = compound.services.state;
  const auto needed = state.Run([&](StateTables& tables) { return tables.ReservationFor(asked); });
  if (!needed) co_return needed.error();
  const std::optional<sess01::Reservation>& reservation = *needed;
  if (!reservation) co_return NFS4_OK;
  const bool done = co_await compound.services.replies->Reserve(compound.call.peer.loop, *reservation->storage,
                                                                reservation->channels);
  if (!done) co_return NFS4ERR_SERVERFAULT;
  state.Run([&](StateTables& tables) { tables.Reserved(asked.session, *reservation); });
  co_return NFS4_OK;
}

nfsstat4 EncodeRefusal(xdr::Encoder& to, nfsstat4 status) {
  xdr::Encode(to, SESSIONBIND4res(status));
  return status;
}

}  // namespace

// §6.1
Task<SESSIONCREATE4res> CreateBoundSession(Compound& compound, const SESSIONCREATE4args& arguments) {
  KeepLimitsOpen(compound);
  if (IsSpent(compound)) co_return SESSIONCREATE4res(NFS4ERR_SESS01_BADBIND);
  const Services& services = compound.services;
  const rpc::Peer& peer = compound.call.peer;
  const Principal principal = Principal::Of(compound.call.credential);
  CreateBoundRequest asked{.verifier = arguments.clientid.verifier,
                           .owner = AsText(arguments.clientid.id.bytes()),
                           .keeps_replies = arguments.persist,
                           .requests = std::clamp(arguments.totalrequests, 1u, services.settings.max_streams),
                           .connection = peer.connection,
                           .dialect = compound.dialect,
                           .host = HostOf(peer.address.address()),
                           .back_channel = peer.back_channel};
  if (asked.keeps_replies && services.replies) {
    const BoundSessionRecord record{.owner = std::string(asked.owner),
                                    .principal = principal,
                                    .streams = asked.requests,
                                    .reply = services.settings.max_cached_response};
    asked.can_store = co_await services.replies->HasRoomFor(peer.loop, record);
  }
  const auto created = services.state.Run(
      [&](StateTables& state) { return state.CreateBound(asked, principal, services.random(), compound.now()); });
  if (!created) co_return SESSIONCREATE4res(created.error());
  if (static LogLimit limit; asked.can_store && !created->persist && limit.Allows(compound.now())) {
    log::warn(
        "{} gets a session that does not survive a restart: {} such sessions exist, or the host has a quarter of "
        "these",
        peer.address.address().to_string(), services.settings.max_persistent_sessions);
  }
  co_return SESSIONCREATE4res(NFS4_OK, *created);
}

// §6.2
Task<nfsstat4> BindToSession(Compound& compound, const SESSIONBIND4args& arguments, xdr::Encoder& results) {
  KeepLimitsOpen(compound);
  if (IsSpent(compound)) co_return EncodeRefusal(results, NFS4ERR_SESS01_BADBIND);
  if (!OnlyReadsFollow(compound)) co_return EncodeRefusal(results, NFS4ERR_SESS01_CONTROL_POS);
  if (IsTooSmall(arguments)) co_return EncodeRefusal(results, NFS4ERR_TOOSMALL);
  if (const auto status = CheckAttributes(arguments.transportattrs.bytes()); status != NFS4_OK) {
    co_return EncodeRefusal(results, status);
  }
  const bool is_back = arguments.channel == BACK;
  auto binding = Negotiate(compound, arguments);
  if (!binding) co_return EncodeRefusal(results, binding.error());
  // A back channel only sends calls to the client, so the connection itself keeps its limits. It takes the mode of the
  // operations channel that shares its connection, or steps up alone.
  rpc::ConnectionLimits granted = is_back ? rpc::Grant(AskedBy(arguments), kMostOfBack) : binding->limits;

  const BindRequest asked{.session = arguments.sessionid,
                          .type = is_back ? ChannelType::BACK : ChannelType::OPERATION,
                          .limits = granted,
                          .connection = SessionConnection::Of(compound.call.peer),
                          .credential = compound.call.credential};
  nfsstat4 status = co_await MakeStorage(compound, asked);
  if (status == NFS4_OK) status = co_await ReserveChannels(compound, asked);
  if (status != NFS4_OK) co_return EncodeRefusal(results, status);
  const auto bound =
      compound.services.state.Run([&](StateTables& state) { return state.BindChannel(asked, compound.now()); });
  if (!bound) co_return EncodeRefusal(results, bound.error());
  SetBound(compound, true);
  // The session may have fewer credits than the connection.
  granted.credits = bound->credits;
  if (!is_back) binding->limits = granted;
  if (!is_back || binding->steps_up) Apply(compound, *binding);
  compound.session = SessionUse{.client = bound->client};

  std::array<std::byte, 4> mode;
  StoreBig(mode.data(), static_cast<uint32_t>(binding->mode));
  std::array<std::byte, 8> instance;
  StoreBig(instance.data(), uint64_t{bound->instance});
  transportattrs4 attributes;
  attributes.push_back({.type = TRANSPORTATTR4_MODE, .value = ConstBytes(mode)});
  attributes.push_back({.type = TRANSPORTATTR4_INSTANCE, .value = ConstBytes(instance)});
  xdr::Encoder encoder(compound.buffers());
  xdr::Encode(encoder, attributes);
  const xdr::Message encoded = encoder.Finish();
  xdr::Encode(results, SESSIONBIND4res(NFS4_OK, SESSIONBIND4resok{.channelid = bound->channel.value(),
                                                                  .maxrequestsize = granted.max_request,
                                                                  .maxresponsesize = granted.max_response,
                                                                  .headerpadsize = granted.padding,
                                                                  .maxrequests = granted.credits,
                                                                  .maxrdmareads = granted.reads,
                                                                  .transportattrs = encoded.stream.bytes()}));
  co_return NFS4_OK;
}

// §6.3
Task<SESSION_DESTROYres> DestroyBoundSession(Compound& compound) {
  const ClientId id = compound.session->client;
  const rpc::Peer& peer = compound.call.peer;
  State& state = compound.services.state;
  auto destroyed = state.Run([&](StateTables& tables) {
    return tables.DestroyBound(id, Principal::Of(compound.call.credential), peer.connection, compound.now());
  });
  if (!destroyed) co_return SESSION_DESTROYres{destroyed.error()};
  SetBound(compound, false);
  if (peer.back_channel) peer.back_channel->set_spent();
  if (destroyed->record) compound.services.recovery.RemoveLater(peer.loop, *destroyed->record);
  // Before the reply leaves, so that the session does not come back after a restart.
  if (!destroyed->storage) co_return SESSION_DESTROYres{NFS4_OK};
  const bool removed = co_await compound.services.replies->RemoveForGood(peer.loop, *destroyed->storage);
  if (removed) co_return SESSION_DESTROYres{NFS4_OK};
  state.Run([&](StateTables& tables) { tables.bound_sessions.RemoveStorage(std::move(destroyed->storage)); });
  if (static LogLimit limit; limit.Allows(compound.now())) {
    log::error("the file of a destroyed session cannot be removed from the state directory: it is tried again");
  }
  co_return SESSION_DESTROYres{NFS4ERR_SERVERFAULT};
}

}  // namespace penstock::nfs::v4
