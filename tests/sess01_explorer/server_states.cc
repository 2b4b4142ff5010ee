#include "server_states.h"

#include <cstdio>
#include <cstdlib>

namespace penstock::explorer {
namespace {

uint64_t Pack(uint32_t from, ServerStates::Action action, const Copy& copy) {
  uint64_t packed = from;
  for (const uint8_t each :
       {static_cast<uint8_t>(action), copy.request, copy.over, copy.original, copy.stream, copy.xid, copy.sequence}) {
    packed = packed << 4 | each;
  }
  return packed;
}

}  // namespace

ServerStates::Step ServerStates::Take(uint32_t from, Action action, const Copy& copy) {
  const auto [place, is_new] = steps_.try_emplace(Pack(from, action, copy));
  if (!is_new) return place->second;
  auto server = servers_[from]->Clone();
  Step step;
  switch (action) {
    case Action::kBind:
      server->Bind(copy.over);
      break;
    case Action::kLose:
      server->Lose(copy.over);
      break;
    case Action::kReceive:
      step.verdict = server->Receive(copy);
      break;
    case Action::kFinish:
      server->Finish(copy);
      break;
    case Action::kWithdraw:
      server->Withdraw(copy);
      break;
  }
  step.next = Add(std::move(server));
  return place->second = step;
}

uint32_t ServerStates::Add(std::unique_ptr<Server> server) {
  const auto [place, is_new] = by_key_.try_emplace(server->Key(), static_cast<uint32_t>(servers_.size()));
  if (!is_new) {
    if (servers_[place->second]->Matches(*server)) return place->second;
    std::fputs("the key of a server leaves out what decides its steps\n", stderr);
    std::abort();
  }
  facts_.push_back({.bound = server->bound(), .running = server->running(), .excess = server->FindExcess()});
  servers_.push_back(std::move(server));
  return place->second;
}

}  // namespace penstock::explorer
