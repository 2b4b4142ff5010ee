#include "cli/control_commands.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ostream.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "base/host.h"
#include "base/log.h"
#include "cli/control_arguments.h"
#include "cli/control_json.h"
#include "cli/logging.h"
#include "cli/printable.h"
#include "watch/exposition.h"

namespace penstock::cli {
namespace {

using nfs::v4::ClientId;
using nfs::v4::ShownClient;
using nfs::v4::ShownState;
using nfs::v4::StateKind;

// Listings have no more entries than this, unless the operator asks for more.
constexpr size_t kUsualLimit = 10000;

}  // namespace

ControlCommands::ControlCommands(std::string version, server::Server& server, Reloader& reloader)
    : version_(std::move(version)), server_(server), administration_(server), reloader_(reloader) {}

const std::map<std::string, ControlCommands::Entry, std::less<>>& ControlCommands::Table() {
  using Self = ControlCommands;
  static const std::map<std::string, Entry, std::less<>> table = {
      {"status", {{}, &Self::Status}},
      {"exports", {{}, &Self::Exports}},
      {"connections", {{}, &Self::Connections}},
      {"clients", {{}, &Self::Clients}},
      {"sessions", {{"client"}, &Self::Sessions}},
      {"opens", {{"client", "path", "limit"}, &Self::Opens}},
      {"locks", {{"client", "path", "limit"}, &Self::Locks}},
      {"delegations", {{"client", "path", "limit"}, &Self::Delegations}},
      {"counters", {{}, &Self::Counters}},
      {"reload", {{}, &Self::Reload}},
      {"evict", {{"client"}, &Self::Evict}},
      {"revoke", {{"stateid"}, &Self::Revoke}},
      {"drain", {{"on"}, &Self::Drain}},
      {"grace", {{"action", "seconds"}, &Self::Grace}},
      {"log", {{"level", "module"}, &Self::Log}},
      {"trace", {{"action", "file", "client"}, &Self::Trace}},
  };
  return table;
}

SetupResult<Json> ControlCommands::Run(const std::string& command, const Json& arguments) {
  const auto found = Table().find(command);
  if (found == Table().end()) {
    std::vector<std::string_view> names;
    for (const auto& [name, entry] : Table()) names.push_back(name);
    return Fail(fmt::format("unknown command \"{}\"; there are: {}", Printable(command), fmt::join(names, ", ")));
  }
  for (const auto& [name, value] : arguments.items()) {
    if (std::ranges::find(found->second.arguments, name) == found->second.arguments.end()) {
      return Fail(fmt::format("{} has no argument \"{}\"", command, Printable(name)));
    }
  }
  return (this->*found->second.action)(arguments);
}

SetupResult<Json> ControlCommands::Status(const Json&) {
  const auto status = administration_.GetStatus();
  Json loops = Json::array();
  for (const auto& delay : status.loop_delays) loops.push_back(delay ? Json(Seconds(*delay)) : Json());
  const server::Addresses& at = server_.addresses();
  const auto texts = [&](const std::vector<SocketAddress>& addresses) {
    Json list = Json::array();
    for (const SocketAddress& each : addresses) list.push_back(fmt::format("{}", fmt::streamed(each)));
    return list;
  };
  Json listening{{"tcp", texts(at.tcp)}, {"rdma", texts(at.rdma)}, {"mount", texts(at.mount)}};
  if (const auto metrics = server_.metrics_address()) listening["metrics"] = texts({*metrics});
  const auto now = std::chrono::system_clock::now();
  return Json{
      {"version", version_},
      {"pid", ::getpid()},
      {"started", fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::chrono::system_clock::to_time_t(started_)))},
      {"uptime_seconds", std::chrono::duration<double>(now - started_).count()},
      {"ready", status.not_ready.empty()},
      {"not_ready_because", status.not_ready},
      {"draining", status.draining},
      {"grace_period", status.in_grace},
      {"listening", std::move(listening)},
      {"rdma", server_.rdma_descriptions()},
      {"loop_delay_seconds", std::move(loops)},
      {"exports", server_.exports().Get()->all().size()},
      {"connections", status.connections},
      {"most_connections", status.most_connections},
      {"call_memory_bytes", status.call_octets},
      {"most_call_memory_bytes", status.most_call_octets},
      {"clients", status.nfs4.clients},
      {"lock_hosts", status.nfs4.hosts},
      {"sessions", status.nfs4.sessions + status.nfs4.bound_sessions},
      {"opens", status.nfs4.opens},
      {"locked_ranges", status.nfs4.ranges},
      {"delegations", status.nfs4.delegations},
      {"copies", status.nfs4.copies},
      {"trace", status.recording}};
}

