// The argument HOST of commands that concern a host rather than a file.
#pragma once

#include <string>

#include "base/result.h"
#include "cli/common_options.h"
#include "client/url.h"

namespace penstock::cli {

// Parses a URL, or "host", "host:port", "v6-address", "[v6-address]:port", which stand for the root of the host.
SetupResult<client::Url> ParseHost(const std::string& text, const AccessOptions& options);

}  // namespace penstock::cli
