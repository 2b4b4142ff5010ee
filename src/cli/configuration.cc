#include "cli/configuration.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <set>
#include <string_view>
#include <utility>

#include "base/nearest.h"
#include "cli/served_exports.h"

namespace penstock::cli {
namespace {

// The variables of the commands of the client, and the one that names the configuration file.
constexpr std::string_view kOtherVariables[] = {
    "PENSTOCK_OPTIONS", "PENSTOCK_CLIENT_CONFIG", "PENSTOCK_CONFIG", "PENSTOCK_SEC",      "PENSTOCK_XPRTSEC",
    "PENSTOCK_KEYTAB",  "PENSTOCK_PRINCIPAL",     "PENSTOCK_TLS_CA", "PENSTOCK_TLS_CERT", "PENSTOCK_TLS_KEY",
};
constexpr char kBlanks[] = " \t\r\n";

std::vector<std::string> Words(std::string_view text) {
  std::vector<std::string> words;
  for (size_t at = text.find_first_not_of(kBlanks); at != std::string_view::npos;) {
    const size_t end = std::min(text.find_first_of(kBlanks, at), text.size());
    words.emplace_back(text.substr(at, end - at));
    at = text.find_first_not_of(kBlanks, end);
  }
  return words;
}

// Octets of a file in a message: no control characters, and not too many.
std::string Shown(std::string_view text) {
  constexpr size_t kMost = 60;
  std::string shown(text.substr(0, kMost));
  std::ranges::replace_if(shown, [](unsigned char octet) { return octet < 0x20 || octet == 0x7f; }, '?');
  return text.size() > kMost ? shown + "..." : shown;
}

std::string Shown(const std::vector<std::string>& path) {
  std::string shown;
  for (const std::string& each : path) shown += (shown.empty() ? "" : ".") + each;
  return Shown(shown);
}

// Removes the flag, and perhaps its value, from the beginning of an error of Apply().
std::string WithoutFlag(std::string_view message, const Setting& setting, std::string_view value) {
  for (const std::string& prefix : {fmt::format("{}: ", setting.flag), fmt::format("{} {}: ", setting.flag, value)}) {
    if (message.starts_with(prefix)) return std::string(message.substr(prefix.size()));
  }
  return std::string(message);
}

// What an option of the type accepts.
std::string_view Expected(const Setting& setting) {
  switch (setting.type) {
    case SettingType::kBoolean:
      return "true or false";
    case SettingType::kInteger:
      return setting.unit == Unit::kOctets ? "a whole number, or a text such as \"512MiB\"" : "a whole number";
    case SettingType::kNumber:
      return "a number";
    case SettingType::kText:
      return "a text in quotes";
    case SettingType::kTexts:
      break;
  }
  return "a list of texts in quotes";
}

bool Accepts(const Setting& setting, TomlValue::Type type) {
  using Type = TomlValue::Type;
  switch (setting.type) {
    case SettingType::kBoolean:
      return type == Type::kBoolean;
    case SettingType::kInteger:
      return type == Type::kInteger || (type == Type::kString && setting.unit == Unit::kOctets);
    case SettingType::kNumber:
      return type == Type::kInteger || type == Type::kFloat;
    case SettingType::kText:
    case SettingType::kTexts:
      break;
  }
  return type == Type::kString;
}

// The options of one configuration, with the parser that checks their values.
struct Parser {
  ServeOptions options;
  CLI::App command;
  Settings settings = AddServeOptions(command, options);
};

// Makes one configuration.
class Maker {
 public:
  void TakeFile(const ConfigFile& file);
  void TakeEnvironment(const Environment& environment);
  void TakeFlags(const FlagValues& flags);
  void FindContradictions();
  Result<Configuration, std::vector<Finding>> Take();

  const std::map<std::string, Source>& sources() const { return sources_; }