SetupResult<Json> ControlCommands::Exports(const Json&) {
  Json exports = Json::array();
  const auto table = server_.exports().Get();
  for (const auto& each : table->all()) exports.push_back(JsonOf(*each));
  return exports;
}

SetupResult<Json> ControlCommands::Connections(const Json&) {
  Json connections = Json::array();
  for (const auto& each : administration_.Connections()) connections.push_back(JsonOf(each));
  return connections;
}

SetupResult<Json> ControlCommands::Clients(const Json&) {
  const auto connections = administration_.Connections();
  Json clients = Json::array();
  std::set<uint64_t> bound;
  std::set<std::string> known;  // addresses of clients that have an ID
  for (const ShownClient& each : administration_.ClientsWithCounts()) {
    std::set<std::string> addresses, transports;
    if (each.address) addresses.insert(Unmapped(*each.address).to_string());
    for (const auto& connection : connections) {
      const bool is_bound = std::ranges::find(each.connections, connection.number) != each.connections.end();
      const bool is_from = each.address && Unmapped(connection.peer.address()) == Unmapped(*each.address);
      if (!is_bound && !is_from) continue;
      if (is_bound) bound.insert(connection.number);
      addresses.insert(Unmapped(connection.peer.address()).to_string());
      transports.emplace(TransportOf(connection));
    }
    if (each.address) known.insert(Unmapped(*each.address).to_string());
    clients.push_back(JsonOf(each, addresses, transports));
  }
  // Hosts that have connections only: versions 2 and 3 have no clients in the sense of version 4.
  std::map<std::string, std::set<std::string>> others;
  for (const auto& each : connections) {
    const std::string address = Unmapped(each.peer.address()).to_string();
    if (!bound.contains(each.number) && !known.contains(address)) others[address].emplace(TransportOf(each));
  }
  for (const auto& [address, transports] : others) {
    clients.push_back({{"version", "2 or 3"}, {"addresses", {address}}, {"transports", transports}});
  }
  return clients;
}

SetupResult<std::vector<ClientId>> ControlCommands::ClientsNamed(const std::string& text) {
  if (const auto id = ParseClientId(text)) return std::vector{*id};
  const auto address = AddressIn(text);
  if (!address) return Fail(fmt::format("{}: neither the ID of a client nor an address", Printable(text)));
  const auto connections = administration_.Connections();
  std::vector<ClientId> found;
  for (const ShownClient& each : administration_.Clients()) {
    const bool has_connection = std::ranges::any_of(connections, [&](const auto& connection) {
      return Unmapped(connection.peer.address()) == *address &&
             std::ranges::find(each.connections, connection.number) != each.connections.end();
    });
    if (has_connection || (each.address && Unmapped(*each.address) == *address)) found.push_back(each.id);
  }
  if (found.empty()) return Fail(fmt::format("no client with state is at {}", address->to_string()));
  return found;
}

SetupResult<Json> ControlCommands::Sessions(const Json& arguments) {
  PENSTOCK_TRY(const auto client, TextIn(arguments, "client"));
  std::optional<std::vector<ClientId>> of;
  if (client) {
    PENSTOCK_TRY(of, ClientsNamed(*client));
  }
  Json sessions = Json::array();
  for (const auto& each : administration_.Sessions()) {
    if (of && std::ranges::find(*of, each.client) == of->end()) continue;
    sessions.push_back(JsonOf(each));
  }
  return sessions;
}

