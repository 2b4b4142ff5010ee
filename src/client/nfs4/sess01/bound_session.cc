#include "client/nfs4/sess01/bound_session.h"

#include <fmt/core.h>

#include <algorithm>
#include <cerrno>

#include "base/log.h"

namespace penstock::client::v4::sess01 {

using nfs4::ChannelType;
using nfs4::nfsstat4;

namespace {

// The least time between the opening of a connection and that of the next one for the same link, if no request waits.
constexpr Duration kRestoreAfter = std::chrono::milliseconds(200);
// The messages that a session relies on if its connections have stepped up to RDMA: the server may leave the next
// connection on TCP, and its limits there are unknown until then. A payload of 1 MiB fits with its surroundings.
constexpr uint32_t kLeastRecord = (1 << 20) + (8 << 10);
// The delay between attempts to bind a back channel while the server believes in an earlier one.
constexpr Duration kBindBackAgain = std::chrono::milliseconds(500);

// Whether a server answers in this way that does not know the draft: operations of other versions have other numbers.
bool MeansUnknown(nfsstat4 status) {
  switch (status) {
    case nfsstat4::NFS4ERR_OP_ILLEGAL:
    case nfsstat4::NFS4ERR_OP_NOT_IN_SESSION:
    case nfsstat4::NFS4ERR_MINOR_VERS_MISMATCH:
    case nfsstat4::NFS4ERR_NOTSUPP:
      return true;
    default:
      return false;
  }
}

constexpr std::string_view kUnknownDraft = "the server does not offer the sessions of 2004";

// The reply to a COMPOUND of one operation of the draft, outside of a session.
template <class Arguments>
struct Alone {
  rpc::Message message;
  nfs4::COMPOUND4res_head head{};  // without results, if the COMPOUND itself has failed
  typename Operation<Arguments>::Results result{};
  bool is_known = true;  // the server knows the draft
};

template <class Arguments>
Task<Result<Alone<Arguments>, rpc::Error>> CallAlone(rpc::Client& client, uint32_t minor_version, Arguments arguments) {
  const std::tuple<Arguments> operations(std::move(arguments));
  Alone<Arguments> reply;
  const auto encode = [&](xdr::Encoder& encoder) { EncodeCompound(encoder, minor_version, operations); };
  const auto decode = [&](xdr::Decoder& decoder) {
    if (!DecodeHead(decoder, 1, reply.head)) return false;
    reply.is_known = !MeansUnknown(reply.head.status);
    const std::byte* rest = nullptr;
    if (!reply.is_known) return decoder.Take(rest, decoder.remaining());
    return reply.head.count == 0 || DecodeOperation<Arguments>(decoder, reply.result);
  };
  auto message = co_await client.CallWith<nfs4::NFSPROC4_COMPOUND>(encode, ShapeOf(operations, {}), decode);
  if (!message) co_return std::unexpected(message.error());
  reply.message = *std::move(message);
  co_return reply;
}

// Whether another attempt may have a better result.
bool IsLoss(const rpc::Error& error) {
  return error.kind == rpc::Error::Kind::kTransport &&
         (error.transport == rpc::CallError::kDisconnected || error.transport == rpc::CallError::kTimedOut);
}

}  // namespace

BoundSession::BoundSession(Parts parts, CallerOptions options, const BoundSessionOptions& session)
    : CompoundCaller(parts.timers, parts.client, std::move(options)),
      buffers_(parts.buffers),
      connector_(parts.connector),
      session_options_(session) {
  const Link::Surroundings surroundings{.timers = parts.timers,
                                        .buffers = parts.buffers,
                                        .credential = parts.credential,
                                        .connector = parts.connector,
                                        .owner = *this,
                                        .callbacks = *this,
                                        .state = parts.state,
                                        .retry = parts.retry,
                                        .requests = options_.slots,
                                        .max_message = options_.max_message,
                                        .padding = session.padding,
                                        .bind_limit = options_.give_up_after,
                                        .ending = parts.ending};
  const bool shared = session.back == BackChannelPlace::kShared;
  links_.push_back(std::make_unique<Link>(surroundings, Link::Roles{.operations = true, .back = shared},
                                          parts.first_xid, Link::Transport{parts.channel, parts.client}));
  // The XIDs of the links follow from the first one, so that they are as random, and a simulation can repeat a run.
  const auto first_xid_of = [&](uint32_t link) { return rpc::Xid(parts.first_xid.value() + link * 0x0765'4321); };
  for (uint32_t i = 1; i < session.channels; ++i) {
    links_.push_back(std::make_unique<Link>(surroundings, Link::Roles{}, first_xid_of(i)));
  }
  if (session.back == BackChannelPlace::kOwn) {
    back_link_ = std::make_unique<Link>(surroundings, Link::Roles{.operations = false, .back = true},
                                        first_xid_of(session.channels));
  }
  back_ = shared ? links_.front().get() : back_link_.get();
}

BoundSession::~BoundSession() = default;

Task<void> BoundSession::Close() {
  co_await EndBackground();
  changed_.Notify();
  while (recalls_ > 0) co_await changed_;
  // A server that does not answer forgets this client when the lease expires.
  if (!lease_.ready() || !answered_) co_return;
  const std::tuple<DestroyBoundSession> operations;
  CompoundReply<DestroyBoundSession> reply;
  TypedParts<DestroyBoundSession> parts(operations, {}, reply);
  const auto request = co_await StartRequest(lease_.generation());
  if (!request) co_return;
  const auto ended = co_await Send(*request, nfs4::ChainFlags::NOCHAIN, parts, {0, 1}, "unmounting");
  if (!ended) log::debug("{}", ended.error().message);
  // This code may run inside of the connection, which the owner is about to destroy.
  co_await Sleep(timers_, Duration::zero());
}

uint64_t BoundSession::reconnections() const {
  uint64_t count = back_link_ ? back_link_->channel().reconnections() : 0;
  for (const auto& link : links_) count += link->channel().reconnections();
  return count;
}

const SetupError& BoundSession::trouble() const {
  // A session cannot begin without the back channel that it wants.
  if (back_link_ && lease_.next() == BoundLease::Step::kBindBack && !back_link_->channel().trouble().message.empty()) {
    return back_link_->channel().trouble();
  }
  for (const auto& link : links_) {
    if (!link->channel().trouble().message.empty()) return link->channel().trouble();
  }
  return links_.front()->channel().trouble();
}

// ---- set-up and recovery ----

Task<Result<void>> BoundSession::TakeStep(std::string_view what) {
  switch (lease_.next()) {
    case BoundLease::Step::kCreate:
      co_return co_await Create(what);
    case BoundLease::Step::kBindBack:
      co_return co_await BindBack(what);
    case BoundLease::Step::kBind:
      co_return co_await BindOperations(what);
    case BoundLease::Step::kReclaim: {
      const uint64_t before = lease_.epoch();
      co_await Reclaim();
      lease_.HandleReclaimed(before);
      was_ready_ = was_ready_ || lease_.ready();
      break;
    }
    case BoundLease::Step::kReady:
      break;
  }
  co_return Result<void>();
}

// §6.1
Task<Result<void>> BoundSession::Create(std::string_view what) {
  // This code may run inside of a connection.
  co_await Sleep(timers_, Duration::zero());
  // A binding never changes (§2.3), so the next session needs new connections. Its streamids begin unused: no request
  // of the lost session may arrive in it.
  for (const auto& link : links_) link->CloseIfBoundBefore(lease_.generation());
  if (back_link_) back_link_->CloseIfBoundBefore(lease_.generation());
  while (!streams_.idle()) co_await changed_;

  nfs4::SESSIONCREATE4args arguments;
  arguments.clientid.verifier = options_.verifier;
  arguments.clientid.id = AsBytes(options_.owner);
  arguments.persist = session_options_.persist;
  arguments.totalrequests = options_.slots;
  const auto reply = co_await CallAlone(client_, dialect().minor_version, arguments);
  answered_ = reply.has_value();
  if (!reply) co_return std::unexpected(v4::ErrorOf(reply.error(), what));
  if (!reply->is_known) {
    co_return std::unexpected(
        Error{fmt::format("{}: {}", what, kUnknownDraft), Status::kVersionMismatch, EPROTONOSUPPORT});
  }
  if (reply->head.count == 0) co_return std::unexpected(v4::ErrorOf(reply->head.status, what));
  const nfs4::SESSIONCREATE4res& result = reply->result;
  if (!result.is_resok4()) {
    if (result.status() == nfsstat4::NFS4ERR_DELAY) {
      obstacle_ = result.status();
      co_return Result<void>();
    }
    co_return std::unexpected(v4::ErrorOf(result.status(), what));
  }
  lease_.HandleCreated(result.resok4());
  streams_ = StreamTable(std::min(lease_.total_requests(), options_.slots));
  callbacks_.Clear();
  log::debug("{}: session {:016x}, {} requests at once, replies are {}", what, lease_.session(), streams_.limit(),
             lease_.persists() ? "kept over restarts" : "not kept over restarts");
  if (session_options_.persist && !lease_.persists()) {
    log::info("{}: the server does not keep the replies of the session over a restart (persist)", what);
  }
  co_return Result<void>();
}

Task<Result<void>> BoundSession::BindBack(std::string_view what) {
  const uint64_t generation = lease_.generation();
  if (back_) {
    const auto bound = co_await back_->EnsureBound(ChannelType::BACK);
    if (!bound) {
      co_return std::unexpected(
          Error{fmt::format("{}: back channel: {}", what, bound.error().message), {}, bound.error().number});
    }
    if (!back_->is_bound(ChannelType::BACK, generation)) co_return Result<void>();
  }
  if (generation == lease_.generation()) lease_.HandleBackBound();
  co_return Result<void>();
}

Task<Result<void>> BoundSession::BindOperations(std::string_view what) {
  const uint64_t generation = lease_.generation();
  for (size_t i = 0; i < links_.size(); ++i) {
    const auto bound = co_await links_[i]->EnsureBound(ChannelType::OPERATION);
    if (!bound) {
      co_return std::unexpected(
          Error{fmt::format("{}: channel {} of {}: {}", what, i + 1, links_.size(), bound.error().message),
                {},
                bound.error().number});
    }
    if (generation != lease_.generation() || lease_.next() != BoundLease::Step::kBind) co_return Result<void>();
    if (!links_[i]->is_bound(ChannelType::OPERATION, generation)) co_return Result<void>();
  }
  if (max_request_ == 0) {
    max_request_ = max_response_ = options_.max_message;
    for (const auto& link : links_) {
      if (connector_.starts_in_rdma_mode()) continue;  // chunks carry what is larger than a Send
      max_request_ = std::min(max_request_, link->is_rdma() ? kLeastRecord : link->limits().max_request);
      max_response_ = std::min(max_response_, link->is_rdma() ? kLeastRecord : link->limits().max_response);
    }
  }
  lease_.HandleBound();
  changed_.Notify();
  co_return Result<void>();
}

bool BoundSession::Accepts(const Bound& bound) const {
  if (bound.mode == nfs4::ConnectionMode::RDMA) return true;
  return bound.limits.max_request >= max_request_ && bound.limits.max_response >= max_response_;
}

Task<Result<Bound, BindFailure>> BoundSession::SendBind(rpc::Client& client, nfs4::SESSIONBIND4args arguments) {
  using enum BindFailure::Kind;
  BindFailure failure;
  const auto reply = co_await CallAlone(client, dialect().minor_version, arguments);
  answered_ = reply.has_value();
  if (!reply) {
    Error error = v4::ErrorOf(reply.error(), "binding a connection");
    failure = {{std::move(error.message), error.number}, IsLoss(reply.error()) ? kLost : kFinal};
  } else if (!reply->is_known) {
    failure.why = {std::string(kUnknownDraft), EPROTONOSUPPORT};
  } else if (reply->head.count == 0) {
    Bound refused;
    refused.status = reply->head.status;
    co_return refused;
  } else {
    Result<Bound, std::string> bound = BoundOf(reply->result, arguments);
    if (bound) co_return *std::move(bound);
    failure.why = {std::move(bound).error(), EPROTO};
  }
  co_return std::unexpected(std::move(failure));
}

void BoundSession::HandleBound(ChannelType type, const Bound& bound, uint64_t generation) {
  if (type == ChannelType::BACK) callbacks_.HandleBound(bound.channel, bound.limits.credits);
  const uint64_t before = lease_.epoch();
  lease_.HandleInstance(bound.instance, generation);
  // The grace period may end before the next use of a file.
  if (lease_.epoch() != before) StartRecovery();
}

void BoundSession::LoseSession(uint64_t generation) {
  if (generation != lease_.generation() || !lease_.has_session()) return;
  log::debug("the server does not know the session {:016x} any more", lease_.session());
  obstacle_ = nfsstat4::NFS4ERR_SESS01_BADSESSION;
  lease_.HandleLost(generation);
  changed_.Notify();
  StartRecovery();
}

void BoundSession::StartRecovery() {
  if (!was_ready_ || closing() || std::exchange(recovering_alone_, true)) return;
  SpawnBackground(RecoverAlone());
}

Task<void> BoundSession::RecoverAlone() {
  co_await Sleep(timers_, Duration::zero());
  const Result<void> recovered = co_await Ready("recovering the session");
  if (!recovered && !ended()) log::warn("{}", recovered.error().message);
  recovering_alone_ = false;
}

// ---- connections and the lease ----

Task<void> BoundSession::RenewLease() {
  auto reply = co_await Call([] { return std::tuple<>(); }, "renewing the lease");
  if (!reply && !ended()) log::warn("{}", reply.error().message);
  if (back_ && !back_->connected()) HandleConnectionLost(*back_);
}

void BoundSession::HandleConnectionLost(Link& link) {
  if (!was_ready_ || closing() || std::ranges::find(restoring_, &link) != restoring_.end()) return;
  restoring_.push_back(&link);
  SpawnBackground(Restore(link));
}

Task<void> BoundSession::Restore(Link& link) {
  // This code may run inside of the lost connection.
  co_await Sleep(timers_, Duration::zero());
  co_await Pause(timers_, std::max(link.opened_at() + kRestoreAfter - timers_.Now(), Duration::zero()), ending());
  if (!closing()) {
    const auto connected = co_await link.EnsureConnected();
    if (!connected) log::debug("a channel is not restored: {}", connected.error().message);
  }
  std::erase(restoring_, &link);
}

void BoundSession::HandleBackRefused(Link& link) {
  if (!was_ready_ || closing() || std::exchange(binding_later_, true)) return;
  SpawnBackground(BindBackLater(link));
}

Task<void> BoundSession::BindBackLater(Link& link) {
  for (;;) {
    co_await Pause(timers_, kBindBackAgain, ending());
    if (closing() || link.is_bound(ChannelType::BACK, lease_.generation())) break;
    if (!lease_.ready()) continue;
    const auto bound = co_await link.EnsureBound(ChannelType::BACK);
    if (!bound) log::debug("no back channel yet: {}", bound.error().message);
    if (!bound && link.is_refused()) {
      log::warn("no back channel: {}", bound.error().message);
      break;
    }
  }
  binding_later_ = false;
}

// §2.4, §6.5
Task<nfsstat4> BoundSession::RecallCredits(uint32_t target) {
  ++recalls_;
  log::debug("the server wants no more than {} requests at once", target);
  streams_.Lower(target);
  while (!streams_.IsQuietFrom(target) && !closing()) co_await changed_;
  for (const auto& link : links_) co_await link->ReturnCredits(target);
  --recalls_;
  changed_.Notify();
  co_return nfsstat4::NFS4_OK;
}

}  // namespace penstock::client::v4::sess01
