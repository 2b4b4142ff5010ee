#include "cli/toml_file.h"

#include <fmt/core.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <utility>

#include "base/file_io.h"
#include "base/utf8.h"

// toml++ 3.3 asserts, or with NDEBUG assumes, that a header such as "[[[" does not occur, and then reports it anyway.
#pragma push_macro("NDEBUG")
#undef NDEBUG
#define TOML_ASSERT(expression) static_assert(true)
#include <toml++/toml.h>
#pragma pop_macro("NDEBUG")

namespace penstock::cli {
namespace {

constexpr size_t kMostMebibytes = 1;
constexpr size_t kMostMistakes = 100;
constexpr size_t kMostDots = 100;  // in a statement, outside of strings

// The octets [begin, end) of a file, which may have several lines.
struct Statement {
  size_t begin = 0;
  size_t end = 0;
  // What the parser must not see: an octet beyond ASCII elsewhere than in a comment or in a string of one line, or
  // tables in tables in tables. Empty if there is nothing.
  std::string_view trouble{};
};

// Divides a text into statements: tables' headers, keys with their values, comments, empty lines. A statement ends with
// its line, unless a bracket or a string of several lines is open.
class Statements {
 public:
  explicit Statements(std::string_view text) : text_(text) {
    while (at_ < text_.size()) {
      const size_t begin = at_;
      is_strange_ = false;
      dots_ = 0;
      Skip();
      all_.push_back({begin, at_, Trouble()});
    }
  }

  const std::vector<Statement>& all() const { return all_; }

 private:
  bool Take(std::string_view token) {
    if (!text_.substr(at_).starts_with(token)) return false;
    at_ += token.size();
    return true;
  }

  // Moves behind the newline that ends the statement.
  void Skip() {
    size_t depth = 0;
    bool has_value = false;  // the brackets of a table's header are no array
    while (at_ < text_.size()) {
      if (Take("\n")) {
        if (depth == 0) return;
      } else if (Take("#")) {
        at_ = std::min(text_.find('\n', at_), text_.size());
      } else if (Take("\"\"\"")) {
        SkipString("\"\"\"", true);
      } else if (Take("'''")) {
        SkipString("'''", false);
      } else if (Take("\"")) {
        SkipLineString('"');
      } else if (Take("'")) {
        SkipLineString('\'');
      } else if (Take("=")) {
        has_value = true;
      } else if (Take("[")) {
        if (has_value) ++depth;
      } else if (Take("]")) {
        if (depth > 0) --depth;
      } else {
        NoteOctet();
        ++at_;
      }
    }
  }

  void NoteOctet() {
    is_strange_ |= static_cast<unsigned char>(text_[at_]) >= 0x80;
    dots_ += text_[at_] == '.';
  }

  std::string_view Trouble() const {
    if (is_strange_) return "a character beyond ASCII, which only comments and strings of one line have";
    if (dots_ > kMostDots) return "too many tables in tables";
    return {};
  }

  // A string of several lines ends with `quotes`, or with the text.
  void SkipString(std::string_view quotes, bool has_escapes) {
    while (at_ < text_.size() && !Take(quotes)) {
      NoteOctet();
      at_ += has_escapes && text_[at_] == '\\' ? 2 : 1;
    }
    at_ = std::min(at_, text_.size());
  }

  // A string of one line ends before the newline at the latest.
  void SkipLineString(char quote) {
    while (at_ < text_.size() && text_[at_] != '\n') {
      const char octet = text_[at_++];
      if (octet == quote) return;
      if (octet == '\\' && quote == '"' && at_ < text_.size() && text_[at_] != '\n') ++at_;
    }
  }