SetupResult<Json> ControlCommands::States(const Json& arguments, StateKind kind) {
  PENSTOCK_TRY(const auto client, TextIn(arguments, "client"));
  PENSTOCK_TRY(const auto path, TextIn(arguments, "path"));
  PENSTOCK_TRY(const auto limit, NumberIn(arguments, "limit"));
  const size_t most = limit.value_or(kUsualLimit);
  nfs::v4::StateFilter filter{.kind = kind};
  if (client) {
    PENSTOCK_TRY(const std::vector<ClientId> ids, ClientsNamed(*client));
    filter.clients.emplace(ids.begin(), ids.end());
  }
  std::multimap<ClientId, Json> states;
  bool complete = true;
  size_t unnamed = 0;
  administration_.VisitStates(filter, [&](const ShownState& state) {
    server::Administration::FilePath at = administration_.PathOf(state.file);
    if (path && !at.MayBe(*path)) return true;
    if (path && !at.is_known) {
      ++unnamed;
      return true;
    }
    complete = states.size() < most;
    if (complete) states.emplace(state.client, JsonOf(state, std::move(at.text)));
    return complete;
  });
  Json list = Json::array();
  for (auto& [of, state] : states) list.push_back(std::move(state));
  Json result{{"states", std::move(list)}, {"complete", complete}};
  if (path) result["unnamed"] = unnamed;
  return result;
}

SetupResult<Json> ControlCommands::Opens(const Json& arguments) { return States(arguments, StateKind::kOpen); }
SetupResult<Json> ControlCommands::Locks(const Json& arguments) { return States(arguments, StateKind::kLocks); }
SetupResult<Json> ControlCommands::Delegations(const Json& arguments) {
  return States(arguments, StateKind::kDelegation);
}

SetupResult<Json> ControlCommands::Counters(const Json&) {
  return Json::parse(watch::ToJson(server_.CollectMetrics()));
}

SetupResult<Json> ControlCommands::Reload(const Json&) {
  const Reloaded reloaded = reloader_.Run();
  LogReload("ctl reload", reloaded);
  std::vector<std::string> mistakes, warnings;
  for (const Finding& each : reloaded.findings) {
    (each.severity == Severity::kError ? mistakes : warnings).push_back(ToString(each));
  }
  if (!reloaded.succeeded()) {
    return Fail(fmt::format("the server goes on with its old configuration:\n{}", fmt::join(mistakes, "\n")));
  }
  return Json{{"changes", reloaded.changes}, {"after_restart", reloaded.after_restart}, {"warnings", warnings}};
}

SetupResult<Json> ControlCommands::Evict(const Json& arguments) {
  PENSTOCK_TRY(const std::string text, RequiredText(arguments, "client"));
  PENSTOCK_TRY(const std::vector<ClientId> clients, ClientsNamed(text));
  std::vector<std::string> evicted, failures;
  for (const ClientId each : clients) {
    const auto done = administration_.Evict(each);
    if (!done) {
      failures.push_back(fmt::format("{}: {}", TextOf(each), done.error().message));
    } else if (*done) {
      log::warn("an operator has evicted the client {}", TextOf(each));
      evicted.push_back(TextOf(each));
    }
  }
  if (!failures.empty()) {
    return Fail(fmt::format("{}{}", evicted.empty() ? "" : fmt::format("evicted {}, but ", fmt::join(evicted, ",")),
                            fmt::join(failures, "; ")));
  }
  if (evicted.empty()) return Fail(fmt::format("{}: there is no such client, or it has no state", Printable(text)));
  return Json{{"evicted", evicted}};
}

