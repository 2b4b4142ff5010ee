#include "cli/client_config.h"

#include <fmt/core.h>
#include <fnmatch.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "cli/configuration.h"
#include "cli/url_sources.h"
#include "client/url.h"
#include "client/url_parameters.h"

namespace penstock::cli {

namespace {

using client::UrlOption;

// Takes the entries of a file one after the other.
class ConfigReader {
 public:
  explicit ConfigReader(const ConfigFile& file) : file_(file) {}

  void Report(size_t line, std::string message) {
    mistakes.push_back({.file = file_.name, .line = line, .message = std::move(message)});
  }

  // Returns the option, unless it has a mistake. A flag that is false is no option.
  std::optional<UrlOption> Take(const TomlEntry& entry) {
    const std::string& name = entry.path.back();
    if (entry.kind != TomlEntry::Kind::kValue) {
      Report(entry.line, fmt::format("{} must have one value", name));
      return std::nullopt;
    }
    const TomlValue& value = entry.values.front();
    const auto parameters = client::UrlParameters();
    const auto known = std::ranges::find(parameters, name, &client::UrlParameter::name);
    const bool is_flag = known != parameters.end() && known->values.empty();
    UrlOption option{.name = name, .source = fmt::format("{}:{}", file_.name, entry.line)};
    if (is_flag && value.type != TomlValue::Type::kBoolean) {
      Report(entry.line, fmt::format("{} must be true or false", name));
      return std::nullopt;
    }
    if (!is_flag) option.value = value.text;
    client::Url scratch;
    client::UrlParts parts{.url = scratch};
    if (const auto mistake = client::SetUrlParameter(parts, name, value.text, !is_flag)) {
      Report(entry.line, *mistake);
      return std::nullopt;
    }
    if (is_flag && value.text == "false") return std::nullopt;
    return option;
  }

  std::vector<Finding> mistakes;

 private:
  const ConfigFile& file_;
};

std::string Joined(const std::vector<std::string>& path) {
  std::string text;
  for (const std::string& each : path) text += (text.empty() ? "" : ".") + each;
  return text;
}

}  // namespace

Result<ClientConfig, std::vector<Finding>> ClientConfig::Parse(const ConfigFile& file) {
  TomlContent content = ParseToml(file);
  ConfigReader reader(file);
  reader.mistakes = std::move(content.mistakes);
  // The file's own order; a table stands before its entries.
  std::ranges::sort(content.entries, {}, [](const TomlEntry& each) { return std::pair(each.line, each.path.size()); });
  ClientConfig config;
  for (const TomlEntry& entry : content.entries) {
    const std::vector<std::string>& path = entry.path;
    const bool is_table = entry.kind == TomlEntry::Kind::kTable;
    const bool of_host = path.front() == "host";
    const size_t depth = of_host ? 2 : 1;  // of the tables with options
    if (path.front() != "defaults" && !of_host) {
      // A mistake in the name of a table is one mistake, whatever the table has.
      if (path.size() > 1) continue;
      reader.Report(entry.line, fmt::format("unknown {} {}: write [defaults] or [host.\"NAME\"]",
                                            is_table ? "table" : "key", path.front()));
    } else if (is_table && path.size() <= depth) {
      if (of_host && path.size() == 2) config.hosts_.push_back({.pattern = path[1], .options = {}});
    } else if (is_table || path.size() != depth + 1) {
      reader.Report(entry.line, fmt::format("{} is not an option of URLs", Joined(path)));
    } else if (auto option = reader.Take(entry)) {
      if (!of_host) {
        config.defaults_.push_back(*std::move(option));
        continue;
      }
      const auto group = std::ranges::find(config.hosts_, path[1], &Group::pattern);
      if (group == config.hosts_.end()) {
        config.hosts_.push_back({.pattern = path[1], .options = {*std::move(option)}});
      } else {
        group->options.push_back(*std::move(option));
      }
    }
  }
  if (!reader.mistakes.empty()) {
    SortByLine(reader.mistakes);
    return std::unexpected(std::move(reader.mistakes));
  }
  return config;
}

std::vector<UrlOption> ClientConfig::OptionsFor(const std::string& host) const {
  std::vector<UrlOption> options = defaults_;
  for (const Group& each : hosts_) {
    // FNM_CASEFOLD: names of hosts have no case.
    if (::fnmatch(each.pattern.c_str(), host.c_str(), FNM_CASEFOLD) != 0) continue;
    std::ranges::copy(each.options, std::back_inserter(options));
  }
  return options;
}

std::optional<std::string> ClientConfigFile() {
  if (const char* const named = ValueInEnvironment("PENSTOCK_CLIENT_CONFIG")) {
    return IsNoConfigFile(named) ? std::nullopt : std::optional<std::string>(named);
  }
  const char* const folder = ValueInEnvironment("XDG_CONFIG_HOME");
  const char* const home = ValueInEnvironment("HOME");
  // The specification of XDG ignores a relative path.
  const bool has_folder = folder && *folder == '/';
  if (!has_folder && !home) return std::nullopt;
  std::string file = (has_folder ? std::string(folder) : std::string(home) + "/.config") + "/penstock/config.toml";
  if (::access(file.c_str(), F_OK) != 0) return std::nullopt;
  return file;
}

SetupResult<std::vector<UrlOption>> OptionsOfConfig(const std::string& host) {
  const std::optional<std::string> name = ClientConfigFile();
  if (!name) return std::vector<UrlOption>();
  const auto file = ReadConfigFile(*name);
  if (!file) return std::unexpected(SetupError{ToString(file.error())});
  const auto config = ClientConfig::Parse(*file);
  if (config) return config->OptionsFor(host);
  const size_t more = config.error().size() - 1;
  return std::unexpected(
      SetupError{ToString(config.error().front()) + (more > 0 ? fmt::format(" (and {} more)", more) : std::string())});
}

}  // namespace penstock::cli
