// Writes configurations as TOML: the effective one, and the sample with all options.
#include <fmt/core.h>

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "cli/configuration.h"

namespace penstock::cli {
namespace {

constexpr size_t kTextColumns = 100;

std::string ValueText(const Setting& setting, const std::string& value) {
  const bool is_text = setting.type == SettingType::kText || setting.type == SettingType::kTexts;
  const bool has_unit = setting.unit == Unit::kOctets && value.find_first_not_of("0123456789") != std::string::npos;
  return is_text || has_unit ? TomlString(value) : value;
}

// Returns the values as TOML: `1`, `"a"` or `["a", "b"]`.
std::string ValueText(const Setting& setting, const std::vector<std::string>& values) {
  if (setting.type != SettingType::kTexts) return ValueText(setting, values.empty() ? std::string() : values.front());
  std::string list;
  for (const std::string& each : values) list += (list.empty() ? "" : ", ") + ValueText(setting, each);
  return fmt::format("[{}]", list);
}

// Appends the text as comments of at most kTextColumns columns. The text's own lines are not kept.
void AppendComment(std::string& out, std::string_view text) {
  std::string line = "#";
  while (!text.empty()) {
    const size_t begin = text.find_first_not_of(" \n");
    if (begin == std::string_view::npos) break;
    text.remove_prefix(begin);
    const std::string_view word = text.substr(0, text.find_first_of(" \n"));
    text.remove_prefix(word.size());
    if (line.size() + 1 + word.size() > kTextColumns) {
      out += line + "\n";
      line = "#";
    }
    line += " ";
    line += word;
  }
  out += line + "\n";
}

std::string_view UnitText(Unit unit) {
  switch (unit) {
    case Unit::kSeconds:
      return " Unit: seconds.";
    case Unit::kOctets:
      return " Unit: octets.";
    case Unit::kNone:
      break;
  }
  return "";
}

// The tables, in the order of their first option.
std::vector<std::string> TablesOf(const Settings& settings) {
  std::vector<std::string> tables;
  std::set<std::string> seen{""};
  for (const Setting& setting : settings.all()) {
    if (seen.insert(setting.table).second) tables.push_back(setting.table);
  }
  return tables;
}

}  // namespace

std::string PrintConfiguration(const Configuration& configuration) {
  ServeOptions options = configuration.options;
  CLI::App command;
  const Settings settings = AddServeOptions(command, options);
  std::string out = "# The effective configuration of penstock serve, with the source of each value.\n";
  for (const std::string& table : TablesOf(settings)) {
    out += fmt::format("\n[{}]\n", table);
    for (const Setting& setting : settings.all()) {
      if (setting.table != table) continue;
      const Source& source = configuration.sources.at(setting.key());
      const std::vector<std::string> values = setting.values();
      std::string comment = ToString(source);
      for (char& c : comment) {
        if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
      }
      if (values.empty() && setting.type != SettingType::kTexts) {
        out += fmt::format("# {} is not set  # {}\n", setting.name, comment);
      } else {
        out += fmt::format("{} = {}  # {}\n", setting.name, ValueText(setting, values), comment);
      }
    }
  }
  return out;
}

std::string SampleConfiguration() {
  ServeOptions options;
  CLI::App command;
  const Settings settings = AddServeOptions(command, options);
  std::string out;
  AppendComment(out, "The configuration of `penstock serve`, in TOML. See docs/configuration.md.");
  out += "#\n";
  AppendComment(out,
                "Each option has its default value here, or an example if it has none. To change an option, remove the "
                "first # of its line. Flags, and variables of the environment, have precedence over this file. "
                "`penstock check-config` finds mistakes; `penstock serve --print-config` shows the result.");
  for (const std::string& table : TablesOf(settings)) {
    out += fmt::format("\n[{}]\n", table);
    for (const Setting& setting : settings.all()) {
      if (setting.table != table) continue;
      out += "\n";
      AppendComment(out, fmt::format("{}.{}", setting.help(), UnitText(setting.unit)));
      AppendComment(out, fmt::format("Flag: {}. Variable: {}.", setting.flag, setting.variable));
      const std::vector<std::string> values = setting.values();
      const bool has_default = !values.empty();
      out += fmt::format("#{} = {}{}\n", setting.name,
                         ValueText(setting, has_default ? values : std::vector<std::string>{setting.example}),
                         has_default ? "" : "  # an example: not set by default");
    }
  }
  return out;
}

}  // namespace penstock::cli
