#include "world.h"

#include <fmt/core.h>

#include <cassert>
#include <utility>

namespace penstock::explorer {
namespace {

using Action = ServerStates::Action;
using Kind = Event::Kind;

uint8_t BitOf(int channel) { return static_cast<uint8_t>(1u << channel); }
bool Has(uint8_t set, int channel) { return (set & BitOf(channel)) != 0; }
void Add(uint8_t& set, int channel) { set |= BitOf(channel); }
void Remove(uint8_t& set, int channel) { set &= static_cast<uint8_t>(~BitOf(channel)); }

}  // namespace

World::World(const Size& size, std::unique_ptr<Server> server) : size_(size), servers_(std::move(server)) {
  assert(size.channels <= kMostChannels && size.requests <= kMostRequests && size.at_once <= size.channels);
  for (; first_.opened < size.at_once; ++first_.opened) {
    first_.server = servers_.Take(first_.server, Action::kBind, {.over = first_.opened}).next;
  }
}

bool World::IsStreamFree(const State& state, int stream) const {
  for (int i = 0; i < size_.requests; ++i) {
    const auto& request = state.requests[static_cast<size_t>(i)];
    if (request.copies && request.stream == stream && !request.answered) return false;
  }
  return true;
}

// Channels that work, and that nothing was sent over, differ only in their numbers.
bool World::IsUnused(const State& state, int channel) const {
  if (!Has(Working(state), channel) || !Has(Bound(state), channel)) return false;
  for (const auto& request : state.requests) {
    if (Has(request.copies, channel)) return false;
  }
  return true;
}

void World::ListEvents(const State& state, std::vector<Event>& events) const {
  events.clear();
  const uint8_t working = Working(state), bound = Bound(state);
  const uint32_t running = servers_.FactsOf(state.server).running;
  int sent = 0, streams_used = 0;
  while (sent < size_.requests && state.requests[static_cast<size_t>(sent)].copies) {
    streams_used = std::max(streams_used, state.requests[static_cast<size_t>(sent++)].stream + 1);
  }
  const auto add = [&](Kind kind, int channel, int request = 0, int stream = 0) {
    events.push_back({.kind = kind,
                      .channel = static_cast<uint8_t>(channel),
                      .request = static_cast<uint8_t>(request),
                      .stream = static_cast<uint8_t>(stream)});
  };

  bool unused_before = false;
  for (int channel = 0; channel < state.opened; ++channel) {
    const bool unused = IsUnused(state, channel);
    if (unused && std::exchange(unused_before, true)) continue;
    if (Has(working, channel)) {
      for (int stream = 0; sent < size_.requests && stream <= streams_used && stream < size_.streams; ++stream) {
        if (IsStreamFree(state, stream)) add(Kind::kSend, channel, sent, stream);
      }
      // §2.5: nothing is sent again while a connection that carries it works.
      for (int i = 0; i < sent; ++i) {
        const auto& request = state.requests[static_cast<size_t>(i)];
        if (!request.answered && !(request.copies & working)) add(Kind::kRetry, channel, i);
      }
      add(Kind::kGiveUp, channel);
    }
    if (Has(bound, channel)) add(Kind::kLose, channel);
    for (int i = 0; i < sent; ++i) {
      const auto& request = state.requests[static_cast<size_t>(i)];
      if (Has(request.pending, channel)) add(Kind::kReceive, channel, i);
      if (Has(request.replies, channel)) add(Kind::kReply, channel, i);
      if ((running >> Server::Place(i, channel) & 1) == 0) continue;
      add(Kind::kFinish, channel, i);
      if (!Has(bound, channel) && servers_.can_withdraw()) add(Kind::kWithdraw, channel, i);
    }
  }
  if (state.opened < size_.channels && state.given_up) add(Kind::kRebind, state.opened);
}

Copy World::CopyOf(const State& state, int number, int channel) const {
  const auto& request = state.requests[static_cast<size_t>(number)];
  Copy copy{.request = static_cast<uint8_t>(number),
            .over = static_cast<uint8_t>(channel),
            .original = request.original,
            .stream = request.stream,
            .xid = 0,
            .sequence = 1};
  for (int i = 0; i < number; ++i) {
    const auto& earlier = state.requests[static_cast<size_t>(i)];
    if (earlier.original == request.original) ++copy.xid;
    if (earlier.stream == request.stream) ++copy.sequence;
  }
  return copy;
}

World::Outcome World::Happen(const State& state, const Event& event) {
  Outcome outcome{.next = state};
  State& next = outcome.next;
  auto& request = next.requests[event.request];
  const auto step = [&](Action action) {
    const auto taken = servers_.Take(state.server, action, CopyOf(next, event.request, event.channel));
    next.server = taken.next;
    outcome.verdict = taken.verdict;
  };
  switch (event.kind) {
    case Kind::kSend:
      request.original = event.channel;
      request.stream = event.stream;
      [[fallthrough]];
    case Kind::kRetry:
      Add(request.copies, event.channel);
      if (Has(Bound(state), event.channel)) Add(request.pending, event.channel);
      break;
    case Kind::kGiveUp:
      Add(next.given_up, event.channel);
      for (auto& each : next.requests) Remove(each.replies, event.channel);
      break;
    case Kind::kRebind:
      next.server = servers_.Take(state.server, Action::kBind, {.over = event.channel}).next;
      ++next.opened;
      break;
    case Kind::kLose:
      next.server = servers_.Take(state.server, Action::kLose, {.over = event.channel}).next;
      break;
    case Kind::kReceive:
      step(Action::kReceive);
      Receive(outcome, event);
      break;
    case Kind::kFinish:
      step(Action::kFinish);
      if (size_.executes_once && request.executed) {
        outcome.wrong = fmt::format("request {} is executed twice", event.request + 1);
      }
      request.executed = true;
      Reply(outcome, event);
      break;
    case Kind::kWithdraw:
      step(Action::kWithdraw);
      break;
    case Kind::kReply:
      Remove(request.replies, event.channel);
      request.answered = true;
      if (!request.executed) outcome.wrong = fmt::format("request {} is answered, but not executed", event.request + 1);
      break;
  }
  // A server that closes a channel receives nothing more over it.
  outcome.closed = Bound(state) & static_cast<uint8_t>(~Bound(next));
  for (auto& each : next.requests) each.pending &= Bound(next);
  if (const char* excess = servers_.FactsOf(next.server).excess) outcome.wrong = excess;
  return outcome;
}

void World::Receive(Outcome& outcome, const Event& event) {
  auto& request = outcome.next.requests[event.request];
  if (outcome.verdict.kind == Verdict::Kind::kWaits) return;
  Remove(request.pending, event.channel);
  switch (outcome.verdict.kind) {
    case Verdict::Kind::kWaits:
      break;
    case Verdict::Kind::kRuns:
      outcome.wrong = WrongStart(outcome.next, event);
      break;
    case Verdict::Kind::kReplays:
      if (outcome.verdict.reply_of != event.request) {
        outcome.wrong =
            fmt::format("request {} gets the reply of request {}", event.request + 1, outcome.verdict.reply_of + 1);
      }
      Reply(outcome, event);
      break;
    case Verdict::Kind::kRefused:
      // The client still waits for the answer over this channel, so the refusal may reach it.
      if (!request.answered && Has(Working(outcome.next), event.channel)) {
        outcome.wrong = fmt::format("request {} of a live client is refused", event.request + 1);
      }
      break;
  }
}

// Where requests may be executed again: not while they are under way, and not after the next one of their streamid.
std::string World::WrongStart(const State& state, const Event& event) const {
  if (size_.executes_once) return {};
  const uint32_t running = servers_.FactsOf(state.server).running;
  const auto runs = [&](int request) {
    const uint32_t places = running >> Server::Place(request, 0) & ((1u << kMostChannels) - 1);
    return request == event.request ? (places & ~BitOf(event.channel)) != 0 : places != 0;
  };
  if (runs(event.request)) return fmt::format("request {} is executed twice at a time", event.request + 1);
  for (int i = event.request + 1; i < size_.requests; ++i) {
    const auto& later = state.requests[static_cast<size_t>(i)];
    if (later.copies && later.stream == state.requests[event.request].stream && (later.executed || runs(i))) {
      return fmt::format("request {} is executed after request {} has taken its streamid", event.request + 1, i + 1);
    }
  }
  return {};
}

// Sends the reply of a request over the channel of its copy.
void World::Reply(Outcome& outcome, const Event& event) {
  const State& state = outcome.next;
  outcome.reply_lost = !Has(Bound(state), event.channel) || !Has(Working(state), event.channel);
  if (!outcome.reply_lost) Add(outcome.next.requests[event.request].replies, event.channel);
}

bool World::IsDone(const State& state) const {
  for (int i = 0; i < size_.requests; ++i) {
    if (!state.requests[static_cast<size_t>(i)].answered) return false;
  }
  return true;
}

bool World::IsLive(const State& state) const {
  return (Working(state) & Bound(state)) != 0 || state.opened < size_.channels;
}

bool World::LosesConnection(const State& state, const Event& event) const {
  if (event.kind != Kind::kGiveUp && event.kind != Kind::kLose) return false;
  return Has(Working(state), event.channel) && Has(Bound(state), event.channel);
}

}  // namespace penstock::explorer
