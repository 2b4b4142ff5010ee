#include "client/nfs4/sess01/bound_session.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/log.h"

namespace penstock::client::v4::sess01 {

using nfs4::ChannelType;
using nfs4::nfsstat4;

namespace {

// The least time between the opening of a connection and that of the next one for the same link, if no request waits.
constexpr Duration kRestoreAfter = std::chrono::milliseconds(200);
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

}  // namespace

BoundSession::BoundSession(Parts parts, CallerOptions options, const BoundSessionOptions& session)
    : CompoundCaller(parts.timers, parts.client, std::move(options)),
      buffers_(parts.buffers),
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
                                        .bind_limit = options_.give_up_after};
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

const std::string& BoundSession::trouble() const {
  for (const auto& link : links_) {
    if (!link->channel().trouble().empty()) return link->channel().trouble();
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
  const std::tuple operations(arguments);
  nfs4::COMPOUND4res_head head;
  nfs4::SESSIONCREATE4res result;
  bool is_known = true;
  const auto encode = [&](xdr::Encoder& encoder) { EncodeCompound(encoder, dialect().minor_version, operations); };
  const auto decode = [&](xdr::Decoder& decoder) {
    if (!DecodeHead(decoder, 1, head)) return false;
    is_known = !MeansUnknown(head.status);
    const std::byte* rest = nullptr;
    if (!is_known) return decoder.Take(rest, decoder.remaining());
    return head.count == 0 || DecodeOperation<nfs4::SESSIONCREATE4args>(decoder, result);
  };
  auto message = co_await client_.CallWith<nfs4::NFSPROC4_COMPOUND>(encode, ShapeOf(operations, {}), decode);
  answered_ = message.has_value();
  if (!message) co_return std::unexpected(v4::ErrorOf(message.error(), what));
  if (!is_known) {
    co_return std::unexpected(Error{fmt::format("{}: the server does not offer the sessions of 2004", what),
                                    static_cast<Status>(nfsstat4::NFS4ERR_MINOR_VERS_MISMATCH)});
  }
  if (head.count == 0) co_return std::unexpected(v4::ErrorOf(head.status, what));
  if (!result.is_resok4()) {
    if (result.status() == nfsstat4::NFS4ERR_DELAY) co_return Result<void>();
    co_return std::unexpected(v4::ErrorOf(result.status(), what));
  }
  lease_.HandleCreated(result.resok4());
  streams_ = StreamTable(std::min(lease_.total_requests(), options_.slots));
  callbacks_.Clear();
  log::debug("{}: session {:016x}, {} requests at once, replies are {}", what, lease_.session(), streams_.limit(),
             lease_.persists() ? "kept over restarts" : "not kept over restarts");
  co_return Result<void>();
}

Task<Result<void>> BoundSession::BindBack(std::string_view what) {
  const uint64_t generation = lease_.generation();
  if (back_) {
    const auto bound = co_await back_->EnsureBound(ChannelType::BACK);
    if (!bound) co_return std::unexpected(Error{fmt::format("{}: back channel: {}", what, bound.error()), {}});
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
          Error{fmt::format("{}: channel {} of {}: {}", what, i + 1, links_.size(), bound.error()), {}});
    }
    if (generation != lease_.generation() || lease_.next() != BoundLease::Step::kBind) co_return Result<void>();
    if (!links_[i]->is_bound(ChannelType::OPERATION, generation)) co_return Result<void>();
  }
  if (max_request_ == 0) {
    max_request_ = max_response_ = options_.max_message;
    for (const auto& link : links_) {
      if (link->is_rdma()) continue;  // chunks carry what is larger than a Send
      max_request_ = std::min(max_request_, link->limits().max_request);
      max_response_ = std::min(max_response_, link->limits().max_response);
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

Task<Result<Bound, std::string>> BoundSession::SendBind(rpc::Client& client, nfs4::SESSIONBIND4args arguments) {
  auto reply = co_await Bare(client, arguments, "binding a connection");
  if (!reply) co_return std::unexpected(std::move(reply).error().message);
  co_return BoundOf(std::get<0>(reply->results), arguments);
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
  if (!recovered) log::warn("{}", recovered.error().message);
  recovering_alone_ = false;
}

// ---- connections and the lease ----

Task<void> BoundSession::RenewLease() {
  auto reply = co_await Call([] { return std::tuple<>(); }, "renewing the lease");
  if (!reply) log::warn("{}", reply.error().message);
  if (back_ && !back_->connected()) HandleConnectionLost(*back_);
}

void BoundSession::HandleConnectionLost(Link& link) {
  if (!was_ready_ || closing() || std::ranges::find(restoring_, &link) != restoring_.end()) return;
  restoring_.push_back(&link);
  SpawnBackground(Restore(link));
}

Task<void> BoundSession::Restore(Link& link) {
  // This code may run inside of the lost connection.
  co_await Sleep(timers_, std::max(link.opened_at() + kRestoreAfter - timers_.Now(), Duration::zero()));
  if (!closing()) {
    const auto connected = co_await link.EnsureConnected();
    if (!connected) log::debug("a channel is not restored: {}", connected.error());
  }
  std::erase(restoring_, &link);
}

void BoundSession::HandleBackRefused(Link& link) {
  if (!was_ready_ || closing() || std::exchange(binding_later_, true)) return;
  SpawnBackground(BindBackLater(link));
}

Task<void> BoundSession::BindBackLater(Link& link) {
  for (;;) {
    co_await Sleep(timers_, kBindBackAgain);
    if (closing() || link.is_bound(ChannelType::BACK, lease_.generation())) break;
    if (!lease_.ready()) continue;
    const auto bound = co_await link.EnsureBound(ChannelType::BACK);
    if (!bound) log::debug("no back channel yet: {}", bound.error());
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
