// The defaults of the client commands: ~/.config/penstock/config.toml. Its tables have the options of URLs as keys:
// [defaults] for all servers, and [host."pattern"] for those whose names match.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/finding.h"
#include "base/result.h"
#include "cli/toml_file.h"
#include "client/url_options.h"

namespace penstock::cli {

class ClientConfig {
 public:
  // The findings are all mistakes of the file, with their lines.
  static Result<ClientConfig, std::vector<Finding>> Parse(const ConfigFile& file);

  // Returns the options for a server: those of [defaults], and then those of each matching table, in the order of the
  // file. The source of each is its line.
  std::vector<client::UrlOption> OptionsFor(const std::string& host) const;

 private:
  struct Group {
    std::string pattern;  // of fnmatch(3)
    std::vector<client::UrlOption> options;
  };
  std::vector<client::UrlOption> defaults_;
  std::vector<Group> hosts_;
};

// Returns the name of the file: PENSTOCK_CLIENT_CONFIG, or else config.toml in the user's folder of configurations, if
// it exists. Returns nothing if there is none, and if the variable is empty or "none".
std::optional<std::string> ClientConfigFile();

// Reads the file and returns the options for a server. The error names the first mistake.
SetupResult<std::vector<client::UrlOption>> OptionsOfConfig(const std::string& host);

}  // namespace penstock::cli
