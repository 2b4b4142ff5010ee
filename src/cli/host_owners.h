// The owners and groups of a server's files as this host names them, for the output of a command.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

#include "cli/client_runtime.h"
#include "client/mount.h"
#include "idmap/local_owners.h"
#include "idmap/lookups.h"

namespace penstock::cli {

struct OwnerOptions {
  bool numbers = false;                    // in place of names
  std::optional<std::string> nfs4_domain;  // see ParseDomain()
};
// Adds --nfs4-domain.
void AddDomainOption(CLI::App& command, OwnerOptions& options);
// Checks nfs4_domain, and replaces "none". Returns the exit code of wrong usage after a message, or nothing.
std::optional<int> PrintWrongDomain(OwnerOptions& options);

// Belongs to one command: all look-ups together wait no longer than one.
class HostOwners {
 public:
  // `runtime` outlives the object.
  HostOwners(ClientRuntime& runtime, OwnerOptions options);

  // Replaces owner and group by the names of this host's users and groups, or by their numbers.
  Task<void> Localize(client::Attributes& attributes);
  // Returns the text that names a user or group of this host to a server: its number. Numbers stay as they are, and
  // name@domain. The error says that this host does not know the name.
  Task<client::Result<std::string>> NumberOf(idmap::Kind kind, std::string name);

 private:
  Task<void> FindDomain();

  ClientRuntime& runtime_;
  const OwnerOptions options_;
  idmap::Lookups lookups_;
  std::optional<idmap::LocalOwners> owners_;
  bool has_domain_ = false;
};

}  // namespace penstock::cli
