#include "explorer.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <utility>

namespace penstock::explorer {
namespace {

// The states that were reached, in the order in which they were reached, and how.
class States {
 public:
  struct Reached {
    uint32_t from = 0;
    Event by{};
  };

  // Returns the number of a state, and whether it is new.
  std::pair<uint32_t, bool> Add(const State& state, const Reached& reached) {
    if (2 * (states_.size() + 1) > places_.size()) Grow();
    uint32_t& place = PlaceOf(state);
    if (place) return {place - 1, false};
    states_.push_back(state);
    reached_.push_back(reached);
    place = static_cast<uint32_t>(states_.size());
    return {place - 1, true};
  }
  State operator[](size_t number) const { return states_[number]; }
  size_t size() const { return states_.size(); }

  std::vector<Event> WayTo(uint32_t number) const {
    std::vector<Event> way;
    for (; number != 0; number = reached_[number].from) way.push_back(reached_[number].by);
    std::ranges::reverse(way);
    return way;
  }

 private:
  static size_t Hash(const State& state) {
    uint64_t hash = state.server;
    const auto mix = [&hash](uint64_t value) {
      hash = (hash ^ value) * 0x9e3779b97f4a7c15;
      hash ^= hash >> 29;
    };
    mix(static_cast<uint64_t>(state.opened) << 8 | state.given_up);
    for (const auto& each : state.requests) {
      uint64_t packed = each.copies;
      for (const uint8_t part : {each.pending, each.replies, each.original, each.stream}) packed = packed << 8 | part;
      mix(packed << 2 | static_cast<uint64_t>(each.answered) << 1 | static_cast<uint64_t>(each.executed));
    }
    return hash;
  }
  // Returns the place of a state, or the empty one (0) where it belongs. A place holds the number of its state plus 1.
  uint32_t& PlaceOf(const State& state) {
    size_t at = Hash(state) & (places_.size() - 1);
    while (places_[at] && states_[places_[at] - 1] != state) at = (at + 1) & (places_.size() - 1);
    return places_[at];
  }
  void Grow() {
    places_.assign(std::max<size_t>(1024, 2 * places_.size()), 0);
    for (uint32_t i = 0; i < states_.size(); ++i) PlaceOf(states_[i]) = i + 1;
  }

  std::vector<State> states_;
  std::vector<Reached> reached_;
  std::vector<uint32_t> places_;
};

struct Edge {
  uint32_t from, to;
};

// Finds the first live state from which no way leads to all answers. `edges` are all steps but the losses of working
// connections.
std::optional<uint32_t> FindStuck(const World& world, const States& states, const std::vector<Edge>& edges) {
  std::vector<uint32_t> begins(states.size() + 1), froms(edges.size());  // the edges by the state that they lead to
  for (const Edge& edge : edges) ++begins[edge.to];
  uint32_t sum = 0;
  for (uint32_t& begin : begins) sum = std::exchange(begin, sum) + sum;
  std::vector<uint32_t> next = begins;
  for (const Edge& edge : edges) froms[next[edge.to]++] = edge.from;

  std::vector<bool> can_finish(states.size());
  std::vector<uint32_t> waiting;
  for (uint32_t i = 0; i < states.size(); ++i) {
    if (!world.IsDone(states[i])) continue;
    can_finish[i] = true;
    waiting.push_back(i);
  }
  while (!waiting.empty()) {
    const uint32_t to = waiting.back();
    waiting.pop_back();
    for (uint32_t i = begins[to]; i < begins[to + 1]; ++i) {
      if (can_finish[froms[i]]) continue;
      can_finish[froms[i]] = true;
      waiting.push_back(froms[i]);
    }
  }
  for (uint32_t i = 0; i < states.size(); ++i) {
    if (!can_finish[i] && world.IsLive(states[i])) return i;
  }
  return std::nullopt;
}

}  // namespace

Report Explore(World& world, size_t most) {
  Report report;
  States states;
  std::vector<Edge> edges;
  std::vector<Event> events;
  states.Add(world.first(), {});
  for (uint32_t at = 0; at < states.size() && report.wrong.empty() && !report.is_cut; ++at) {
    const State state = states[at];
    world.ListEvents(state, events);
    for (const Event& event : events) {
      auto outcome = world.Happen(state, event);
      ++report.steps;
      const auto [to, is_new] = states.Add(outcome.next, {.from = at, .by = event});
      if (!outcome.wrong.empty()) {
        report.wrong = std::move(outcome.wrong);
        report.way = states.WayTo(at);
        report.way.push_back(event);
        break;
      }
      if (!world.LosesConnection(state, event) && to != at) edges.push_back({at, to});
    }
    report.is_cut = states.size() >= most;
  }
  report.states = states.size();
  report.servers = world.servers().count();
  if (!report.wrong.empty() || report.is_cut) return report;
  if (const auto stuck = FindStuck(world, states, edges)) {
    report.wrong = "a live client cannot get all its answers any more";
    report.way = states.WayTo(*stuck);
  }
  return report;
}

}  // namespace penstock::explorer
