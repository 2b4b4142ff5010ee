// The commands of the control socket of `penstock serve` (docs/control.md).
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "base/result.h"
#include "cli/reload.h"
#include "server/administration.h"
#include "server/server.h"

namespace penstock::cli {

using Json = nlohmann::json;

// Thread-safe. Commands run from Server::Start() until before Server::Stop().
class ControlCommands {
 public:
  // `version` is the line that --version prints. The others outlive this.
  ControlCommands(std::string version, server::Server& server, Reloader& reloader);

  // Executes a command. The error is for the operator. May block, see server::Administration.
  SetupResult<Json> Run(const std::string& command, const Json& arguments);

 private:
  using Action = SetupResult<Json> (ControlCommands::*)(const Json& arguments);
  // The names of its arguments, and what it does.
  struct Entry {
    std::vector<std::string_view> arguments;
    Action action;
  };
  static const std::map<std::string, Entry, std::less<>>& Table();

  SetupResult<Json> Status(const Json& arguments);
  SetupResult<Json> Exports(const Json& arguments);
  SetupResult<Json> Connections(const Json& arguments);
  SetupResult<Json> Clients(const Json& arguments);
  SetupResult<Json> Sessions(const Json& arguments);
  SetupResult<Json> Opens(const Json& arguments);
  SetupResult<Json> Locks(const Json& arguments);
  SetupResult<Json> Delegations(const Json& arguments);
  SetupResult<Json> States(const Json& arguments, nfs::v4::StateKind kind);
  SetupResult<Json> Counters(const Json& arguments);
  SetupResult<Json> Reload(const Json& arguments);
  SetupResult<Json> Evict(const Json& arguments);
  SetupResult<Json> Revoke(const Json& arguments);
  SetupResult<Json> Drain(const Json& arguments);
  SetupResult<Json> Grace(const Json& arguments);
  SetupResult<Json> Log(const Json& arguments);
  SetupResult<Json> Trace(const Json& arguments);
  // The clients that a text names: an ID as `clients` shows it, or the address of a host.
  SetupResult<std::vector<nfs::v4::ClientId>> ClientsNamed(const std::string& text);

  const std::string version_;
  server::Server& server_;
  server::Administration administration_;
  Reloader& reloader_;
  const std::chrono::system_clock::time_point started_ = std::chrono::system_clock::now();
};

}  // namespace penstock::cli
