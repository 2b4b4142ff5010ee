#include "cluster/members.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

namespace penstock::cluster {
namespace {

using nlohmann::json;

constexpr uint32_t kVersion = 1;
// No operator can set a longer lease (--lease).
constexpr Duration kLongestLease = std::chrono::hours(24);

// Takes a number of an object. Returns false if it is missing, or is not within the limits.
template <class T>
bool Take(const json& object, const char* key, T& number, uint64_t most) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number_unsigned() || found->template get<uint64_t>() > most) return false;
  number = T(found->template get<uint64_t>());
  return true;
}

bool Take(const json& object, const char* key, std::string& text) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_string()) return false;
  text = found->get<std::string>();
  return true;
}

bool Take(const json& object, const char* key, bool& is_so) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_boolean()) return false;
  is_so = found->get<bool>();
  return true;
}

bool TakeRun(const json& object, uint32_t& instance, Duration& lease) {
  return object.is_object() && Take(object, "instance", instance, UINT32_MAX) &&
         Take(object, "lease", lease, static_cast<uint64_t>(kLongestLease.count()));
}

}  // namespace

bool Members::AllEnforce() const {
  return std::ranges::all_of(nodes, [&](const auto& each) { return each.second.enforces >= epoch; });
}

std::string Members::Laggards() const {
  std::string names;
  for (const auto& [name, member] : nodes) {
    if (member.enforces < epoch) names.append(names.empty() ? "" : ", ").append(name);
  }
  return names;
}

Members::Member* Members::Find(const std::string& node, uint32_t instance) {
  const auto found = nodes.find(node);
  return found != nodes.end() && found->second.instance == instance ? &found->second : nullptr;
}

void Members::Lose(const std::string& node, bool had_clients) {
  const auto found = nodes.find(node);
  if (found == nodes.end()) return;
  if (had_clients) {
    lost.push_back({node, found->second.instance, found->second.lease});
    ++epoch;
  }
  nodes.erase(found);
}

bool Members::Knows(uint32_t instance) const {
  return std::ranges::find(lost, instance, &Lost::instance) != lost.end() ||
         std::ranges::any_of(nodes, [&](const auto& each) { return each.second.instance == instance; });
}

std::string ToText(const Members& members) {
  json lost = json::array(), nodes = json::object();
  for (const auto& each : members.lost) {
    lost.push_back(
        {{"node", each.node}, {"instance", each.instance}, {"lease", each.lease.count()}, {"over", each.over}});
  }
  for (const auto& [name, each] : members.nodes) {
    nodes[name] = {{"instance", each.instance},
                   {"lease", each.lease.count()},
                   {"server", each.server},
                   {"enforces", each.enforces}};
  }
  return json{{"version", kVersion},    {"scope", members.scope},  {"last_instance", members.last_instance},
              {"epoch", members.epoch}, {"lost", std::move(lost)}, {"nodes", std::move(nodes)}}
      .dump(2);
}

std::optional<Members> ParseMembers(std::string_view text) {
  const json parsed = json::parse(text, nullptr, false);
  Members members;
  uint32_t version = 0;
  if (!parsed.is_object() || !Take(parsed, "version", version, UINT32_MAX) || version != kVersion) return std::nullopt;
  const auto lost = parsed.find("lost"), nodes = parsed.find("nodes");
  const auto end = parsed.end();
  if (lost == end || !lost->is_array() || nodes == end || !nodes->is_object() ||
      !Take(parsed, "scope", members.scope) || !Take(parsed, "last_instance", members.last_instance, UINT32_MAX) ||
      !Take(parsed, "epoch", members.epoch, UINT64_MAX)) {
    return std::nullopt;
  }
  for (const json& each : *lost) {
    Members::Lost run;
    if (!TakeRun(each, run.instance, run.lease) || !Take(each, "node", run.node) || !Take(each, "over", run.over)) {
      return std::nullopt;
    }
    members.lost.push_back(run);
  }
  for (const auto& [name, each] : nodes->items()) {
    Members::Member member;
    if (!TakeRun(each, member.instance, member.lease) || !Take(each, "server", member.server) ||
        !Take(each, "enforces", member.enforces, UINT64_MAX)) {
      return std::nullopt;
    }
    members.nodes.emplace(name, member);
  }
  return members;
}

}  // namespace penstock::cluster
