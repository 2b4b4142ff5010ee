#include "nfs/v4/state/sess01/bound_sessions.h"

#include <algorithm>
#include <ranges>

namespace penstock::nfs::v4::sess01 {
namespace {

// The credential of calls to the client: of the flavor with which the client bound the back channel. The server makes
// no calls under RPCSEC_GSS, because it establishes no contexts.
std::optional<rpc::ClientCredential> CallbackCredentialFor(const rpc::Credential& binder) {
  switch (binder.flavor) {
    case rpc::AuthFlavor::AUTH_NONE:
      return rpc::ClientCredential();
    case rpc::AuthFlavor::AUTH_SYS:
      return rpc::ClientCredential(rpc::SystemIdentity{.machine = "penstock", .uid = 0, .gid = 0, .groups = {}});
    default:
      return std::nullopt;
  }
}

}  // namespace

BoundSession::Channel* BoundSession::OperationsOf(uint64_t connection) {
  const auto found = std::ranges::find_if(
      live, [&](const Channel& each) { return each.connection == connection && each.type == nfs4::OPERATION; });
  return found == live.end() ? nullptr : &*found;
}

const BoundSession::Channel* BoundSession::Back() const {
  const auto found = std::ranges::find(live, nfs4::BACK, &Channel::type);
  return found == live.end() ? nullptr : &*found;
}

// ---- look-ups ----

BoundSession* BoundSessions::Living(BoundSession& session) {
  const Client* client = clients_.FindAny(session.client);
  return client && !client->doomed ? &session : nullptr;
}

BoundSession* BoundSessions::Find(uint64_t id) {
  const auto found = sessions_.find(id);
  return found == sessions_.end() ? nullptr : Living(*found->second);
}

BoundSession* BoundSessions::OfConnection(uint64_t connection) {
  const auto found = connections_.find(connection);
  return found == connections_.end() ? nullptr : Living(*found->second);
}

const BoundSession* BoundSessions::CreatedOver(uint64_t connection) {
  const auto found = created_over_.find(connection);
  return found == created_over_.end() ? nullptr : Living(*found->second);
}

// ---- life ----

BoundSession& BoundSessions::Add(Client& client, const NewSession& asked) {
  // Clients removes unconfirmed clients without telling this table.
  if (sessions_.size() > 2 * clients_.client_count()) Sweep();
  uint64_t id = asked.id;
  while (id == 0 || sessions_.contains(id)) ++id;
  auto session = std::make_unique<BoundSession>(
      BoundSession{.id = id,
                   .client = client.id,
                   .created_over = asked.connection,
                   .creator = asked.back_channel,
                   .host = asked.host,
                   .streams = StreamTable(asked.requests, asked.keeping != Keeping::kNothing)});
  BoundSession& added = *session;
  sessions_.emplace(id, std::move(session));
  created_over_.insert_or_assign(asked.connection, &added);
  if (asked.keeping == Keeping::kOnStableStorage) {
    added.channels = Channels(ChannelId(1), false);
    TakePlace(added);
    without_storage_.push_back(id);
  }
  client.bound_session = id;
  return added;
}

Result<BoundSessions::BoundChannel, nfs4::nfsstat4> BoundSessions::Bind(BoundSession& session, nfs4::ChannelType type,
                                                                        rpc::ConnectionLimits limits,
                                                                        const SessionConnection& connection,
                                                                        const rpc::Credential& credential) {
  // A connection that is lost no longer counts, for example as the one that has the back channel.
  CloseLost(session);
  PENSTOCK_TRY(const ChannelId id, session.channels.Bind(connection.number, type));
  if (type == nfs4::OPERATION) limits.credits = std::min(limits.credits, session.most_credits);
  session.live.push_back({.id = id,
                          .type = type,
                          .connection = connection.number,
                          .way = connection.back_channel,
                          .limits = limits,
                          .chain = {}});
  connections_.insert_or_assign(connection.number, &session);
  if (type == nfs4::BACK) {
    session.callback_streams = CallbackSlots(limits.credits);
    session.callbacks_since = id;
    session.callback_credential = CallbackCredentialFor(credential);
  }
  return BoundChannel{.id = id, .credits = limits.credits};
}

void BoundSessions::End(uint64_t id, uint64_t except) {
  const auto found = sessions_.find(id);
  if (found == sessions_.end()) return;
  BoundSession& session = *found->second;
  for (const auto& each : std::vector(session.channels.connections())) {
    if (each.number != except) CloseConnection(session, each.number, "its session has ended");
  }
  if (Client* client = clients_.FindAny(session.client)) {
    client->requests -= session.streams.busy();
    client->bound_session.reset();
  }
  Erase(session);
}

void BoundSessions::Erase(BoundSession& session) {
  for (auto& each : session.stream_waits) ended_waits_.push_back(std::move(each.wait));
  for (auto& each : session.chain_waits) ended_waits_.push_back(std::move(each.wait));
  for (const auto& each : session.channels.connections()) connections_.erase(each.number);
  const auto created = created_over_.find(session.created_over);
  if (created != created_over_.end() && created->second == &session) created_over_.erase(created);
  kept_octets_ -= session.streams.kept_octets();
  LeavePlace(session);
  if (session.storage) RemoveStorage(std::move(session.storage));
  sessions_.erase(uint64_t{session.id});
}

void BoundSessions::CloseConnection(BoundSession& session, uint64_t connection, std::string_view why) {
  if (session.channels.CloseConnection(connection).empty()) return;
  for (auto& channel : session.live) {
    if (channel.connection != connection) continue;
    channel.chain.Lose();
    if (channel.way) closings_.push_back({channel.way, std::string(why)});
  }
  std::erase_if(session.live, [&](const auto& channel) { return channel.connection == connection; });
  connections_.erase(connection);
  // The chains of the channel are broken: their requests must not wait for their turns. Retries that came over the
  // connection need not wait either.
  WakeChain(session, nullptr);
  std::erase_if(session.stream_waits, [&](auto& each) {
    if (each.connection != connection) return false;
    ended_waits_.push_back(std::move(each.wait));
    return true;
  });
}

void BoundSessions::CloseLost(BoundSession& session) {
  std::vector<uint64_t> lost;
  for (const auto& channel : session.live) {
    if (channel.way && !channel.way->connected()) lost.push_back(channel.connection);
  }
  for (const uint64_t connection : lost) CloseConnection(session, connection, "it is lost");
}

void BoundSessions::Sweep() {
  std::vector<BoundSession*> orphans;
  for (const auto& [id, session] : sessions_) {
    if (!clients_.Has(session->client)) orphans.push_back(session.get());
    CloseLost(*session);
  }
  for (BoundSession* orphan : orphans) Erase(*orphan);
}

// ---- OPERATION_CONTROL ----

BoundSessions::Started BoundSessions::StartRequest(const nfs4::OPERATIONCONTROL4args& arguments,
                                                   const RequestFacts& facts, const SessionConnection& connection,
                                                   Loop* loop, TimePoint now) {
  BoundSession* const session = OfConnection(connection.number);
  BoundSession::Channel* own = session ? session->OperationsOf(connection.number) : nullptr;
  if (own && own->way && !own->way->connected()) {
    CloseConnection(*session, connection.number, "it is lost");
    own = nullptr;
  }
  if (!own) return std::unexpected(nfs4::NFS4ERR_SESS01_NOT_BOUND);
  if (facts.follows_gap) own->chain.Miss();
  Started started = StartOver(*session, *own, arguments, facts, loop, now);
  // A retry does not concern the chain of the channel over which it comes.
  own = session->OperationsOf(connection.number);
  const bool is_retry = ChannelId(arguments.channelid) != own->id;
  const bool is_refused = !started && (!is_retry || started.error() == nfs4::NFS4ERR_SESS01_BADCHANNEL);
  if (is_refused) own->chain.Refuse(arguments.chainflags);
  return started;
}

BoundSessions::Started BoundSessions::StartOver(BoundSession& session, BoundSession::Channel& channel,
                                                const nfs4::OPERATIONCONTROL4args& arguments, const RequestFacts& facts,
                                                Loop* loop, TimePoint now) {
  // §2.2.4: the size agreed for the channel. Over RDMA the transport itself knows it.
  if (facts.is_stream && facts.size > channel.limits.max_request) return std::unexpected(nfs4::NFS4ERR_TOOSMALL);
  const StreamId stream(arguments.streamid);
  if (stream.value() >= session.streams.count()) return std::unexpected(nfs4::NFS4ERR_SESS01_BADSTREAM);
  const ChannelId named(arguments.channelid);
  const uint64_t connection = channel.connection;
  const bool is_retry = named != channel.id;
  ChannelState state = session.channels.Named(named);
  if (state.standing == ChannelState::Standing::kUnknown) return std::unexpected(nfs4::NFS4ERR_SESS01_BADCHANNEL);
  if (is_retry && state.standing == ChannelState::Standing::kLive) {
    // From here on, nothing that is late on the named channel is executed.
    CloseConnection(session, *session.channels.ConnectionOf(named), "a retry over another connection has replaced it");
    state = session.channels.Named(named);
  }
  BoundSession::Channel* const own = session.OperationsOf(connection);

  Client& client = *clients_.FindAny(session.client);
  const StreamTable::Request request{
      .stream = stream, .own = own->id, .named = named, .xid = facts.xid, .digest = facts.digest};
  PENSTOCK_TRY(auto started,
               ChangeStreams(session, [&](StreamTable& streams) { return streams.Start(request, state); }));
  clients_.Renew(client, now);
  StartedRequest result{.outcome = started.outcome, .reply = std::move(started.reply)};
  if (started.outcome == StreamTable::Outcome::kWait) {
    result.wait = std::make_shared<RequestWait>(loop);
    session.stream_waits.push_back({stream, connection, result.wait});
  }
  if (started.outcome != StreamTable::Outcome::kRun) return result;

  result.request = {
      .session = session.id, .stream = stream, .execution = started.execution, .connection = connection, .chain = {}};
  result.client = client.id;
  result.limits = own->limits;
  result.keeps_reply = session.streams.keeps_replies();
  result.repeats = started.repeats;
  result.storage = session.storage;
  if (auto judged = own->chain.Judge(arguments.chainflags, is_retry)) {
    result.request.chain = *std::move(judged);
  } else {
    result.refusal = judged.error();
  }
  return result;
}

bool BoundSessions::IsUnderWay(const RequestRef& request) {
  BoundSession* const session = Find(request.session);
  return session && session->streams.IsUnderWay(request.stream, request.execution);
}

BoundSessions::ChainTurn BoundSessions::TurnOf(const RequestRef& request, Loop* loop) {
  BoundSession* const session = Find(request.session);
  if (!session) return {};
  // The loss of the channel also breaks a chain whose last request has arrived.
  if (!session->OperationsOf(request.connection)) return {.lost = true};
  const ChainRun::Turn turn = request.chain.run->TurnOf(request.chain.place);
  if (turn == ChainRun::Turn::kRun) return {.turn = turn, .filehandles = request.chain.run->filehandles()};
  if (turn == ChainRun::Turn::kBroken) return {};
  auto wait = std::make_shared<RequestWait>(loop);
  session->chain_waits.push_back({request.chain.run, wait});
  return {.turn = turn, .wait = std::move(wait)};
}

void BoundSessions::FinishRequest(const RequestRef& request, RequestEnd end, TimePoint now) {
  BoundSession* const session = Find(request.session);
  if (!session) return;
  ChangeStreams(*session, [&](StreamTable& streams) {
    streams.Finish(request.stream, request.execution, std::move(end.reply), end.changed);
  });
  clients_.Renew(*clients_.FindAny(session->client), now);
  if (request.chain.run) {
    if (end.executed) request.chain.run->Finish(request.chain.place, end.complete, end.filehandles);
    WakeChain(*session, request.chain.run.get());
  }
  WakeStream(*session, request.stream);
}

void BoundSessions::WithdrawRequest(const RequestRef& request) {
  BoundSession* const session = Find(request.session);
  if (!session) return;
  ChangeStreams(*session, [&](StreamTable& streams) { streams.Withdraw(request.stream, request.execution); });
  if (request.chain.run) {
    request.chain.run->Break();
    WakeChain(*session, request.chain.run.get());
  }
  WakeStream(*session, request.stream);
}

const char* BoundSessions::FindInconsistency() const {
  const char* wrong = nullptr;
  size_t bound = 0;
  clients_.ForEach([&](const Client& client) {
    if (client.dialect.session_kind() != SessionKind::kBound) return;
    const auto found = client.bound_session ? sessions_.find(*client.bound_session) : sessions_.end();
    if (found == sessions_.end() || found->second->client != client.id) {
      wrong = "a client of the sessions of 2004 has no session, or one of another client";
    } else if (found->second->streams.busy() != client.requests) {
      wrong = "the number of requests under way in a session of 2004 is wrong";
    }
  });
  if (wrong) return wrong;
  size_t kept = 0;
  for (const auto& [id, session] : sessions_) {
    kept += session->streams.kept_octets();
    size_t live = 0;
    for (const auto& each : session->channels.connections()) {
      live += (each.operations ? 1 : 0) + (each.back ? 1 : 0);
      const auto known = connections_.find(each.number);
      if (known == connections_.end() || known->second != session.get()) return "a bound connection is not listed";
      ++bound;
    }
    if (session->id != id || live != session->live.size()) return "the channels of a session of 2004 are inconsistent";
  }
  const auto is_without_storage = [&](uint64_t id) {
    const auto found = sessions_.find(id);
    return found != sessions_.end() && found->second->persistent && !found->second->storage;
  };
  if (!std::ranges::all_of(without_storage_, is_without_storage)) return "a session of 2004 has storage, or no place";
  if (kept != kept_octets_) return "the number of octets that the sessions of 2004 keep is wrong";
  return bound == connections_.size() ? nullptr : "a connection is listed, but bound to no session";
}

void BoundSessions::WakeStream(BoundSession& session, StreamId stream) {
  std::erase_if(session.stream_waits, [&](auto& each) {
    if (each.stream != stream) return false;
    ended_waits_.push_back(std::move(each.wait));
    return true;
  });
}

// Wakes the requests that wait for their turn in a chain; in all chains if `run` is null.
void BoundSessions::WakeChain(BoundSession& session, const ChainRun* run) {
  std::erase_if(session.chain_waits, [&](auto& each) {
    if (run && each.run.get() != run) return false;
    ended_waits_.push_back(std::move(each.wait));
    return true;
  });
}

}  // namespace penstock::nfs::v4::sess01
