#include "cli/control_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/host.h"
#include "base/texts.h"

namespace penstock::cli {

using nfs::v4::ClientId;
using nfs::v4::ShownClient;
using nfs::v4::ShownSession;
using nfs::v4::ShownState;
using nfs::v4::StateKind;

namespace {

std::string_view ProtectionOf(const rpc::ConnectionTable::Shown& connection) {
  switch (connection.protection) {
    case rpc::Protection::kNone:
      return "none";
    case rpc::Protection::kTls:
      return "tls";
    case rpc::Protection::kMutualTls:
      return "mtls";
  }
  std::unreachable();
}

std::string_view SquashOf(nfs::Squash squash) {
  switch (squash) {
    case nfs::Squash::kNone:
      return "no_root_squash";
    case nfs::Squash::kForeignRoot:
      return "root_squash, except root of this host";
    case nfs::Squash::kRoot:
      return "root_squash";
    case nfs::Squash::kAll:
      return "all_squash";
  }
  std::unreachable();
}

std::string AccessOf(uint32_t bits) {
  const std::string_view words[] = {"", "r", "w", "rw"};
  return std::string(words[bits & 3]);
}

Json RangesOf(const ShownState& state) {
  Json ranges = Json::array();
  for (const nfs::v4::LockedRange& each : state.ranges) {
    Json range{{"offset", each.range.first}, {"type", each.exclusive ? "write" : "read"}};
    // A range without end has no length.
    if (each.range.last != UINT64_MAX) range["length"] = each.range.length();
    ranges.push_back(std::move(range));
  }
  return ranges;
}

}  // namespace

double Seconds(Duration duration) { return std::chrono::duration<double>(duration).count(); }

std::string TextOf(ClientId id) { return fmt::format("{:016x}", id.value()); }

std::string TextOf(const nfs4::stateid4& id) { return Hexadecimal(id.other); }

std::string_view TransportOf(const rpc::ConnectionTable::Shown& connection) {
  return connection.transport == rpc::TransportKind::kRdma ? "rdma" : "tcp";
}

Json JsonOf(const rpc::ConnectionTable::Shown& connection) {
  Json json{{"number", connection.number},
            {"address", Unmapped(connection.peer.address()).to_string()},
            {"port", connection.peer.port()},
            {"transport", TransportOf(connection)},
            {"tls", ProtectionOf(connection)}};
  // A connection without it has a call under way.
  if (connection.idle) json["idle_seconds"] = Seconds(*connection.idle);
  return json;
}

Json JsonOf(const nfs::Export& exported) {
  Json clients = Json::array();
  for (const nfs::Admission& admission : exported.admissions()) {
    const nfs::ExportOptions& options = admission.options;
    const auto add = [&](const nfs::SecurityFlavors& flavors, bool read_only, nfs::Squash squash) {
      clients.push_back({{"clients", admission.clients.ToString()},
                         {"access", read_only ? "ro" : "rw"},
                         {"squash", SquashOf(squash)},
                         {"sec", flavors.ToString()},
                         {"xprtsec", options.protections.ToString()},
                         {"ports", options.privileged_ports ? "secure" : "insecure"}});
    };
    // Several "sec=" with options of their own are several entries.
    nfs::SecurityFlavors others;
    for (const nfs::SecurityFlavor flavor : options.security) {
      if (std::ranges::none_of(options.by_flavor, [&](const auto& each) { return each.flavors.Has(flavor); })) {
        others.Add(flavor);
      }
    }
    if (!others.empty()) add(others, options.read_only, options.squash);
    for (const auto& each : options.by_flavor) add(each.flavors, each.read_only, each.squash);
  }
  return {{"path", exported.path()}, {"referral", exported.is_referral()}, {"clients", std::move(clients)}};
}

Json JsonOf(const ShownSession& session) {
  return {{"id", session.id},
          {"client", TextOf(session.client)},
          {"version", session.version},
          {"slots", session.slots},
          {"busy_slots", session.busy_slots},
          {"max_request", session.max_request},
          {"max_response", session.max_response},
          {"kept_bytes", session.kept_octets},
          {"back_channel", session.back_channel},
          {"persistent", session.persistent},
          {"connections", session.connections}};
}

Json JsonOf(const ShownClient& client, const std::set<std::string>& addresses,
            const std::set<std::string>& transports) {
  Json json{{"id", TextOf(client.id)}, {"version", client.version}, {"name", client.owner},
            {"addresses", addresses},  {"transports", transports},  {"sessions", client.sessions},
            {"opens", client.opens},   {"locks", client.locks},     {"delegations", client.delegations}};
  if (client.principal) json["principal"] = ForPeople(*client.principal);
  json[client.is_lock_host ? "since_use_seconds" : "since_renewal_seconds"] = Seconds(client.since_renewal);
  if (!client.is_lock_host) json["lease"] = !client.confirmed ? "unconfirmed" : client.lease_is_over ? "over" : "valid";
  return json;
}

Json JsonOf(const ShownState& state, std::string path) {
  Json json{{"client", TextOf(state.client)}, {"stateid", TextOf(state.id)}, {"path", std::move(path)}};
  switch (state.kind) {
    case StateKind::kOpen:
      json["owner"] = state.owner;
      json["access"] = AccessOf(state.share.access);
      json["deny"] = AccessOf(state.share.deny);
      break;
    case StateKind::kLocks:
      json["owner"] = state.owner;
      json["ranges"] = RangesOf(state);
      break;
    case StateKind::kDelegation:
      json["type"] = state.write ? "write" : "read";
      if (state.recalled) json["recalled_seconds"] = Seconds(*state.recalled);
      break;
  }
  return json;
}

}  // namespace penstock::cli
