#include "cli/settings.h"

#include <algorithm>
#include <cctype>

namespace penstock::cli {
namespace {

// The key of a flag: "--max-connections" has "max-connections", "DIR" has "dir".
std::string NameOf(std::string_view flag) {
  std::string name(flag.substr(std::min(flag.find_first_not_of('-'), flag.size())));
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return name;
}

std::string VariableOf(std::string_view name) {
  std::string variable = "PENSTOCK_";
  for (const unsigned char c : name) variable += c == '-' ? '_' : static_cast<char>(std::toupper(c));
  return variable;
}

}  // namespace

const Setting* Settings::FindKey(std::string_view key) const {
  const auto found = std::ranges::find_if(all_, [&](const Setting& each) { return each.key() == key; });
  return found == all_.end() || found->table.empty() ? nullptr : &*found;
}

bool Settings::HasTable(std::string_view table) const {
  return !table.empty() && std::ranges::any_of(all_, [&](const Setting& each) { return each.table == table; });
}

Setting& Settings::Add(CLI::Option* option, Place place) {
  const std::string flag = option->get_lnames().empty() ? option->get_name(true) : "--" + option->get_lnames().front();
  const std::string name = NameOf(flag);
  std::string variable = !place.variable.empty() ? std::string(place.variable)
                         : !place.table.empty()  ? VariableOf(name)
                                                 : std::string();
  return all_.emplace_back(Setting{.option = option,
                                   .flag = flag,
                                   .table = std::string(place.table),
                                   .name = place.key.empty() ? name : std::string(place.key),
                                   .variable = std::move(variable),
                                   .unit = place.unit,
                                   .type = SettingType::kText,
                                   .example = std::string(place.example),
                                   .check = std::move(place.check),
                                   .values = {},
                                   .clear = {}});
}

FlagValues FlagValuesOf(const Settings& settings) {
  FlagValues values;
  for (const Setting& setting : settings.all()) {
    if (setting.option->count() > 0) values[setting.flag] = setting.option->results();
  }
  return values;
}

SetupResult<void> Apply(const Setting& setting, const std::vector<std::string>& values) {
  const std::string value = values.empty() ? std::string() : values.back();
  setting.option->clear();
  if (values.empty()) {
    if (setting.clear) setting.clear();
    return {};
  }
  const auto wrong = [&](std::string_view expected) {
    return std::unexpected(SetupError{fmt::format("{} {}: not {}", setting.flag, value, expected)});
  };
  try {
    setting.option->add_result(values);
    setting.option->run_callback();
  } catch (const CLI::ConversionError&) {
    return wrong(setting.type == SettingType::kBoolean   ? "true or false"
                 : setting.type == SettingType::kInteger ? "a whole number in the range of the option"
                                                         : "a number");
  } catch (const CLI::Error& error) {
    return std::unexpected(SetupError{error.what()});
  }
  if (!setting.check) return {};
  for (const std::string& each : values) PENSTOCK_CHECK(setting.check(each));
  return {};
}

}  // namespace penstock::cli
