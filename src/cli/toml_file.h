// Reads a TOML file into a flat list of its entries, with the line of each. Unlike a plain TOML parser, it goes on
// after a mistake, so that one run finds all mistakes.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/finding.h"
#include "base/result.h"

namespace penstock::cli {

// The name and the content of a configuration file.
struct ConfigFile {
  std::string name;
  std::string text;
};

// Reads a regular file of at most 1 MiB. The finding says why that fails.
Result<ConfigFile, Finding> ReadConfigFile(const std::string& name);

// A value that is not a list.
struct TomlValue {
  enum class Type : unsigned char { kBoolean, kInteger, kFloat, kString, kOther };
  Type type = Type::kOther;
  std::string text;  // as an option on the command line has it: true, 17, 0.5, the octets of the string
  size_t line = 0;
};

// A table, or a key with its value.
struct TomlEntry {
  enum class Kind : unsigned char { kTable, kValue, kArray };
  std::vector<std::string> path{};  // the names of the tables, and then the key
  size_t line = 0;
  Kind kind = Kind::kValue;
  std::vector<TomlValue> values{};  // of kValue: one; of kArray: its elements
};

struct TomlContent {
  std::vector<TomlEntry> entries;  // a table comes before its entries
  std::vector<Finding> mistakes;   // in the order of their lines
};

// Parses the file. A statement with a mistake has no entries; at most a hundred mistakes are looked for.
TomlContent ParseToml(const ConfigFile& file);

// Returns the text as a basic string of TOML, in quotes. Octets that are not UTF-8 become U+FFFD.
std::string TomlString(std::string_view text);

}  // namespace penstock::cli
