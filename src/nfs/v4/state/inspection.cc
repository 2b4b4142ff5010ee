#include "nfs/v4/state/inspection.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <thread>
#include <utility>

#include "base/texts.h"

namespace penstock::nfs::v4 {
namespace {

// What one step may do while it holds the lock.
constexpr size_t kSlotsOfAStep = 512;
constexpr size_t kRangesOfAStep = 4096;  // or one more list of ranges

constexpr auto kPause = std::chrono::microseconds(100);

// Calls step(tables, at) with the tables locked, and with the slot to begin at. It returns the slot to go on with, or
// nothing. Calls after() between the steps and after the last one, without the lock. It returns false to end.
template <class Step, class After>
void RunInSteps(State& state, Step step, After after) {
  std::optional<size_t> at = 0;
  while (true) {
    at = state.Run([&](StateTables& tables) { return step(tables, *at); });
    if (!after() || !at) return;
    std::this_thread::sleep_for(kPause);
  }
}

// The name in an exported name (RFC 2743 §3.2); empty if it is none.
std::string_view NameIn(std::string_view exported) {
  constexpr std::string_view kToken("\x04\x01", 2);
  const auto take = [&](size_t octets) {
    size_t value = 0;
    for (size_t i = 0; i < octets; ++i) value = value << 8 | static_cast<unsigned char>(exported[i]);
    exported.remove_prefix(octets);
    return value;
  };
  if (!exported.starts_with(kToken) || exported.size() < 4) return {};
  exported.remove_prefix(kToken.size());
  const size_t mechanism = take(2);
  if (exported.size() < mechanism + 4) return {};
  exported.remove_prefix(mechanism);
  const size_t name = take(4);
  return exported.size() == name ? exported : std::string_view();
}

// As the option vers= of a mount names it.
std::string_view VersionOf(const Dialect& dialect) {
  if (dialect.session_kind() == SessionKind::kBound) return "4.1-sess01";
  constexpr std::string_view kVersions[] = {"4.0", "4.1", "4.2"};
  return kVersions[std::min<size_t>(dialect.minor_version().value(), std::size(kVersions) - 1)];
}

ShownState Show(const StateRecord& record, const Files& files, TimePoint now) {
  ShownState shown{.kind = record.kind, .client = record.client->id, .id = files.IdOf(record), .file = {}};
  switch (record.kind) {
    case StateKind::kOpen: {
      const auto& open = static_cast<const OpenState&>(record);
      shown.file = open.handle;
      shown.owner = open.owner->name;
      shown.share = open.share;
      break;
    }
    case StateKind::kLocks: {
      const auto& locks = static_cast<const LockState&>(record);
      shown.file = locks.open->handle;
      shown.owner = locks.owner->name;
      shown.ranges.assign(locks.ranges.ranges().begin(), locks.ranges.ranges().end());
      break;
    }
    case StateKind::kDelegation: {
      const auto& delegation = static_cast<const DelegationState&>(record);
      shown.file = delegation.name.handle;
      shown.write = delegation.write;
      // It may have been recalled since `now`.
      if (delegation.recalled_at) shown.recalled = std::max(now - *delegation.recalled_at, Duration::zero());
      break;
    }
  }
  return shown;
}

// Whether the state is in effect: not closed, not revoked, and of locks not without a range.
bool IsInEffect(const StateRecord& record) {
  if (!record.file) return false;
  return record.kind != StateKind::kLocks || !static_cast<const LockState&>(record).ranges.empty();
}

void Count(StateKind kind, ShownClient& to) {
  switch (kind) {
    case StateKind::kOpen:
      ++to.opens;
      break;
    case StateKind::kLocks:
      ++to.locks;
      break;
    case StateKind::kDelegation:
      ++to.delegations;
      break;
  }
}

// All clients, without their connections.
std::vector<ShownClient> ListWithoutConnections(const StateTables& tables, TimePoint now) {
  std::vector<ShownClient> all;
  tables.clients.ForEach([&](const Client& client) {
    ShownClient& shown = all.emplace_back();
    shown.id = client.id;
    shown.version = VersionOf(client.dialect);
    shown.owner = client.owner;
    if (!client.dialect.has_sessions()) shown.address = client.address;
    shown.principal = client.principal;
    shown.since_renewal = now - client.renewed;
    shown.confirmed = client.confirmed;
    shown.lease_is_over = client.confirmed && tables.clients.LeaseIsOver(client, now);
    shown.sessions = client.sessions.size() + (client.bound_session ? 1 : 0);
  });
  for (const LockHost* const host : tables.lock_hosts.by_use()) {
    ShownClient& shown = all.emplace_back();
    shown.id = host->id;
    shown.is_lock_host = true;
    shown.version = "nlm";
    shown.owner = host->name.name;
    shown.address = host->name.address;
    shown.since_renewal = now - host->used;
  }
  return all;
}

std::map<ClientId, ShownClient*> ById(std::vector<ShownClient>& clients) {
  std::map<ClientId, ShownClient*> by_id;
  for (ShownClient& each : clients) by_id[each.id] = &each;
  return by_id;
}

}  // namespace

std::string ForPeople(const Principal& principal) {
  switch (principal.flavor) {
    case rpc::AuthFlavor::AUTH_SYS:
      return fmt::format("uid {}", principal.uid);
    case rpc::AuthFlavor::RPCSEC_GSS: {
      const std::string_view name = NameIn(principal.name);
      return std::string(name.empty() ? "a principal of RPCSEC_GSS" : name);
    }
    default:
      return "nobody";
  }
}

std::vector<ShownClient> ListClients(State& state, TimePoint now) {
  auto all = state.Run([&](StateTables& tables) { return ListWithoutConnections(tables, now); });
  const auto by_id = ById(all);
  for (const ShownSession& session : ListSessions(state)) {
    const auto owner = by_id.find(session.client);
    if (owner == by_id.end()) continue;
    std::vector<uint64_t>& connections = owner->second->connections;
    for (const uint64_t each : session.connections) {
      if (std::ranges::find(connections, each) == connections.end()) connections.push_back(each);
    }
  }
  std::ranges::sort(all, {}, [](const ShownClient& each) { return each.id; });
  return all;
}

std::vector<ShownSession> ListSessions(State& state) {
  return state.Run([](StateTables& tables) {
    std::vector<ShownSession> all;
    tables.sessions.ForEach([&](const Session& session) {
      ShownSession& shown = all.emplace_back();
      shown.id = Hexadecimal(session.id);
      shown.client = session.client->id;
      shown.version = VersionOf(session.client->dialect);
      shown.slots = session.slots.count();
      shown.busy_slots = session.slots.busy();
      shown.max_request = session.fore.ca_maxrequestsize;
      shown.max_response = session.fore.ca_maxresponsesize;
      shown.kept_octets = session.slots.kept_octets();
      shown.back_channel = session.back_channel_works();
      shown.persistent = session.persistent;
      session.connections.ForEach([&](uint64_t number, bool) { shown.connections.push_back(number); });
    });
    tables.bound_sessions.ForEach([&](const sess01::BoundSession& session) {
      ShownSession& shown = all.emplace_back();
      shown.id = fmt::format("{:016x}", session.id);
      shown.client = session.client;
      shown.version = "4.1-sess01";
      shown.slots = session.streams.count();
      shown.busy_slots = session.streams.busy();
      shown.kept_octets = session.streams.kept_octets();
      shown.back_channel = session.Back() != nullptr;
      shown.persistent = session.persistent;
      for (const auto& channel : session.live) {
        if (std::ranges::find(shown.connections, channel.connection) == shown.connections.end()) {
          shown.connections.push_back(channel.connection);
        }
      }
    });
    return all;
  });
}

void CountStates(State& state, std::vector<ShownClient>& clients) {
  const auto by_id = ById(clients);
  RunInSteps(
      state,
      [&](StateTables& tables, size_t first) {
        return tables.files.VisitStates(first, kSlotsOfAStep, [&](const StateRecord& record) {
          const auto client = IsInEffect(record) ? by_id.find(record.client->id) : by_id.end();
          if (client != by_id.end()) Count(record.kind, *client->second);
          return true;
        });
      },
      [] { return true; });
}

void VisitStates(State& state, TimePoint now, const StateFilter& filter, const std::function<bool(ShownState)>& look) {
  std::vector<ShownState> found;  // in one step
  RunInSteps(
      state,
      [&](StateTables& tables, size_t first) {
        size_t ranges = 0;
        return tables.files.VisitStates(first, kSlotsOfAStep, [&](const StateRecord& record) {
          if (record.kind != filter.kind || !IsInEffect(record)) return true;
          if (filter.clients && !filter.clients->contains(record.client->id)) return true;
          found.push_back(Show(record, tables.files, now));
          ranges += found.back().ranges.size();
          return ranges < kRangesOfAStep;
        });
      },
      [&] {
        for (ShownState& each : std::exchange(found, {})) {
          if (!look(std::move(each))) return false;
        }
        return true;
      });
}

}  // namespace penstock::nfs::v4