SetupResult<Json> ControlCommands::Revoke(const Json& arguments) {
  PENSTOCK_TRY(const std::string text, RequiredText(arguments, "stateid"));
  const auto id = ParseStateId(text);
  if (!id) return Fail(fmt::format("{}: not a stateid as opens, locks and delegations show it", Printable(text)));
  if (!administration_.Revoke(*id)) return Fail(fmt::format("{}: there is no such open, lock or delegation", text));
  log::warn("an operator has revoked the state {}", text);
  return Json::object();
}

SetupResult<Json> ControlCommands::Drain(const Json& arguments) {
  const auto on = arguments.find("on");
  if (on == arguments.end() || !on->is_boolean()) return Fail("the argument \"on\" must be true or false");
  administration_.SetDraining(on->get<bool>());
  log::warn("an operator lets the server {}",
            on->get<bool>() ? "drain: it takes no new clients" : "take new clients again");
  return Json::object();
}

SetupResult<Json> ControlCommands::Grace(const Json& arguments) {
  PENSTOCK_TRY(const std::string action, RequiredText(arguments, "action"));
  PENSTOCK_TRY(const auto seconds, NumberIn(arguments, "seconds"));
  if (action == "start") {
    constexpr uint64_t kLongest = 86400;
    if (!seconds || *seconds == 0 || *seconds > kLongest) {
      return Fail(fmt::format("\"seconds\" must be a number from 1 to {}", kLongest));
    }
    administration_.BeginGrace(std::chrono::seconds(*seconds));
    log::warn("an operator has started a grace period of {} s", *seconds);
    return Json::object();
  }
  if (action != "end" || seconds) return Fail("\"action\" must be \"start\" with \"seconds\", or \"end\"");
  if (!administration_.GetStatus().in_grace) return Fail("there is no grace period");
  if (!administration_.EndGrace()) {
    return Fail("the clients of another server of the cluster may reclaim: the grace period ends at that server");
  }
  log::warn("an operator has ended the grace period");
  return Json::object();
}

SetupResult<Json> ControlCommands::Log(const Json& arguments) {
  PENSTOCK_TRY(const auto level, TextIn(arguments, "level"));
  PENSTOCK_TRY(const auto module, TextIn(arguments, "module"));
  if (module && !level) return Fail("\"module\" needs a \"level\"");
  if (level) {
    PENSTOCK_TRY(const LogLevelSetting setting, ParseLogLevel(module ? *module + "=" + *level : *level));
    log::warn("an operator has messages of {} logged from the level {} on", module ? *module : "all modules", *level);
    setting.module.empty() ? log::SetLogLevel(setting.least) : void(log::SetLogLevel(setting.module, setting.least));
  }
  Json levels = Json::array();
  for (const log::ModuleLevel& each : log::LogLevels()) {
    levels.push_back({{"module", each.module}, {"level", each.least ? log::ToString(*each.least) : "none"}});
  }
  return levels;
}

SetupResult<Json> ControlCommands::Trace(const Json& arguments) {
  PENSTOCK_TRY(const std::string action, RequiredText(arguments, "action"));
  PENSTOCK_TRY(const auto file, TextIn(arguments, "file"));
  PENSTOCK_TRY(const auto client, TextIn(arguments, "client"));
  if (action == "start" && file) {
    if (!file->starts_with('/'))
      return Fail("the path of the trace must be absolute: it is a file of the server's host");
    std::optional<IpAddress> only;
    if (client) {
      only = AddressIn(*client);
      if (!only) return Fail(fmt::format("{}: not an address", Printable(*client)));
    }
    PENSTOCK_CHECK(administration_.StartRecording(*file, only));
    log::warn("an operator has new RDMA connections recorded in {}", *file);
    return Json::object();
  }
  if (action != "stop" || file || client) return Fail("\"action\" must be \"start\" with \"file\", or \"stop\"");
  const auto lost = administration_.StopRecording();
  if (!lost) return Fail("no trace is being written");
  log::warn("an operator has ended the trace");
  return Json{{"lost_packets", *lost}};
}

}  // namespace penstock::cli
