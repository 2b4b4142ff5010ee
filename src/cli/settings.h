// The options of a command that the environment and a configuration file can set as well. Each option is registered
// once, here: its flag, its help and its checks belong to the parser of the command line (CLI11), and its place in the
// file and its variable follow from the flag's name.
#pragma once

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/result.h"

namespace penstock::cli {

enum class Unit : unsigned char {
  kNone,
  kSeconds,
  kOctets,  // a number, or a text such as 512MiB
};

enum class SettingType : unsigned char { kBoolean, kInteger, kNumber, kText, kTexts };

// What the registration of an option says besides its flag.
struct Place {
  std::string_view table;  // empty: an option for tests, which only the command line can set
  Unit unit = Unit::kNone;
  // For an option without a default value: a value that a sample of the file can show.
  std::string_view example = {};
  // The key in the table, if it is not the flag's name.
  std::string_view key = {};
  // The variable, if it does not follow from the flag's name: where the commands of the client have that variable.
  std::string_view variable = {};
  // Checks one value of a text, in addition to the checks of the parser. The error may begin with the flag.
  std::function<SetupResult<void>(const std::string&)> check = {};
};

// A registered option. The functions use the variable that the option fills.
struct Setting {
  CLI::Option* option;
  std::string flag;      // "--max-connections"; "DIR" for the argument
  std::string table;     // "limits"
  std::string name;      // the key in the table: "max-connections"
  std::string variable;  // "PENSTOCK_MAX_CONNECTIONS"
  Unit unit;
  SettingType type;
  std::string example;
  std::function<SetupResult<void>(const std::string&)> check;  // may be empty
  std::function<std::vector<std::string>()> values;            // none: the option has no value
  std::function<void()> clear;                                 // of lists: removes all values

  // "limits.max-connections"
  std::string key() const { return table + "." + name; }
  std::string_view help() const { return option->get_description(); }
};

namespace internal {

template <class T>
struct SettingTraits {
  static constexpr SettingType kType = std::is_same_v<T, bool>       ? SettingType::kBoolean
                                       : std::is_integral_v<T>       ? SettingType::kInteger
                                       : std::is_floating_point_v<T> ? SettingType::kNumber
                                                                     : SettingType::kText;
  static std::vector<std::string> ValuesOf(const T& variable) {
    if constexpr (std::is_same_v<T, std::string>) {
      if (variable.empty()) return {};
    }
    return {fmt::format("{}", variable)};
  }
};

template <class T>
struct SettingTraits<std::optional<T>> {
  static constexpr SettingType kType = SettingTraits<T>::kType;
  static std::vector<std::string> ValuesOf(const std::optional<T>& variable) {
    if (!variable) return {};
    return {fmt::format("{}", *variable)};
  }
};

template <>
struct SettingTraits<std::vector<std::string>> {
  static constexpr SettingType kType = SettingType::kTexts;
  static std::vector<std::string> ValuesOf(const std::vector<std::string>& variable) { return variable; }
};

}  // namespace internal

class Settings {
 public:
  // `command` must outlive this.
  explicit Settings(CLI::App& command) : command_(command) {}

  // Adds an option whose value `variable` gets, which must outlive the command. `names` is "--flag" or "ARGUMENT".
  template <class T>
  CLI::Option* AddOption(const std::string& names, T& variable, std::string help, Place place) {
    return Register(command_.add_option(names, variable, std::move(help)), variable, std::move(place));
  }
  CLI::Option* AddFlag(const std::string& names, bool& variable, std::string help, Place place) {
    return Register(command_.add_flag(names, variable, std::move(help)), variable, std::move(place));
  }
  // The same for an option that the command has already.
  template <class T>
  CLI::Option* Register(CLI::Option* option, T& variable, Place place) {
    Setting& setting = Add(option, std::move(place));
    using Traits = internal::SettingTraits<T>;
    setting.type = Traits::kType;
    setting.values = [&variable] { return Traits::ValuesOf(variable); };
    if constexpr (Traits::kType == SettingType::kTexts) setting.clear = [&variable] { variable.clear(); };
    return option;
  }

  // In the order of their registration.
  const std::vector<Setting>& all() const { return all_; }
  // Returns null if there is none. `key` is "limits.memory".
  const Setting* FindKey(std::string_view key) const;
  bool HasTable(std::string_view table) const;

 private:
  Setting& Add(CLI::Option* option, Place place);

  CLI::App& command_;
  std::vector<Setting> all_;
};

// The values of the options that the command line sets, by the flags' names.
using FlagValues = std::map<std::string, std::vector<std::string>>;
// Call this when the command line was parsed.
FlagValues FlagValuesOf(const Settings& settings);

// Gives the option these values, instead of those that it has, as the parser of the command line does. The error may
// begin with the flag, or the flag and the value, and a colon.
SetupResult<void> Apply(const Setting& setting, const std::vector<std::string>& values);

}  // namespace penstock::cli
