// The settings of a server that a host gives, as the server itself takes them.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/log.h"
#include "base/result.h"
#include "nfs/export_options.h"
#include "penstock/server.h"
#include "server/options.h"

namespace penstock::library {

struct ServerSettings {
  server::Options options;
  std::filesystem::path state_directory;
  size_t blocking_threads = 0;
  std::shared_ptr<log::Logger> logger;  // null without a function for messages
};

// `options` are complete, as Adopt() makes them.
SetupResult<ServerSettings> SettingsOf(const penstock_server_options& options);

// Parses "127.0.0.1:2049,[::1]:2049". An empty text has no addresses.
SetupResult<std::vector<SocketAddress>> ParseAddresses(std::string_view text);

// Parses the clients of an export, as exports(5) has them behind the path. Logs what has no effect.
SetupResult<nfs::ExportSpec> ParseClients(std::string_view path, std::string_view clients);

}  // namespace penstock::library