  std::string_view text_;
  size_t at_ = 0;
  // Of the statement so far.
  bool is_strange_ = false;
  size_t dots_ = 0;
  std::vector<Statement> all_;
};

TomlValue ValueOf(const toml::node& node) {
  TomlValue value;
  value.line = node.source().begin.line;
  if (const auto* boolean = node.as_boolean()) {
    value.type = TomlValue::Type::kBoolean;
    value.text = boolean->get() ? "true" : "false";
  } else if (const auto* integer = node.as_integer()) {
    value.type = TomlValue::Type::kInteger;
    value.text = fmt::format("{}", integer->get());
  } else if (const auto* floating = node.as_floating_point()) {
    value.type = TomlValue::Type::kFloat;
    value.text = fmt::format("{}", floating->get());
  } else if (const auto* string = node.as_string()) {
    value.type = TomlValue::Type::kString;
    value.text = string->get();
  }
  return value;
}

// A table's header with a mistake becomes the header of a table that does not count, so that the keys below it do not
// seem to belong to the table above.
constexpr std::string_view kIgnored = "[\"\\u0001";
constexpr char kIgnoredName = '\x01';

// The nesting of tables is limited by the parser.
void AddEntries(const toml::table& table, const std::vector<std::string>& above, std::vector<TomlEntry>& entries) {
  for (const auto& [key, node] : table) {
    if (key.str().starts_with(kIgnoredName)) continue;
    TomlEntry entry{.path = above, .line = key.source().begin.line};
    entry.path.emplace_back(key.str());
    if (const auto* below = node.as_table()) {
      entry.kind = TomlEntry::Kind::kTable;
      const std::vector<std::string> path = entry.path;
      entries.push_back(std::move(entry));
      AddEntries(*below, path, entries);
      continue;
    }
    if (const auto* array = node.as_array()) {
      entry.kind = TomlEntry::Kind::kArray;
      for (const toml::node& element : *array) entry.values.push_back(ValueOf(element));
    } else {
      entry.values.push_back(ValueOf(node));
    }
    entries.push_back(std::move(entry));
  }
}

// The offset of the line, which counts from 1.
size_t OffsetOfLine(std::string_view text, size_t line) {
  size_t offset = 0;
  for (; line > 1; --line) {
    const size_t newline = text.find('\n', offset);
    if (newline == std::string_view::npos) return text.size();
    offset = newline + 1;
  }
  return offset;
}

// Replaces the statement that has the line by empty lines, or by the header of an ignored table. Returns the number of
// its first line, or nothing if there is nothing to replace.
std::optional<size_t> Blank(std::string& text, size_t line) {
  const size_t offset = OffsetOfLine(text, line);
  const Statements statements(text);
  // A mistake at the end of the text belongs to the last statement.
  auto at = std::ranges::find_if(statements.all(), [&](const Statement& each) { return offset < each.end; });
  const auto is_empty = [&](const Statement& each) {
    const std::string_view statement = std::string_view(text).substr(each.begin, each.end - each.begin);
    return statement.find_first_not_of("\r\n") == std::string_view::npos || statement.starts_with(kIgnored);
  };
  if (at == statements.all().end() || is_empty(*at)) {
    const auto last = std::find_if_not(std::make_reverse_iterator(at), statements.all().rend(), is_empty);
    if (last == statements.all().rend()) return std::nullopt;
    at = std::prev(last.base());
  }
  const size_t first =
      1 + static_cast<size_t>(std::count(text.begin(), text.begin() + static_cast<ptrdiff_t>(at->begin), '\n'));
  const std::string_view statement = std::string_view(text).substr(at->begin, at->end - at->begin);
  std::string instead(static_cast<size_t>(std::ranges::count(statement, '\n')), '\n');
  const size_t begin = statement.find_first_not_of(" \t");
  if (begin != std::string_view::npos && statement[begin] == '[') {
    instead.insert(0, fmt::format("{}{}\"]", kIgnored, first));
  }
  text.replace(at->begin, at->end - at->begin, instead);
  return first;
}

bool IsControl(unsigned octet) { return octet < 0x20 || octet == 0x7f; }

}  // namespace

Result<ConfigFile, Finding> ReadConfigFile(const std::string& name) {
  auto text = ReadRegularFile(name, kMostMebibytes);
  if (text) return ConfigFile{name, *std::move(text)};
  return std::unexpected(Finding{.file = name, .message = "cannot read: " + text.error()});
}

TomlContent ParseToml(const ConfigFile& file) {
  TomlContent content;
  std::string text = file.text;
  if (constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf"; text.starts_with(kByteOrderMark)) {
    text.erase(0, kByteOrderMark.size());
  }
  // The behaviour of toml++ 3.3 is undefined for some characters outside of strings and comments, and its stack may not
  // be enough for tables in tables.
  while (content.mistakes.size() < kMostMistakes) {
    const Statements statements(text);
    const auto wrong =
        std::ranges::find_if(statements.all(), [](const Statement& each) { return !each.trouble.empty(); });
    if (wrong == statements.all().end()) break;
    const std::string message(wrong->trouble);
    const auto end = text.begin() + static_cast<ptrdiff_t>(wrong->begin);
    const size_t line = 1 + static_cast<size_t>(std::count(text.begin(), end, '\n'));
    Blank(text, line);
    content.mistakes.push_back({.file = file.name, .line = line, .severity = Severity::kError, .message = message});
  }
  if (content.mistakes.size() == kMostMistakes) return content;
  while (content.mistakes.size() < kMostMistakes) {
    try {
      AddEntries(toml::parse(std::string_view(text)), {}, content.entries);
      break;
    } catch (const toml::parse_error& error) {
      const size_t line = error.source().begin.line;
      // The parser finds an open string or bracket at its end, and the operator looks for it at its beginning.
      const std::optional<size_t> first = Blank(text, line);
      std::string message(error.description());
      std::ranges::replace_if(message, [](unsigned char octet) { return IsControl(octet); }, ' ');
      if (first && *first < line) message += fmt::format(" (found in line {})", line);
      content.mistakes.push_back(
          {.file = file.name, .line = first.value_or(line), .severity = Severity::kError, .message = message});
      if (!first) break;
    }
  }
  SortByLine(content.mistakes);
  return content;
}

std::string TomlString(std::string_view text) {
  std::string quoted = "\"";
  while (!text.empty()) {
    const size_t length = LengthOfUtf8(text);
    const unsigned char first = text.front();
    if (length == 0) {
      quoted += "\xef\xbf\xbd";
    } else if (IsControl(first)) {
      quoted += fmt::format("\\u{:04x}", first);
    } else {
      if (first == '"' || first == '\\') quoted += '\\';
      quoted += text.substr(0, length);
    }
    text.remove_prefix(std::max<size_t>(length, 1));
  }
  return quoted + '"';
}

}  // namespace penstock::cli
