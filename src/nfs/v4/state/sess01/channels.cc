#include "nfs/v4/state/sess01/channels.h"

#include <algorithm>
#include <cassert>

namespace penstock::nfs::v4::sess01 {

Result<ChannelId, nfs4::nfsstat4> Channels::Bind(uint64_t number, nfs4::ChannelType type) {
  assert(!NeedsBlock());
  const std::unexpected refused(nfs4::NFS4ERR_SESS01_BADBIND);
  const auto bound = std::ranges::find(connections_, number, &Connection::number);
  if (next_ == kEnd) return refused;
  if (bound == connections_.end() && connections_.size() == kMaxConnections) return refused;
  if (type == nfs4::OPERATION) {
    if (bound != connections_.end() && bound->operations) return refused;
    had_operations_ = true;
  } else {
    if (BackChannel() || (had_operations_ && !had_back_)) return refused;
    had_back_ = true;
  }

  Connection& connection =
      bound != connections_.end() ? *bound : connections_.emplace_back(Connection{.number = number});
  const ChannelId channel(next_++);
  (type == nfs4::OPERATION ? connection.operations : connection.back) = channel;
  return channel;
}

std::vector<ChannelId> Channels::CloseConnection(uint64_t number) {
  std::vector<ChannelId> closed;
  const auto bound = std::ranges::find(connections_, number, &Connection::number);
  if (bound == connections_.end()) return closed;
  const Connection connection = *bound;
  connections_.erase(bound);
  const auto close = [&](std::optional<ChannelId> channel, nfs4::ChannelType type) {
    if (channel) closed.push_back(Remember(*channel, type).channel);
  };
  close(connection.operations, nfs4::OPERATION);
  close(connection.back, nfs4::BACK);
  return closed;
}

Channels::Closed& Channels::Remember(ChannelId channel, nfs4::ChannelType type) {
  if (closed_.size() == kRemembered) {
    if (closed_.front().channel.value() < first_) forgot_an_earlier_ = true;
    closed_.pop_front();
  }
  return closed_.emplace_back(Closed{.channel = channel, .type = type});
}

const Channels::Connection* Channels::Find(uint64_t number) const {
  const auto found = std::ranges::find(connections_, number, &Connection::number);
  return found == connections_.end() ? nullptr : &*found;
}

std::optional<ChannelId> Channels::OperationsChannelOf(uint64_t number) const {
  const Connection* connection = Find(number);
  return connection ? connection->operations : std::nullopt;
}

std::optional<ChannelId> Channels::BackChannel() const {
  const auto found = std::ranges::find_if(connections_, [](const Connection& each) { return each.back.has_value(); });
  return found == connections_.end() ? std::nullopt : found->back;
}

std::optional<uint64_t> Channels::ConnectionOf(ChannelId channel) const {
  const auto found = std::ranges::find_if(
      connections_, [&](const Connection& each) { return each.operations == channel || each.back == channel; });
  return found == connections_.end() ? std::nullopt : std::optional(found->number);
}

ChannelState Channels::Named(ChannelId channel) {
  using enum ChannelState::Standing;
  if (channel.value() == 0 || channel.value() >= next_ || BackChannel() == channel) return {kUnknown};
  if (ConnectionOf(channel)) return {kLive};
  const auto closed = std::ranges::find(closed_, channel, &Closed::channel);
  if (closed != closed_.end()) {
    return closed->type == nfs4::OPERATION ? ChannelState{kClosed, &closed->retries} : ChannelState{kUnknown};
  }
  if (channel.value() >= first_ || forgot_an_earlier_) return {kForgotten};
  return {kClosed, &Remember(channel, nfs4::OPERATION).retries};
}

}  // namespace penstock::nfs::v4::sess01