 private:
  void Report(const Source& source, std::string message) {
    const bool is_file = source.kind == Source::Kind::kFile;
    mistakes_.push_back({.file = is_file ? source.name : "",
                         .line = source.line,
                         .severity = Severity::kError,
                         .message = std::move(message)});
  }
  // Gives the option the values. `name` is the beginning of an error's message.
  void Set(const Setting& setting, const std::vector<std::string>& values, const std::string& name, Source source);
  void TakeEntry(const ConfigFile& file, const TomlEntry& entry);
  void ReportUnknown(const ConfigFile& file, const TomlEntry& entry);
  // Returns " (did you mean ...)" or an empty string.
  std::string Suggestion(std::string_view name) const;

  Parser parser_;
  std::map<std::string, Source> sources_;  // by the flag
  std::set<std::string> wrong_;            // flags
  std::vector<Finding> mistakes_;
  std::vector<Finding> warnings_;
};

void Maker::Set(const Setting& setting, const std::vector<std::string>& values, const std::string& name,
                Source source) {
  if (auto applied = Apply(setting, values); !applied) {
    wrong_.insert(setting.flag);
    const std::string value = values.empty() ? std::string() : values.back();
    Report(source, fmt::format("{}: {}", name, WithoutFlag(applied.error().message, setting, value)));
  }
  sources_[setting.flag] = std::move(source);
}

std::string Maker::Suggestion(std::string_view name) const {
  const Setting* best = nullptr;
  size_t least = 3;  // more letters make another word
  for (const Setting& each : parser_.settings.all()) {
    if (each.table.empty()) continue;
    const size_t distance = Distance(name, each.name);
    if (distance >= std::min(least, each.name.size() / 2)) continue;
    best = &each;
    least = distance;
  }
  if (!best) return "";
  return least == 0 ? fmt::format("; {} belongs to the table [{}]", best->name, best->table)
                    : fmt::format("; is {} in the table [{}] meant?", best->name, best->table);
}

void Maker::ReportUnknown(const ConfigFile& file, const TomlEntry& entry) {
  const Source source{.kind = Source::Kind::kFile, .name = file.name, .line = entry.line};
  const bool is_table = entry.kind == TomlEntry::Kind::kTable;
  const std::string shown = Shown(entry.path);
  if (!is_table && entry.path.size() == 1 && parser_.settings.HasTable(entry.path.front())) {
    return Report(source, fmt::format("{} is a table: write [{}] in a line of its own", shown, shown));
  }
  if (is_table) return Report(source, fmt::format("unknown table [{}]", shown));
  Report(source, fmt::format("unknown key {}{}", shown, Suggestion(entry.path.back())));
}

void Maker::TakeEntry(const ConfigFile& file, const TomlEntry& entry) {
  const bool is_table = entry.kind == TomlEntry::Kind::kTable;
  if (is_table && entry.path.size() == 1 && parser_.settings.HasTable(entry.path.front())) return;
  const Setting* setting =
      entry.path.size() == 2 ? parser_.settings.FindKey(entry.path[0] + "." + entry.path[1]) : nullptr;
  if (!setting) return ReportUnknown(file, entry);
  const Source source{.kind = Source::Kind::kFile, .name = file.name, .line = entry.line};
  const bool is_list = entry.kind == TomlEntry::Kind::kArray;
  const auto refuse = [&](size_t line) {
    wrong_.insert(setting->flag);
    Report({.kind = Source::Kind::kFile, .name = file.name, .line = line},
           fmt::format("{}: expected {}", setting->key(), Expected(*setting)));
  };
  if (is_table || (is_list && setting->type != SettingType::kTexts)) return refuse(entry.line);
  std::vector<std::string> values;
  bool is_good = true;
  for (const TomlValue& value : entry.values) {
    if (!Accepts(*setting, value.type)) {
      refuse(value.line);
      is_good = false;
      continue;
    }
    // Each element of a list is checked alone, so that the finding has the element's line.
    if (is_list) {
      if (auto applied = Apply(*setting, {value.text}); !applied) {
        wrong_.insert(setting->flag);
        Report({.kind = Source::Kind::kFile, .name = file.name, .line = value.line},
               fmt::format("{}: {}: {}", setting->key(), Shown(value.text),
                           WithoutFlag(applied.error().message, *setting, value.text)));
        is_good = false;
      }
    }
    values.push_back(value.text);
  }
  if (!is_good) return;
  Set(*setting, values,
      is_list || values.empty() ? setting->key() : fmt::format("{} = {}", setting->key(), Shown(values.front())),
      source);
}

void Maker::TakeFile(const ConfigFile& file) {
  TomlContent content = ParseToml(file);
  std::ranges::move(content.mistakes, std::back_inserter(mistakes_));
  std::vector<std::string> ignored;  // the path of an unknown table
  for (const TomlEntry& entry : content.entries) {
    const bool is_below = !ignored.empty() && entry.path.size() > ignored.size() &&
                          std::equal(ignored.begin(), ignored.end(), entry.path.begin());
    if (is_below) continue;
    const size_t before = mistakes_.size();
    TakeEntry(file, entry);
    if (entry.kind == TomlEntry::Kind::kTable && mistakes_.size() > before) ignored = entry.path;
  }
}

void Maker::TakeEnvironment(const Environment& environment) {
  std::set<std::string_view> known(std::begin(kOtherVariables), std::end(kOtherVariables));
  for (const Setting& setting : parser_.settings.all()) {
    known.insert(setting.variable);
    const auto variable = environment.find(setting.variable);
    if (variable == environment.end() || variable->second.empty()) continue;
    const bool is_list = setting.type == SettingType::kTexts;
    const std::vector<std::string> values =
        is_list ? Words(variable->second) : std::vector<std::string>{variable->second};
    Set(setting, values, fmt::format("{}={}", setting.variable, Shown(variable->second)),
        {.kind = Source::Kind::kEnvironment, .name = setting.variable});
  }
  for (const auto& [name, value] : environment) {
    if (!name.starts_with("PENSTOCK_") || known.contains(name)) continue;
    warnings_.push_back(
        {.severity = Severity::kWarning,
         .message = fmt::format("the variable {} of the environment belongs to no option", Shown(name))});
  }
}

void Maker::TakeFlags(const FlagValues& flags) {
  for (const Setting& setting : parser_.settings.all()) {
    const auto given = flags.find(setting.flag);
    if (given == flags.end()) continue;
    wrong_.erase(setting.flag);
    if (auto applied = Apply(setting, given->second); !applied) {
      wrong_.insert(setting.flag);
      Report({}, std::move(applied.error().message));
    }
    sources_[setting.flag] = {.kind = Source::Kind::kFlag};
  }
}

void Maker::FindContradictions() {
  for (Contradiction& each : ContradictionsIn(parser_.options)) {
    if (std::ranges::any_of(each.flags, [&](const std::string& flag) { return wrong_.contains(flag); })) continue;
    // The finding stands at the first of the options that the file sets.
    Source place;
    for (const std::string& flag : each.flags) {
      const auto source = sources_.find(flag);
      if (source == sources_.end() || source->second.kind != Source::Kind::kFile) continue;
      place = source->second;
      break;
    }
    Report(place, std::move(each.message));
  }
}

Result<Configuration, std::vector<Finding>> Maker::Take() {
  if (!mistakes_.empty()) {
    SortByLine(mistakes_);
    return std::unexpected(std::move(mistakes_));
  }
  Configuration made{.options = std::move(parser_.options), .sources = {}, .warnings = std::move(warnings_)};
  for (const Setting& setting : parser_.settings.all()) {
    if (setting.table.empty()) continue;
    const auto source = sources_.find(setting.flag);
    made.sources[setting.key()] = source == sources_.end() ? Source() : source->second;
  }
  return made;
}

}  // namespace

std::string ToString(const Source& source) {
  switch (source.kind) {
    case Source::Kind::kDefault:
      return "default";
    case Source::Kind::kFlag:
      return "flag";
    case Source::Kind::kEnvironment:
      return "environment " + source.name;
    case Source::Kind::kFile:
      break;
  }
  return fmt::format("{}:{}", source.name, source.line);
}

Environment EnvironmentOfProcess() {
  Environment environment;
  for (char** each = ::environ; each && *each; ++each) {  // NOLINT(concurrency-mt-unsafe): no thread changes it
    const std::string_view text = *each;
    const size_t equals = text.find('=');
    if (equals == std::string_view::npos) continue;
    environment.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return environment;
}

Result<Configuration, std::vector<Finding>> Configure(const FlagValues& flags, const Environment& environment,
                                                      const std::optional<ConfigFile>& file) {
  Maker maker;
  if (file) maker.TakeFile(*file);
  maker.TakeEnvironment(environment);
  maker.TakeFlags(flags);
  maker.FindContradictions();
  return maker.Take();
}

std::optional<std::string> NamedConfigFile(const std::optional<std::string>& flag, const Environment& environment) {
  if (flag) return flag;
  const auto variable = environment.find("PENSTOCK_CONFIG");
  return variable == environment.end() ? std::nullopt : std::optional(variable->second);
}

Result<std::optional<ConfigFile>, Finding> FindConfigFile(const CommandLine& command_line,
                                                          const Environment& environment) {
  std::optional<std::string> name = NamedConfigFile(command_line.config, environment);
  if (!name) {
    const auto has = [&](const char* flag) { return command_line.flags.contains(flag); };
    const bool has_exports = has("DIR") || has("--export") || has("--exports");
    if (has_exports || (::access(kDefaultConfigFile, F_OK) != 0 && errno == ENOENT)) return std::nullopt;
    name = kDefaultConfigFile;
  }
  if (IsNoConfigFile(*name)) return std::nullopt;
  return ReadConfigFile(*name);
}

bool CanChange(std::string_view key) {
  static constexpr std::string_view kKeys[] = {
      "limits.max-connections", "limits.max-connections-per-address",
      "limits.idle-limit",      "limits.memory",
      "security.ccm-from",      "logging.log-format",
      "logging.log-level",
  };
  return key.starts_with("exports.") || key.starts_with("tls.") || std::ranges::find(kKeys, key) != std::end(kKeys);
}

std::vector<std::string> Differences(const ServeOptions& a, const ServeOptions& b) {
  Parser first;
  first.options = a;
  Parser second;
  second.options = b;
  std::vector<std::string> differing;
  for (size_t i = 0; i < first.settings.all().size(); ++i) {
    const Setting& setting = first.settings.all()[i];
    if (setting.values() == second.settings.all()[i].values()) continue;
    differing.push_back(setting.table.empty() ? setting.flag : setting.key());
  }
  return differing;
}

std::vector<Finding> CheckConfiguration(const ConfigFile& file) {
  auto made = Configure({}, {}, file);
  if (!made) return std::move(made).error();
  std::vector<Finding> findings = std::move(made->warnings);
  // Adds an error at the line of the first of the keys that the file sets.
  const auto report = [&](std::initializer_list<std::string_view> keys, std::string message) {
    size_t line = 0;
    for (const std::string_view key : keys) {
      if (line == 0) line = made->sources[std::string(key)].line;
    }
    findings.push_back({.file = file.name, .line = line, .severity = Severity::kError, .message = std::move(message)});
  };
  if (const auto exports = ExportsOf(made->options, findings); !exports) {
    report({"exports.export", "exports.dir", "exports.tables"}, exports.error().message);
  } else {
    std::ranges::move(CheckDirectories(*exports), std::back_inserter(findings));
  }
  if (const rpc::tls::Files& tls = made->options.tls; !tls.certificate.empty()) {
    if (const auto loaded = rpc::tls::Credentials::Load(tls); !loaded) {
      report({"tls.tls-cert", "tls.tls-key", "tls.tls-ca"}, loaded.error().message);
    }
  }
  return findings;
}

}  // namespace penstock::cli
