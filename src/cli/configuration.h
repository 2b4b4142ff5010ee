// The configuration of `penstock serve`: one set of options from the command line, the environment and a file. The
// functions here read no file and no clock, so that a reload makes the next configuration as the start made the first.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/finding.h"
#include "base/result.h"
#include "cli/serve_options.h"
#include "cli/settings.h"
#include "cli/toml_file.h"

namespace penstock::cli {

// The file that `serve` reads if the command line names neither a file nor a directory.
inline constexpr char kDefaultConfigFile[] = "/etc/penstock/penstock.toml";

// The variables of the environment, by their names.
using Environment = std::map<std::string, std::string>;
// Returns those of this process.
Environment EnvironmentOfProcess();

// The origin of an option's value.
struct Source {
  enum class Kind : unsigned char { kDefault, kFlag, kEnvironment, kFile };
  Kind kind = Kind::kDefault;
  std::string name{};  // of the variable or of the file
  size_t line = 0;     // in the file
};
// "default", "flag", "environment PENSTOCK_MEMORY", "/etc/penstock/penstock.toml:12".
std::string ToString(const Source& source);

struct Configuration {
  ServeOptions options;
  std::map<std::string, Source> sources;  // of each option that has a key, by the key: "limits.memory"
  std::vector<Finding> warnings;
};

// Makes the options. A flag has precedence over a variable, a variable over the file, and the file over the default.
// The values of the file are checked even if a flag or a variable replaces them. The errors are all mistakes that there
// are, in the order of the file's lines; those of flags and variables come first. Any thread.
Result<Configuration, std::vector<Finding>> Configure(const FlagValues& flags, const Environment& environment,
                                                      const std::optional<ConfigFile>& file);

// What the command line of `serve` says.
struct CommandLine {
  FlagValues flags{};
  std::optional<std::string> config{};  // the value of --config
};

// The name of the configuration file that --config gives, or else PENSTOCK_CONFIG; nothing if neither does.
std::optional<std::string> NamedConfigFile(const std::optional<std::string>& flag, const Environment& environment);
// Whether such a name means that no file is to be read.
inline bool IsNoConfigFile(const std::string& name) { return name.empty() || name == "none"; }

// Reads the configuration file: the one of --config, or else that of PENSTOCK_CONFIG, or else the default one if it
// exists and the command line names no directory to serve. An empty name, and "none", mean no file.
Result<std::optional<ConfigFile>, Finding> FindConfigFile(const CommandLine& command_line,
                                                          const Environment& environment);

// Returns the findings for a file of the configuration alone, without the command line and the environment: all that
// would keep the server from starting, as far as that can be known without a start. Reads the files that it names.
std::vector<Finding> CheckConfiguration(const ConfigFile& file);

// Whether a running server takes another value of the option with this key (server::Server::Reload).
bool CanChange(std::string_view key);
// Returns the names of the options that differ: their keys, or the flags of options without one.
std::vector<std::string> Differences(const ServeOptions& a, const ServeOptions& b);

// Returns the effective configuration as a TOML file with a comment for the source of each value. An option without a
// value stands in a comment.
std::string PrintConfiguration(const Configuration& configuration);

// Returns a TOML file with each option in a comment: its default value, or an example if it has none.
std::string SampleConfiguration();

}  // namespace penstock::cli
