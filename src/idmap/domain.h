// The domain behind the '@' of owners and groups in NFS version 4, as Linux's libnfsidmap finds it (idmapd.conf(5)).
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/timer.h"

namespace penstock::idmap {

// Returns the Domain of the section [General] in the text of a configuration file. Empty if the text has none. Does not
// check whether it can be a domain.
std::optional<std::string> DomainIn(std::string_view text);

struct DomainSources {
  // Files with names that end in ".conf" in the folder with this name and ".d" replace its values.
  std::filesystem::path configuration = "/etc/idmapd.conf";
  // Returns the fully qualified name of this host, if it has one. May block on a DNS server. May run on after
  // FindDomain() has returned, and must not refer to anything that ends before the process.
  std::function<std::optional<std::string>()> full_host_name = &FullHostName;
  // How long to wait for the name of the host.
  Duration patience = std::chrono::seconds(2);

  static std::optional<std::string> FullHostName();
};

struct Domain {
  std::string name;
  std::string origin;  // for messages: a file, "the name of this host", or "the default"
};

// Finds the domain: in the configuration files, or else behind the first dot of the host's name, or else "localdomain".
// For set-up: blocks. Logs a warning about a source that exists and cannot be used.
Domain FindDomain(const DomainSources& sources = {});

}  // namespace penstock::idmap
