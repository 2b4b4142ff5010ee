#include "client/reconnecting_channel.h"

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>

#include "base/log.h"
#include "base/pauses.h"
#include "client/set_up.h"

namespace penstock::client {
namespace {

// How often one of the last calls is sent again, because its connection was lost.
constexpr int kMostLossesAtTheEnd = 2;

}  // namespace

ReconnectingChannel::ReconnectingChannel(TimerService& timers, Opener opener, RetryPolicy policy, Cancellation* ending)
    : timers_(timers), opener_(std::move(opener)), policy_(policy), ending_(ending), ending_entry_(ending, [this] {
        HandleEnding();
      }) {}

void ReconnectingChannel::HandleClosing() {
  closing_ = true;
  if (overdue_ > 0) CloseConnection();
}

void ReconnectingChannel::HandleEnding() {
  trouble_ = {std::string(kClosing), ECANCELED};
  CloseConnection();
}

// The calls that this ends may lead to the destruction of this object.
void ReconnectingChannel::CloseConnection() {
  if (const std::shared_ptr<rpc::Channel> channel = channel_) channel->Close();
}

Task<SetupResult<void>> ReconnectingChannel::Connect() {
  auto opened = co_await opener_(policy_.give_up_after);
  refused_ = false;
  if (!opened) co_return std::unexpected(std::move(opened).error());
  channel_ = *std::move(opened);
  had_one_ = true;
  if (IsCancelled(ending_)) {
    channel_->Close();
    co_return std::unexpected(SetupError{std::string(kClosing), ECANCELED});
  }
  co_return SetupResult<void>();
}

Task<Result<rpc::Message, rpc::CallError>> ReconnectingChannel::Call(rpc::Message call, rpc::ReplyShape shape) {
  const TimePoint give_up = timers_.Now() + policy_.give_up_after;
  const uint64_t refusals = refusals_;
  for (int losses = 0;; ++losses) {
    if (closing_ && overdue_ > 0) co_return std::unexpected(rpc::CallError::kTimedOut);
    if (closing_ && losses > kMostLossesAtTheEnd) co_return std::unexpected(rpc::CallError::kDisconnected);
    while (!channel_ && !IsCancelled(ending_)) {
      if (refusals_ != refusals) co_return std::unexpected(rpc::CallError::kRefused);
      if (timers_.Now() >= give_up) co_return std::unexpected(rpc::CallError::kDisconnected);
      if (reconnecting_) {
        co_await changed_;
      } else {
        co_await Reconnect(give_up);
      }
    }
    if (IsCancelled(ending_)) co_return std::unexpected(rpc::CallError::kCancelled);
    const std::shared_ptr<rpc::Channel> channel = channel_;
    auto reply = co_await channel->Call(call, shape);
    if (IsCancelled(ending_)) {
      if (reply) co_return reply;
      co_return std::unexpected(rpc::CallError::kCancelled);
    }
    if (reply) HandleReply(*channel);
    // An overdue reply means that the connection is no longer usable.
    if (reply || (reply.error() != rpc::CallError::kDisconnected && reply.error() != rpc::CallError::kTimedOut)) {
      co_return reply;
    }
    // Only the first call that notices the loss removes the channel.
    if (channel == channel_) {
      HandleLoss(reply.error());
      lost_ = std::exchange(channel_, nullptr);
    }
  }
}

// nfs(5) describes the linear growth: a server that is only slow must be able to answer in the end.
Duration ReconnectingChannel::reply_limit() const {
  constexpr Duration kLongest = std::chrono::minutes(10);
  if (policy_.reply_limit >= kLongest / (1 + static_cast<int64_t>(overdue_))) return kLongest;
  return policy_.reply_limit * (1 + static_cast<int64_t>(overdue_));
}

void ReconnectingChannel::HandleReply(const rpc::Channel& from) {
  delay_ = Duration::zero();
  overdue_ = 0;
  trouble_ = {};
  if (std::exchange(told_, false)) log::warn("{}: the server answers again", policy_.server);
  if (&from == channel_.get()) has_replied_ = true;
}

void ReconnectingChannel::HandleLoss(rpc::CallError error) {
  if (error == rpc::CallError::kTimedOut) {
    ++overdue_;
    trouble_ = {"the server does not answer", ETIMEDOUT};
  } else if (!has_replied_) {
    trouble_ = {"the server closes connections before it answers: it may be full, or this may be its port for RDMA",
                ECONNRESET};
  }
}

Task<void> ReconnectingChannel::Reconnect(TimePoint give_up) {
  reconnecting_ = true;
  // This code may run inside of the lost channel. In the next turn of the loop it does not.
  co_await Sleep(timers_, Duration::zero());
  lost_.reset();
  if (delay_ > Duration::zero()) co_await Wait(give_up);
  while (timers_.Now() < give_up && !IsCancelled(ending_)) {
    delay_ = std::clamp(delay_ * 2, policy_.first_delay, policy_.longest_delay);
    auto opened = co_await opener_(give_up - timers_.Now());
    if (opened) {
      channel_ = *std::move(opened);
      has_replied_ = false;
      if (std::exchange(had_one_, true)) ++reconnections_;
      if (IsCancelled(ending_)) channel_->Close();
      break;
    }
    if (IsCancelled(ending_)) break;
    log::debug("no connection yet: {}", opened.error().message);
    trouble_ = std::move(opened).error();
    if (std::exchange(refused_, false) || closing_) {
      ++refusals_;
      delay_ = Duration::zero();
      break;
    }
    co_await Wait(give_up);
  }
  reconnecting_ = false;
  changed_.Notify();
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
