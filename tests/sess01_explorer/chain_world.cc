#include "chain_world.h"

#include <fmt/core.h>

#include <algorithm>
#include <ranges>
#include <unordered_set>
#include <utility>

#include "protocol/nfs4_sess01.h"

namespace penstock::explorer {
namespace {

using nfs4::CHAINBEGIN;
using nfs4::CHAINCONTINUE;
using nfs4::CHAINEND;
using nfs4::ChainFlags;
using nfs4::NOCHAIN;
using ChainKind = ChainEvent::Kind;
using Ruling = ChainRuling::Kind;
using Turn = nfs::v4::sess01::ChainRun::Turn;

constexpr ChainFlags kFlags[] = {NOCHAIN, CHAINBEGIN, CHAINCONTINUE, CHAINEND};

Ruling RulingIn(const Result<nfs::v4::sess01::Chain::Judged, nfs4::nfsstat4>& judged) {
  if (judged) return judged->run ? Ruling::kJoins : Ruling::kAlone;
  return judged.error() == nfs4::NFS4ERR_SESS01_CHAIN_INVALID ? Ruling::kInvalid : Ruling::kBroken;
}

std::string Tell(const ChainEvent& event) {
  const int channel = event.channel + 1, place = event.request + 1;
  switch (event.kind) {
    case ChainKind::kArrive:
      return fmt::format("A request with {} arrives over channel {}.", XdrName(event.flag), channel);
    case ChainKind::kRetry:
      return fmt::format("A retry with {} arrives over channel {}.", XdrName(event.flag), channel);
    case ChainKind::kStart:
      return fmt::format("The unanswered request {} of channel {} begins to execute.", place, channel);
    case ChainKind::kFinish:
      return fmt::format("The unanswered request {} of channel {} ends{}.", place, channel,
                         event.end == RequestEnd::kSuccess ? "" : " incomplete");
    case ChainKind::kFlush:
      return fmt::format("The unanswered request {} of channel {} is not executed.", place, channel);
    case ChainKind::kLose:
      return fmt::format("Channel {} is lost.", channel);
  }
  return {};
}

}  // namespace

ChainRuling RulingOf(ChainState state, ChainFlags flag, bool retry) {
  using enum ChainState;
  // A retry does not touch the chain of the channel over which it comes. The loss of its own channel broke its chain.
  if (retry) return {flag == NOCHAIN || flag == CHAINBEGIN ? Ruling::kAlone : Ruling::kBroken, state};
  switch (flag) {
    case NOCHAIN:
      return {Ruling::kAlone, kNone};
    case CHAINBEGIN:
      return state == kNone ? ChainRuling{Ruling::kJoins, kOpen} : ChainRuling{Ruling::kInvalid, state};
    case CHAINCONTINUE:
    case CHAINEND:
      break;
  }
  if (state == kNone) return {Ruling::kInvalid, kNone};
  return {state == kOpen ? Ruling::kJoins : Ruling::kBroken, flag == CHAINEND ? kNone : state};
}

ChainState StateAfter(ChainState state, RequestEnd end) {
  return state == ChainState::kOpen && end != RequestEnd::kSuccess ? ChainState::kBroken : state;
}

std::vector<ChainEvent> ChainWorld::ListEvents() const {
  std::vector<ChainEvent> events;
  size_t waiting = 0;
  for (const Channel& channel : channels_) waiting += channel.requests.size();
  for (uint8_t number = 0; number < channels_.size(); ++number) {
    const Channel& channel = channels_[number];
    if (!channel.lost) {
      for (const ChainFlags flag : kFlags) {
        if (waiting < size_.waiting) {
          events.push_back({.kind = ChainKind::kArrive, .channel = number, .flag = flag});
        }
        events.push_back({.kind = ChainKind::kRetry, .channel = number, .flag = flag});
      }
      events.push_back({.kind = ChainKind::kLose, .channel = number});
    }
    for (uint8_t place = 0; place < channel.requests.size(); ++place) {
      const Request& request = channel.requests[place];
      const auto add = [&](ChainKind kind, RequestEnd end = {}) {
        events.push_back({.kind = kind, .channel = number, .request = place, .end = end});
      };
      if (request.runs) {
        for (const RequestEnd end : {RequestEnd::kSuccess, RequestEnd::kFailure}) add(ChainKind::kFinish, end);
      } else if (channel.lost || request.judged.run->TurnOf(request.judged.place) == Turn::kBroken) {
        add(ChainKind::kFlush);
      } else if (request.judged.run->TurnOf(request.judged.place) == Turn::kRun) {
        add(ChainKind::kStart);
      }
    }
  }
  return events;
}

std::string ChainWorld::Happen(const ChainEvent& event) {
  Channel& channel = channels_[event.channel];
  std::string wrong;
  switch (event.kind) {
    case ChainKind::kArrive:
    case ChainKind::kRetry:
      wrong = Arrive(channel, event);
      break;
    case ChainKind::kStart:
      wrong = Start(channel, event);
      break;
    case ChainKind::kFinish:
      Finish(channel, event);
      break;
    case ChainKind::kFlush:
      Flush(channel, event);
      break;
    case ChainKind::kLose:
      Lose(channel);
      break;
  }
  return wrong.empty() ? Check() : wrong;
}

std::string ChainWorld::Arrive(Channel& channel, const ChainEvent& event) {
  const bool retry = event.kind == ChainKind::kRetry;
  const ChainRuling expected = RulingOf(channel.state, event.flag, retry);
  auto judged = channel.chain.Judge(event.flag, retry);
  if (RulingIn(judged) != expected.kind) return "the flag is judged against the specification";
  if (expected.kind == Ruling::kJoins) {
    if (event.flag == CHAINBEGIN) channel.open = std::make_shared<Model>(Model{.number = ++chains_});
    channel.requests.push_back({.judged = *std::move(judged), .model = channel.open});
  }
  channel.state = expected.after;
  if (channel.state == ChainState::kNone) channel.open = nullptr;
  return {};
}

std::string ChainWorld::Start(Channel& channel, const ChainEvent& event) {
  Request& request = channel.requests[event.request];
  for (const Request& earlier : std::views::take(channel.requests, event.request)) {
    if (earlier.model == request.model) return "a request overtakes another one in its chain";
  }
  if (request.model->state != ChainState::kOpen) return "a request of a broken chain is executed";
  if (request.judged.run->filehandles() != request.model->filehandles) {
    return "a request does not begin with the filehandles of its chain";
  }
  request.runs = true;
  return {};
}

// The request looks up another file, and saves the filehandle that it found.
void ChainWorld::Finish(Channel& channel, const ChainEvent& event) {
  const Request request = std::move(channel.requests[event.request]);
  channel.requests.erase(channel.requests.begin() + event.request);
  Model& model = *request.model;
  model.filehandles = {.current = nfs::FileHandle{.export_id = nfs::ExportId(++handles_), .object = {}},
                       .saved = model.filehandles.current};
  const bool complete = event.end == RequestEnd::kSuccess || !size_.reports_failures;
  request.judged.run->Finish(request.judged.place, complete, model.filehandles);
  Break(channel, model, event.end);
}

// As BoundSessions does: a request that is taken back breaks its chain.
void ChainWorld::Flush(Channel& channel, const ChainEvent& event) {
  const Request request = std::move(channel.requests[event.request]);
  channel.requests.erase(channel.requests.begin() + event.request);
  if (!channel.lost) return;
  request.judged.run->Break();
  Break(channel, *request.model, RequestEnd::kLoss);
}

void ChainWorld::Lose(Channel& channel) {
  channel.chain.Lose();
  if (channel.open) Break(channel, *channel.open, RequestEnd::kLoss);
  channel.lost = true;
}

void ChainWorld::Break(Channel& channel, Model& model, RequestEnd end) {
  model.state = StateAfter(model.state, end);
  if (channel.open.get() == &model) channel.state = model.state;
}

std::string ChainWorld::Check() const {
  for (const Channel& channel : channels_) {
    if (channel.chain.open() != (channel.state != ChainState::kNone)) return "a chain is not over, or over too early";
    std::unordered_set<const Model*> seen;
    for (const Request& request : channel.requests) {
      if (!seen.insert(request.model.get()).second || request.runs) continue;
      const Turn turn = request.judged.run->TurnOf(request.judged.place);
      if (turn == Turn::kWait) return "the first request of a chain waits for nothing";
      if ((turn == Turn::kBroken) != (request.model->state == ChainState::kBroken)) {
        return "a chain is broken without a reason, or goes on without a right";
      }
    }
  }
  return {};
}

std::string ChainWorld::Key() const {
  std::string key;
  const auto put = [&key](auto value) { key.push_back(static_cast<char>(value)); };
  for (const Channel& channel : channels_) {
    const auto put_model = [&](const Model& model) {
      put(model.state);
      put(model.filehandles.current.has_value());
      put(model.filehandles.saved.has_value());
    };
    put(channel.lost);
    put(channel.state);
    if (channel.open) put_model(*channel.open);
    std::vector<const Model*> models;  // names the chains in the order of their first requests
    for (const Request& request : channel.requests) {
      auto at = std::ranges::find(models, request.model.get());
      if (at == models.end()) at = models.insert(at, request.model.get());
      put(at - models.begin());
      put(request.model == channel.open);
      put(request.runs);
      put_model(*request.model);
    }
    put(-1);
  }
  return key;
}

ChainReport ExploreChains(const ChainSize& size) {
  struct Reached {
    size_t from = 0;
    ChainEvent by{};
  };
  std::vector<Reached> reached(1);
  std::unordered_set<std::string> seen{ChainWorld(size).Key()};
  const auto way_to = [&](size_t number) {
    std::vector<ChainEvent> way;
    for (; number != 0; number = reached[number].from) way.push_back(reached[number].by);
    std::ranges::reverse(way);
    return way;
  };

  ChainReport report;
  for (size_t at = 0; at < reached.size(); ++at) {
    const std::vector<ChainEvent> way = way_to(at);
    const auto replay = [&] {
      auto world = std::make_unique<ChainWorld>(size);
      for (const ChainEvent& event : way) world->Happen(event);
      return world;
    };
    for (const ChainEvent& event : replay()->ListEvents()) {
      const auto world = replay();
      ++report.steps;
      report.wrong = world->Happen(event);
      if (!report.wrong.empty()) {
        for (const ChainEvent& each : way) report.story += Tell(each) + "\n";
        report.story += Tell(event) + "\nWrong: " + report.wrong + ".\n";
        report.states = reached.size();
        return report;
      }
      if (seen.insert(world->Key()).second) reached.push_back({.from = at, .by = event});
    }
  }
  report.states = reached.size();
  return report;
}

}  // namespace penstock::explorer
