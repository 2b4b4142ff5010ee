#include "server/call_places.h"

#include <cassert>
#include <tuple>
#include <utility>

#include "base/host.h"

namespace penstock::server {
namespace {

// Makes `item` the last one in `turns`, or none of them.
template <class T>
void SetTurn(std::list<T*>& turns, T& item, std::optional<typename std::list<T*>::iterator>& turn, bool wanted) {
  if (wanted == turn.has_value()) return;
  if (wanted) {
    turn = turns.insert(turns.end(), &item);
  } else {
    turns.erase(*turn);
    turn.reset();
  }
}

}  // namespace

CallPlaces::Line& CallPlaces::Get(const IpAddress& address) {
  Host& host = hosts_[HostOf(address)];
  return host.lines
      .emplace(std::piecewise_construct, std::forward_as_tuple(address), std::forward_as_tuple(host, address))
      .first->second;
}

void CallPlaces::Update(Host& host, Kind kind) {
  Share& share = host.shares[At(kind)];
  SetTurn(turns_[At(kind)], share, share.turn, !share.turns.empty() && share.used < limits_.per_host);
}

void CallPlaces::Update(Line& line) {
  const size_t most = line.answered ? limits_.per_host : 1;
  const bool wants = !line.waiting.empty() && line.running < most;
  const Kind kind = KindOf(line);
  if (line.turn && line.turn_kind != kind) {
    SetTurn(line.host.shares[At(line.turn_kind)].turns, line, line.turn, false);
    Update(line.host, line.turn_kind);
  }
  line.turn_kind = kind;
  SetTurn(line.host.shares[At(kind)].turns, line, line.turn, wants);
  Update(line.host, kind);
}

void CallPlaces::ForgetIfUnused(Line& line) {
  if (!line.waiting.empty() || line.running > 0 || line.silent) return;
  assert(!line.turn);
  Host& host = line.host;
  const IpAddress address = line.address;
  host.lines.erase(address);
  if (host.lines.empty()) hosts_.erase(HostOf(address));
}

void CallPlaces::SetSilent(Line& line, bool silent) {
  SetTurn(silent_, line, line.silent, silent);
  if (silent_.size() <= limits_.known_silent) return;
  Line& oldest = *silent_.front();
  SetTurn(silent_, oldest, oldest.silent, false);
  if (&oldest == &line) return;
  Update(oldest);
  ForgetIfUnused(oldest);
}

void CallPlaces::Start(Kind kind) {
  std::list<Share*>& hosts = turns_[At(kind)];
  while (free_[At(kind)] > 0 && !hosts.empty()) {
    Share& share = *hosts.front();
    hosts.splice(hosts.end(), hosts, hosts.begin());
    Line& line = *share.turns.front();
    share.turns.splice(share.turns.end(), share.turns, share.turns.begin());
    Waiter& waiter = *line.waiting.front();
    line.waiting.pop_front();
    waiter.in = nullptr;
    --free_[At(kind)];
    ++share.used;
    ++line.running;
    Update(line);
    // The waiter may enter and leave again before this returns.
    waiter.over.Set(Place{.address = line.address, .kind = kind});
  }
}

void CallPlaces::GiveUp(Waiter& waiter) {
  if (!waiter.in) return;
  waiter.in->erase(waiter.at);
  waiter.in = nullptr;
  if (waiter.line) {
    Update(*waiter.line);
    ForgetIfUnused(*waiter.line);
  }
  waiter.over.Set(std::nullopt);
}

Task<std::optional<CallPlaces::Place>> CallPlaces::Enter(IpAddress address, Cancellation* cancellation) {
  if (IsCancelled(cancellation)) co_return std::nullopt;
  Line& line = Get(address);
  Waiter self{.in = &line.waiting, .line = &line};
  self.at = line.waiting.insert(line.waiting.end(), &self);
  Update(line);
  const Cancellation::Entry entry(cancellation, [this, &self] { GiveUp(self); });
  Start(KindOf(line));
  co_return co_await self.over;
}

void CallPlaces::Leave(Place place, std::optional<bool> answered) {
  Line& line = Get(place.address);
  assert(line.running > 0);
  --line.running;
  --line.host.shares[At(place.kind)].used;
  ++free_[At(place.kind)];
  Update(line.host, place.kind);
  std::list<Waiter*> over;
  if (answered) {
    line.answered = *answered;
    SetSilent(line, !*answered);
    if (!*answered) over.swap(line.waiting);
  }
  for (Waiter* each : over) {
    each->in = &over;
    each->line = nullptr;
  }
  Update(line);
  ForgetIfUnused(line);
  Start(Kind::kNormal);
  Start(Kind::kSilent);
  while (!over.empty()) {
    Waiter& first = *over.front();
    over.pop_front();
    first.in = nullptr;
    first.over.Set(std::nullopt);
  }
}

size_t CallPlaces::under_way() const { return limits_.places + limits_.places_of_silent - free_[0] - free_[1]; }

size_t CallPlaces::known() const {
  size_t lines = 0;
  for (const auto& [address, host] : hosts_) lines += host.lines.size();
  return lines;
}

}  // namespace penstock::server
