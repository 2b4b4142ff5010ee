// The ID of a session contains its index in the table, and its client's shard:
//
//   0         4         8                15  16
//   +---------+---------+-----------------+--+
//   | instance|  index  |      random     |  |   the last octet of the client ID
//   +---------+---------+-----------------+--+
#include "nfs/v4/state/sessions/sessions.h"

#include <algorithm>
#include <cassert>

#include "nfs/v4/state/sessions/channel_attributes.h"
#include "rpc/security_flavor.h"

namespace penstock::nfs::v4 {
namespace {

constexpr uint32_t kMaxCallbackSlots = 16;

SessionId MakeSessionId(uint32_t instance, uint32_t index, uint64_t random, ClientId client) {
  SessionId id;
  StoreBig(id.data(), instance);
  StoreBig(id.data() + 4, index);
  StoreBig(id.data() + 8, random << 8 | (client.value() & 0xff));
  return id;
}

uint32_t IndexOf(const SessionId& id) { return LoadBig<uint32_t>(id.data() + 4); }

}  // namespace

Sessions::Sessions(const Settings& settings, uint32_t instance, Clients& clients, const SlotLimit& slot_limit,
                   DeadSessions dead_sessions)
    : settings_(settings),
      instance_(instance),
      clients_(clients),
      slot_limit_(slot_limit),
      dead_sessions_(std::move(dead_sessions)) {}

// ---- look-ups ----

const Session* Sessions::Find(const SessionId& id) const {
  const uint32_t index = IndexOf(id);
  if (index >= sessions_.size() || !sessions_[index] || !Equal(sessions_[index]->id, id)) return nullptr;
  return sessions_[index].get();
}

std::optional<nfs4::channel_attrs4> Sessions::ForeChannel(const SessionId& session) const {
  const Session* const found = Find(session);
  return found ? std::optional(found->fore) : std::nullopt;
}

Session* Sessions::Find(const SessionId& id) { return const_cast<Session*>(std::as_const(*this).Find(id)); }

nfs4::nfsstat4 Sessions::CheckProtection(const SessionId& id, nfs4::nfs_opnum4 operation, const Sender& sender) const {
  const Session* session = Find(id);
  return session ? clients_.CheckProtection(session->client->id, operation, sender) : nfs4::NFS4_OK;
}

// ---- CREATE_SESSION, RFC 8881 §18.36.4 ----

std::optional<Sessions::CreateResult> Sessions::AnswerWithoutCreating(const CreateRequest& asked,
                                                                      const SessionConnection& connection,
                                                                      const Sender& sender) {
  const auto refuse = [](nfs4::nfsstat4 status) { return CreateResult{nfs4::CREATE_SESSION4res(status)}; };
  // 1. Client record look-up.
  Client* client = clients_.FindAny(asked.client);
  if (!client || client->doomed || client->dialect.session_kind() != SessionKind::kSlots) {
    return refuse(nfs4::NFS4ERR_STALE_CLIENTID);
  }

  // This check comes before a retry can reveal a reply, or add its connection to a session.
  if (!client->Permits(nfs4::OP_CREATE_SESSION, sender)) return refuse(nfs4::NFS4ERR_WRONG_CRED);

  // 2. Sequence ID processing.
  if (client->creating) return refuse(nfs4::NFS4ERR_DELAY);
  if (asked.sequence == client->create_sequence) {
    if (!client->create_reply) return refuse(nfs4::NFS4ERR_SEQ_MISORDERED);
    const nfs4::CREATE_SESSION4res& reply = *client->create_reply;
    if (reply.csr_status() == nfs4::NFS4_OK) {
      // The retry may have come over another connection.
      if (Session* session = Find(reply.csr_resok4().csr_sessionid)) session->connections.JoinFore(connection);
    }
    return CreateResult{reply};
  }
  if (asked.sequence != client->NextCreate()) return refuse(nfs4::NFS4ERR_SEQ_MISORDERED);

  // 3. Client ID confirmation. A request by another principal does not use up the sequence ID.
  if (!client->confirmed && client->principal != sender.principal) return refuse(nfs4::NFS4ERR_CLID_INUSE);
  client->create_sequence = asked.sequence;
  if (client->sessions.size() >= settings_.max_sessions) {
    client->create_reply = nfs4::CREATE_SESSION4res(nfs4::NFS4ERR_NOSPC);
    return CreateResult{*client->create_reply};
  }
  return std::nullopt;
}

Sessions::CreateResult Sessions::Create(Client& client, CreateRequest asked, const SessionConnection& connection,
                                        uint64_t random, TimePoint now) {
  assert(client.confirmed);
  clients_.Renew(client, now);

  // 4. Session creation.
  const bool back_channel = asked.back_channel;
  const bool persist = asked.persist && persistent_count_ + dead_sessions_.size() < settings_.max_persistent_sessions;
  Session& session = Add(client, std::move(asked), random);
  session.connections.JoinFore(connection);
  uint32_t flags = 0;
  if (back_channel && session.connections.JoinBack(connection)) {
    session.has_back_channel = true;
    flags |= nfs4::CREATE_SESSION4_FLAG_CONN_BACK_CHAN;
  }
  client.create_reply =
      nfs4::CREATE_SESSION4res(nfs4::NFS4_OK, nfs4::CREATE_SESSION4resok{.csr_sessionid = session.id,
                                                                         .csr_sequence = client.create_sequence.value(),
                                                                         .csr_flags = flags,
                                                                         .csr_fore_chan_attrs = session.fore,
                                                                         .csr_back_chan_attrs = session.back});
  if (!persist) {
    return {.reply = *client.create_reply, .session = session.id, .has_back_channel = session.has_back_channel};
  }
  session.persistent = true;
  ++persistent_count_;
  client.creating = true;
  return {.reply = {},
          .room = ReplyRoom{.slots = session.slots.count(),
                            .reply = session.fore.ca_maxresponsesize_cached,
                            .items = session.fore.ca_maxoperations},
          .session = session.id,
          .has_back_channel = session.has_back_channel};
}

Session& Sessions::Add(Client& client, CreateRequest asked, uint64_t random) {
  if (free_sessions_.empty()) {
    free_sessions_.push_back(static_cast<uint32_t>(sessions_.size()));
    sessions_.emplace_back();
  }
  const uint32_t index = free_sessions_.back();
  free_sessions_.pop_back();
  ++session_count_;
  asked.fore.ca_maxrequests = std::min(asked.fore.ca_maxrequests, slot_limit_.Share(session_count_));
  const uint32_t callback_slots = std::min(asked.back.ca_maxrequests, kMaxCallbackSlots);
  sessions_[index] = std::make_unique<Session>(Session{.id = MakeSessionId(instance_, index, random, client.id),
                                                       .client = &client,
                                                       .minor_version = asked.minor_version,
                                                       .fore = asked.fore,
                                                       .back = asked.back,
                                                       .slots = ReplySlots(asked.fore.ca_maxrequests),
                                                       .connections = {},
                                                       .callback_program = asked.callback_program,
                                                       .callback_credential = std::move(asked.callback_credential),
                                                       .callback_slots = CallbackSlots(callback_slots)});
  client.sessions.push_back(sessions_[index]->id);
  return *sessions_[index];
}

void Sessions::End(const SessionId& id) {
  Session* session = Find(id);
  assert(session);
  std::erase(session->client->sessions, id);
  kept_octets_[Shard::Of(id)] -= session->slots.kept_octets();
  session->client->requests -= session->slots.busy();
  if (session->persistent) --persistent_count_;
  if (session->replies) ended_.push_back(std::move(session->replies));
  const uint32_t index = IndexOf(id);
  sessions_[index].reset();
  free_sessions_.push_back(index);
  --session_count_;
}

void Sessions::EndAll(const Client& client) {
  while (!client.sessions.empty()) End(SessionId(client.sessions.back()));
}

nfs4::nfsstat4 Sessions::Destroy(const SessionId& id, uint64_t connection, const Sender& sender) {
  if (const auto status = CheckProtection(id, nfs4::OP_DESTROY_SESSION, sender); status != nfs4::NFS4_OK) return status;
  // No connection is bound to a dead session, so the client may end it over any connection.
  if (dead_sessions_.End(id)) return nfs4::NFS4_OK;
  Session* session = Find(id);
  if (!session || session->client->doomed) return nfs4::NFS4ERR_BADSESSION;
  if (!session->connections.Has(connection)) return nfs4::NFS4ERR_CONN_NOT_BOUND_TO_SESSION;
  End(id);
  return nfs4::NFS4_OK;
}

Result<nfs4::channel_dir_from_server4, nfs4::nfsstat4> Sessions::Bind(const SessionId& id,
                                                                      const SessionConnection& connection,
                                                                      nfs4::channel_dir_from_client4 direction,
                                                                      const Sender& sender) {
  const auto status = CheckProtection(id, nfs4::OP_BIND_CONN_TO_SESSION, sender);
  if (status != nfs4::NFS4_OK) return std::unexpected(status);
  if (dead_sessions_.Has(id)) {
    // The client may send retries over the connection. A dead session has no client that the server could call.
    const bool fore = direction == nfs4::CDFC4_FORE || direction == nfs4::CDFC4_FORE_OR_BOTH;
    if (!fore) return std::unexpected(nfs4::NFS4ERR_DEADSESSION);
    return nfs4::CDFS4_FORE;
  }
  Session* session = Find(id);
  if (!session || session->client->doomed) return std::unexpected(nfs4::NFS4ERR_BADSESSION);
  PENSTOCK_TRY(const auto bound, session->connections.Bind(connection, direction));
  if (bound != nfs4::CDFS4_FORE) session->has_back_channel = true;
  return bound;
}

nfs4::nfsstat4 Sessions::ControlBackChannel(const SessionId& id, uint32_t callback_program,
                                            rpc::ClientCredential credential, const Sender& sender) {
  if (const auto status = CheckProtection(id, nfs4::OP_BACKCHANNEL_CTL, sender); status != nfs4::NFS4_OK) return status;
  Session* session = Find(id);
  if (!session) return nfs4::NFS4ERR_DEADSESSION;  // another connection has destroyed it since SEQUENCE
  const rpc::ReverseProtection* const protection = credential.protection().get();
  if (protection && !HasRoomForRecall(session->back, protection)) return nfs4::NFS4ERR_INVAL;
  session->callback_program = callback_program;
  session->callback_credential = std::move(credential);
  return nfs4::NFS4_OK;
}

// ---- SEQUENCE, RFC 8881 §18.46 ----

Result<Sessions::StartedRequest, nfs4::nfsstat4> Sessions::StartRequest(const nfs4::SEQUENCE4args& arguments,
                                                                        const RequestFacts& facts,
                                                                        const SessionConnection& connection,
                                                                        TimePoint now) {
  Session* session = Find(arguments.sa_sessionid);
  if (!session || session->client->doomed) return std::unexpected(nfs4::NFS4ERR_BADSESSION);
  if (session->dead && !session->slots.IsLast(SlotId(arguments.sa_slotid), SequenceId(arguments.sa_sequenceid))) {
    return std::unexpected(nfs4::NFS4ERR_DEADSESSION);
  }
  // RFC 8881 §2.10.3.1: without state protection, each connection that sends SEQUENCE joins the session. With state
  // protection, the client must bind the connection first (§15.1.11.6).
  const bool must_be_bound = session->client->protection.enforced.Has(nfs4::OP_BIND_CONN_TO_SESSION);
  if (must_be_bound && !session->connections.Has(connection.number)) {
    return std::unexpected(nfs4::NFS4ERR_CONN_NOT_BOUND_TO_SESSION);
  }
  session->connections.JoinFore(connection);
  // RFC 8881 §2.10.6.4: SEQUENCE itself can check these limits.
  if (facts.size > session->fore.ca_maxrequestsize) return std::unexpected(nfs4::NFS4ERR_REQ_TOO_BIG);
  if (facts.operations > session->fore.ca_maxoperations) return std::unexpected(nfs4::NFS4ERR_TOO_MANY_OPS);
  if (arguments.sa_cachethis && session->fore.ca_maxresponsesize_cached < kSmallestReply) {
    return std::unexpected(nfs4::NFS4ERR_REP_TOO_BIG_TO_CACHE);
  }

  session->slots.SetTarget(SlotTarget(*session));
  const size_t kept_before = session->slots.kept_octets();
  PENSTOCK_TRY(auto started, session->slots.Start({.slot = SlotId(arguments.sa_slotid),
                                                   .sequence = SequenceId(arguments.sa_sequenceid),
                                                   .highest_slot = SlotId(arguments.sa_highest_slotid),
                                                   .digest = facts.digest}));
  kept_octets_[Shard::Of(session->id)] -= kept_before - session->slots.kept_octets();
  if (started.outcome == ReplySlots::Outcome::kRun) ++session->client->requests;
  clients_.Renew(*session->client, now);
  StartedRequest result{.outcome = Outcome::kRun,
                        .client = session->client->id,
                        .sequence = {.sr_sessionid = session->id,
                                     .sr_sequenceid = arguments.sa_sequenceid,
                                     .sr_slotid = arguments.sa_slotid,
                                     .sr_highest_slotid = session->slots.highest().value(),
                                     .sr_target_highest_slotid = session->slots.target_highest().value(),
                                     .sr_status_flags = StatusFlags(*session, now)},
                        .max_reply = session->fore.ca_maxresponsesize,
                        .max_kept_reply = session->fore.ca_maxresponsesize_cached,
                        .reply = std::move(started.reply)};
  if (started.outcome == ReplySlots::Outcome::kRun && session->replies) {
    result.replies = session->replies;
    result.reclaiming = clients_.CheckReclaim(result.client) == nfs4::NFS4_OK;
  }
  if (started.outcome == ReplySlots::Outcome::kReplay) result.outcome = Outcome::kReplay;
  if (started.outcome == ReplySlots::Outcome::kUncached) result.outcome = Outcome::kUncached;
  return result;
}

void Sessions::FinishRequest(const SessionId& id, SlotId slot, SequenceId sequence, std::optional<xdr::Message> reply,
                             TimePoint now) {
  Session* session = Find(id);
  if (!session) return;
  const size_t kept_before = session->slots.kept_octets();
  const uint32_t busy_before = session->slots.busy();
  session->slots.Finish(slot, sequence, std::move(reply));
  session->client->requests -= busy_before - session->slots.busy();
  kept_octets_[Shard::Of(id)] += session->slots.kept_octets() - kept_before;
  // The client has waited for the reply, so the lease is renewed however long the request took.
  if (!session->client->doomed) clients_.Renew(*session->client, now);
}

// Reports a backchannel that is down only to a client that has asked for a backchannel.
uint32_t Sessions::StatusFlags(const Session& session, TimePoint now) const {
  const Client& client = *session.client;
  uint32_t flags = 0;
  bool wanted = false, works = false;
  for (const SessionId& id : client.sessions) {
    const Session& each = *Find(id);
    wanted = wanted || each.has_back_channel;
    works = works || each.back_channel_works();
  }
  if (wanted && !works) flags |= nfs4::SEQ4_STATUS_CB_PATH_DOWN;
  if (session.has_back_channel && !session.back_channel_works()) flags |= nfs4::SEQ4_STATUS_CB_PATH_DOWN_SESSION;
  if (session.back_channel_fault()) flags |= nfs4::SEQ4_STATUS_BACKCHANNEL_FAULT;
  if (const auto& protection = session.callback_credential.protection(); protection && session.has_back_channel) {
    const TimePoint end = protection->expires();
    if (now >= end) {
      flags |= nfs4::SEQ4_STATUS_CB_GSS_CONTEXTS_EXPIRED;
    } else if (end - now <= settings_.lease) {
      flags |= nfs4::SEQ4_STATUS_CB_GSS_CONTEXTS_EXPIRING;
    }
  }
  if (clients_.InGrace() && !client.reclaim_complete && clients_.grace().MayReclaim(client.key(), client.principal)) {
    flags |= nfs4::SEQ4_STATUS_RESTART_RECLAIM_NEEDED;
  }
  return flags;
}

}  // namespace penstock::nfs::v4
