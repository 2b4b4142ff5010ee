#include "client/reconnecting_channel.h"

#include <fmt/core.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <string_view>
#include <utility>

#include "base/log.h"
#include "base/pauses.h"
#include "client/set_up.h"

namespace penstock::client {
namespace {

// How often one of the last calls is sent again, because its connection was lost.
constexpr int kMostLossesAtTheEnd = 2;

std::string_view NameOf(ConnectionKind kind) { return kind == ConnectionKind::kMain ? "RDMA" : "TCP"; }

}  // namespace

ReconnectingChannel::ReconnectingChannel(TimerService& timers, Opener opener, RetryPolicy policy, Cancellation* ending)
    : timers_(timers), opener_(std::move(opener)), policy_(policy), ending_(ending), ending_entry_(ending, [this] {
        HandleEnding();
      }) {}

void ReconnectingChannel::HandleClosing() {
  closing_ = true;
  if (overdue_ > 0) CloseConnections();
}

void ReconnectingChannel::HandleEnding() {
  trouble_ = {std::string(kClosing), ECANCELED};
  if (attempt_) attempt_->Cancel();
  CloseConnections();
}

// The calls that this ends may lead to the destruction of this object.
void ReconnectingChannel::CloseConnections() {
  const std::vector<Pointer> lost = lost_;
  for (const auto& channel : connections()) channel->Close();
  for (const Pointer& each : lost) each->channel->Close();
}

Task<SetupResult<void>> ReconnectingChannel::Connect() {
  auto opened = co_await Open(policy_.give_up_after);
  refused_ = false;
  if (!opened) co_return std::unexpected(std::move(opened).error());
  Add(*std::move(opened));
  if (IsCancelled(ending_)) co_return std::unexpected(SetupError{std::string(kClosing), ECANCELED});
  co_return SetupResult<void>();
}

Task<SetupResult<std::unique_ptr<rpc::Channel>>> ReconnectingChannel::Open(Duration time_limit) {
  attempt_.emplace();
  if (IsCancelled(ending_)) attempt_->Cancel();
  if (others_ > 0) time_limit = std::min(time_limit, policy_.longest_attempt);
  auto opened = co_await opener_(time_limit);
  const bool is_late = attempt_limit_ && attempt_limit_->timed_out();
  attempt_limit_.reset();
  attempt_.reset();
  if (opened || !is_late) co_return opened;
  co_return std::unexpected(
      SetupError{fmt::format("a connection over {} took too long", NameOf(next_kind_)), ETIMEDOUT});
}

void ReconnectingChannel::LimitAttempt() {
  if (others_ == 0) return;
  attempt_limit_.emplace(timers_, policy_.longest_attempt, nullptr, [this] {
    if (attempt_) attempt_->Cancel();
  });
}

void ReconnectingChannel::Widen(size_t connections, Repetition repetition, size_t others) {
  most_ = std::max<size_t>(connections, 1);
  others_ = std::min(others, most_ - 1);
  repetition_ = repetition;
}

std::vector<std::shared_ptr<rpc::Channel>> ReconnectingChannel::connections() const {
  std::vector<std::shared_ptr<rpc::Channel>> channels;
  for (const Pointer& each : connections_) channels.emplace_back(each, each->channel.get());
  return channels;
}

ReconnectingChannel::Pointer ReconnectingChannel::Choose(uint64_t lost_over) const {
  Pointer chosen;
  for (const Pointer& each : connections_) {
    if (repetition_ == Repetition::kOverNewerConnection && each->number <= lost_over) continue;
    const auto busy = [](const Connection& of) { return std::pair(of.under_way, of.last_use); };
    if (!chosen || busy(*each) < busy(*chosen)) chosen = each;
  }
  return chosen;
}

Task<Result<rpc::Message, rpc::CallError>> ReconnectingChannel::Call(rpc::Message call, rpc::ReplyShape shape) {
  const TimePoint give_up = timers_.Now() + policy_.give_up_after;
  const uint64_t refusals = refusals_;
  uint64_t lost_over = 0;
  for (int losses = 0;; ++losses) {
    if (closing_ && overdue_ > 0) co_return std::unexpected(rpc::CallError::kTimedOut);
    if (closing_ && losses > kMostLossesAtTheEnd) co_return std::unexpected(rpc::CallError::kDisconnected);
    Pointer connection = Choose(lost_over);
    while (!connection && !IsCancelled(ending_)) {
      if (refusals_ != refusals) co_return std::unexpected(rpc::CallError::kRefused);
      if (timers_.Now() >= give_up) co_return std::unexpected(rpc::CallError::kDisconnected);
      if (connecting_) {
        co_await changed_;
      } else {
        co_await Reconnect(give_up);
      }
      connection = Choose(lost_over);
    }
    if (IsCancelled(ending_)) co_return std::unexpected(rpc::CallError::kCancelled);
    ++connection->under_way;
    connection->last_use = ++uses_;
    ConnectFurther();
    auto reply = co_await connection->channel->Call(call, shape);
    --connection->under_way;
    if (IsCancelled(ending_)) {
      if (reply) co_return reply;
      co_return std::unexpected(rpc::CallError::kCancelled);
    }
    if (reply) HandleReply(*connection);
    // An overdue reply means that the connection is no longer usable.
    if (reply || (reply.error() != rpc::CallError::kDisconnected && reply.error() != rpc::CallError::kTimedOut)) {
      co_return reply;
    }
    HandleLoss(connection, reply.error());
    lost_over = connection->number;
    // A call must not be repeated while the connection is up over which it was sent (RFC 8881 §2.9.2).
    if (reply.error() == rpc::CallError::kTimedOut) connection->channel->Close();
  }
}

// nfs(5) describes the linear growth: a server that is only slow must be able to answer in the end.
Duration ReconnectingChannel::reply_limit() const {
  constexpr Duration kLongest = std::chrono::minutes(10);
  if (policy_.reply_limit >= kLongest / (1 + static_cast<int64_t>(overdue_))) return kLongest;
  return policy_.reply_limit * (1 + static_cast<int64_t>(overdue_));
}

void ReconnectingChannel::HandleReply(Connection& from) {
  if (!std::exchange(from.has_replied, true)) {
    delay_ = Duration::zero();
    further_at_ = {};
  }
  if (std::exchange(overdue_, 0) > 0) {
    for (const Pointer& each : connections_) each->overdue_before = 0;
  }
  trouble_ = {};
  if (std::exchange(told_, false)) log::warn("{}: the server answers again", policy_.server);
}

void ReconnectingChannel::HandleLoss(const Pointer& connection, rpc::CallError error) {
  if (std::erase(connections_, connection) == 0) return;  // another call has noticed the loss
  lost_.push_back(connection);
  ++lacking_;
  if (error == rpc::CallError::kTimedOut) {
    // Connections that wait for the same silent server at the same time count once.
    overdue_ = std::max(overdue_, connection->overdue_before + 1);
    trouble_ = {"the server does not answer", ETIMEDOUT};
  } else if (!connection->has_replied && connections_.empty()) {
    trouble_ = {"the server closes connections before it answers: it may be full, or this may be its port for RDMA",
                ECONNRESET};
  }
  // The attempts that have failed were for a further connection.
  if (connection->has_replied && connections_.empty()) delay_ = Duration::zero();
  if (!connection->has_replied) {
    further_at_ = timers_.Now() + delay_;
    failed_kind_ = connection->kind;
  }
  const bool is_in_the_way = making_further_ && attempt_ && connections_.empty() && next_kind_ != connection->kind;
  if (is_in_the_way && connection->has_replied && cut_short_ != next_kind_) {
    cut_short_ = next_kind_;
    attempt_->Cancel();
  }
}

void ReconnectingChannel::Add(std::unique_ptr<rpc::Channel> channel) {
  const auto connection = std::make_shared<Connection>(Connection{
      .channel = std::move(channel), .kind = next_kind_, .number = ++last_number_, .overdue_before = overdue_});
  connections_.push_back(connection);
  server_ = reached_;
  if (told_missing_ == next_kind_) {
    told_missing_.reset();
    log::warn("{}: a connection over {} is up again", policy_.server, NameOf(next_kind_));
  }
  if (lacking_ > 0) {
    --lacking_;
    ++reconnections_;
  }
  if (IsCancelled(ending_)) connection->channel->Close();
}

// This code may run inside of a lost connection. In the next turn of the loop it does not.
Task<void> ReconnectingChannel::DestroyLost() {
  const std::vector<Pointer> lost = std::exchange(lost_, {});
  co_await Sleep(timers_, Duration::zero());
}

Task<void> ReconnectingChannel::Reconnect(TimePoint give_up) {
  connecting_ = true;
  co_await DestroyLost();
  if (delay_ > Duration::zero()) co_await Wait(give_up);
  while (timers_.Now() < give_up && !IsCancelled(ending_)) {
    const bool is_enough = co_await Attempt(give_up);
    if (is_enough) break;
    co_await Wait(give_up);
  }
  connecting_ = false;
  changed_.Notify();
}

void ReconnectingChannel::ConnectFurther() {
  if (connecting_ || timers_.Now() < further_at_ || !HasUseForMore()) return;
  connecting_ = true;
  making_further_ = true;
  Spawn(MakeFurther());
}

// Nobody waits for it, so that the next call that finds all connections busy makes the next attempt after a failure.
Task<void> ReconnectingChannel::MakeFurther() {
  co_await DestroyLost();
  while (HasUseForMore()) {
    const uint64_t last = last_number_;
    (void)co_await Attempt(timers_.Now() + policy_.give_up_after);
    if (last_number_ == last) {
      further_at_ = timers_.Now() + delay_;
      break;
    }
    changed_.Notify();
  }
  connecting_ = false;
  making_further_ = false;
  changed_.Notify();
}

bool ReconnectingChannel::HasUseForMore() const {
  if (closing_ || IsCancelled(ending_) || connections_.size() >= most_) return false;
  // The user prefers the main transport, so one call at a time is enough to make its first connection again.
  if (!connections_.empty() && CountOf(ConnectionKind::kMain) == 0) return true;
  size_t under_way = 0;
  for (const Pointer& each : connections_) under_way += each->under_way;
  return under_way > connections_.size();
}

size_t ReconnectingChannel::CountOf(ConnectionKind kind) const {
  return static_cast<size_t>(std::ranges::count(connections_, kind, [](const Pointer& each) { return each->kind; }));
}

bool ReconnectingChannel::Lacks(ConnectionKind kind) const {
  return CountOf(kind) < (kind == ConnectionKind::kOther ? others_ : most_ - others_);
}

// After an attempt that has failed, it is the other kind's turn.
ConnectionKind ReconnectingChannel::ChooseKind() const {
  const bool main = Lacks(ConnectionKind::kMain), other = Lacks(ConnectionKind::kOther);
  if (main && other) return failed_kind_ == ConnectionKind::kMain ? ConnectionKind::kOther : ConnectionKind::kMain;
  return other ? ConnectionKind::kOther : ConnectionKind::kMain;
}

Task<void> ReconnectingChannel::EndConnecting() {
  while (making_further_) co_await changed_;
  // The connection that was made meanwhile is closed, and its code may be running.
  co_await Sleep(timers_, Duration::zero());
}

Task<bool> ReconnectingChannel::Attempt(TimePoint give_up) {
  delay_ = std::clamp(delay_ * 2, policy_.first_delay, policy_.longest_delay);
  next_kind_ = ChooseKind();
  const bool had_been_cut_short = cut_short_ == next_kind_;
  auto opened = co_await Open(give_up - timers_.Now());
  if (had_been_cut_short) cut_short_.reset();
  failed_kind_ = opened ? std::nullopt : std::optional(next_kind_);
  if (opened) {
    Add(*std::move(opened));
    co_return true;
  }
  if (IsCancelled(ending_)) co_return true;
  if (connections_.empty()) {
    log::debug("no connection yet: {}", opened.error().message);
    // If the attempt was for a further connection, the loss of the last one is the reason.
    if (!making_further_) trouble_ = std::move(opened).error();
  } else if (others_ > 0 && CountOf(next_kind_) == 0 && std::exchange(told_missing_, next_kind_) != next_kind_) {
    log::warn("{}: {}; the calls go over the other transport", policy_.server, opened.error().message);
  } else {
    log::info("{}: {} of {} connections are up: {}", policy_.server, connections_.size(), most_,
              opened.error().message);
  }
  if (!std::exchange(refused_, false) && !closing_) co_return false;
  ++refusals_;
  delay_ = Duration::zero();
  co_return true;
}

Task<void> ReconnectingChannel::Wait(TimePoint give_up) {
  const Duration left = std::max(give_up - timers_.Now(), Duration::zero());
  if (left > Duration::zero() && !trouble_.message.empty() && !std::exchange(told_, true)) {
    if (policy_.give_up_after == kNoTimeLimit) {
      log::warn("{}: {}; trying again until the server answers", policy_.server, trouble_.message);
    } else {
      log::warn("{}: {}; trying again for up to {} s", policy_.server, trouble_.message,
                std::chrono::duration_cast<std::chrono::seconds>(policy_.give_up_after).count());
    }
  }
  co_await Pause(timers_, std::min(delay_, left), ending_);
}

}  // namespace penstock::client
