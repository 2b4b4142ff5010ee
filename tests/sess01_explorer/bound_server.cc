#include "bound_server.h"

#include <algorithm>
#include <cassert>
#include <cstdlib>
#include <optional>

#include "kept_reply.h"

namespace penstock::explorer {
namespace {

using nfs::v4::sess01::ChannelId;
using nfs::v4::sess01::ChannelState;
using nfs::v4::sess01::Retries;
using nfs::v4::sess01::StreamId;

ChannelId IdOf(int channel) { return ChannelId(static_cast<uint32_t>(channel) + 1); }

}  // namespace

void BoundServer::Bind(int channel) {
  const auto bound = channels_.Bind(static_cast<uint64_t>(channel), nfs4::OPERATION);
  if (!bound || *bound != IdOf(channel)) std::abort();
}

void BoundServer::Lose(int channel) { channels_.CloseConnection(static_cast<uint64_t>(channel)); }

Verdict BoundServer::Receive(const Copy& copy) {
  const ChannelId own = IdOf(copy.over), named = IdOf(copy.original);
  assert(channels_.OperationsChannelOf(copy.over) == own);
  ChannelState state = channels_.Named(named);
  if (named != own && state.standing == ChannelState::Standing::kLive) {
    if (rules_.closes_named) {
      channels_.CloseConnection(*channels_.ConnectionOf(named));
      state = channels_.Named(named);
    } else {
      state = {ChannelState::Standing::kClosed, &of_live_[copy.original]};
    }
  }
  Retries none;
  if (named != own && rules_.stale == Rules::Stale::kNever) state = {ChannelState::Standing::kClosed, &none};
  if (named != own && rules_.stale == Rules::Stale::kAlways) state = {ChannelState::Standing::kForgotten};

  // All requests have the same digest: the tables must not need another difference than the XID.
  auto started = streams_.Start(
      {.stream = StreamId(copy.stream), .own = own, .named = named, .xid = rpc::Xid(copy.xid), .digest = 0}, state);
  if (!started) return {.kind = Verdict::Kind::kRefused, .status = started.error()};
  switch (started->outcome) {
    case StreamTable::Outcome::kReplay:
      return {.kind = Verdict::Kind::kReplays, .reply_of = RequestOf(started->reply)};
    case StreamTable::Outcome::kWait:
      return {.kind = Verdict::Kind::kWaits};
    case StreamTable::Outcome::kRun:
      break;
  }
  running_ |= 1u << Place(copy.request, copy.over);
  ExecutionOf(copy) = started->execution;
  return {.kind = Verdict::Kind::kRuns};
}

void BoundServer::Finish(const Copy& copy) {
  streams_.Finish(StreamId(copy.stream), ExecutionOf(copy), ReplyOf(copy.request), /*changed=*/true);
  End(copy);
}

void BoundServer::Withdraw(const Copy& copy) {
  if (rules_.takes_back) streams_.Withdraw(StreamId(copy.stream), ExecutionOf(copy));
  End(copy);
}

void BoundServer::End(const Copy& copy) {
  running_ &= ~(1u << Place(copy.request, copy.over));
  ExecutionOf(copy) = {};
}

uint8_t BoundServer::bound() const {
  uint8_t bound = 0;
  for (const auto& connection : channels_.connections()) bound |= static_cast<uint8_t>(1u << connection.number);
  return bound;
}

// Executions are numbered without end. The key names the copy that an entry executes instead.
std::string BoundServer::Key() const {
  std::string key;
  const auto put = [&key](auto value) { key.push_back(static_cast<char>(value)); };
  const auto put_retries = [&](const Retries& retries) {
    for (uint32_t stream = 0; stream < streams_.count(); ++stream) put(retries.Has(StreamId(stream)));
  };
  for (const auto& entry : streams_.entries()) {
    put(entry.state);
    put(entry.channel.value());
    put(entry.xid.value());
    put(entry.state == StreamTable::Entry::State::kKept ? RequestOf(entry.reply) : kMostRequests);
    put(entry.busy() ? std::ranges::find(executions_, entry.execution) - executions_.begin() : -1);
  }
  put(running_);
  put(running_ >> 8);
  put(bound());
  for (const auto& closed : channels_.closed()) {
    put(closed.channel.value());
    put_retries(closed.retries);
  }
  if (!rules_.closes_named) {
    for (const Retries& retries : of_live_) put_retries(retries);
  }
  return key;
}

bool BoundServer::Matches(const Server& other) const {
  const auto& that = dynamic_cast<const BoundServer&>(other);
  return channels_ == that.channels_ && streams_.busy() == that.streams_.busy() &&
         streams_.kept_octets() == that.streams_.kept_octets() && streams_.count() == that.streams_.count();
}

const char* BoundServer::FindExcess() const {
  using State = StreamTable::Entry::State;
  const auto& entries = streams_.entries();
  const auto busy = static_cast<uint32_t>(std::ranges::count_if(entries, &StreamTable::Entry::busy));
  const auto kept = static_cast<size_t>(std::ranges::count(entries, State::kKept, &StreamTable::Entry::state));
  if (entries.size() != streams_.count()) return "the table has an entry too many";
  if (busy != streams_.busy()) return "the number of busy streamids is wrong";
  if (kept * kReplySize != streams_.kept_octets()) return "the number of kept octets is wrong";
  if (channels_.closed().size() + channels_.connections().size() > kMostChannels) return "a channel is listed twice";
  for (const auto& closed : channels_.closed()) {
    if (closed.retries.Has(StreamId(streams_.count()))) return "a channel remembers a streamid that does not exist";
  }
  return nullptr;
}

}  // namespace penstock::explorer
