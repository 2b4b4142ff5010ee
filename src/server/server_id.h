// The name of a server.
#pragma once

#include <filesystem>
#include <string>

#include "base/result.h"

namespace penstock::server {

// The name that distinguishes this server from all others, regardless of its addresses (RFC 8881 §2.10.4). It is made
// at the first start and kept in the state directory. One server uses the directory at a time.
SetupResult<std::string> LoadServerId(const std::filesystem::path& directory);

}  // namespace penstock::server
