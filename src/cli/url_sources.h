// The options of a URL that stand elsewhere: on the command line, in the environment, in the configuration file.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "cli/common_options.h"
#include "client/url_options.h"

namespace penstock::cli {

// The options of the command line, which replace those of the URL: -o, and then --vers, --sec and --xprtsec.
std::vector<client::UrlOption> OptionsOfFlags(const AccessOptions& options);

// The options of the environment: PENSTOCK_OPTIONS, and then PENSTOCK_SEC and PENSTOCK_XPRTSEC.
std::vector<client::UrlOption> OptionsOfEnvironment();

// Returns the value of a variable of the environment; null if it is not set. Call it before any other thread runs.
const char* ValueInEnvironment(const char* variable);

}  // namespace penstock::cli
