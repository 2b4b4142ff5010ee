#include "cli/shell_words.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <utility>

#include "cli/url_path.h"

namespace penstock::cli {
namespace {

// The arguments that are paths on the server, in the words of the help.
constexpr std::array<std::string_view, 6> kPathArguments{"URL", "FILE", "FILE1", "FILE2", "FROM", "TO"};
// Commands that work on the directory of the shell if they have no path.
constexpr std::array<std::string_view, 6> kDirectoryCommands{"ls", "du", "df", "find", "tree", "stat"};

template <class Words>
bool Contains(const Words& words, std::string_view word) {
  return std::ranges::find(words, word) != words.end();
}

const OptionFacts* FindOption(const CommandFacts& command, std::string_view name) {
  for (const OptionFacts& option : command.options) {
    if (!option.positional && Contains(option.names, name)) return &option;
  }
  return nullptr;
}

// Whether the value of an option is the next word.
bool TakesNext(const CommandFacts& command, std::string_view word) {
  if (word.contains('=')) return false;
  if (word.starts_with("--")) {
    const OptionFacts* const option = FindOption(command, word);
    return option && !option->value.empty();
  }
  // Of letters together, the first one with a value takes the rest of the word.
  for (size_t i = 1; i < word.size(); ++i) {
    const OptionFacts* const option = FindOption(command, fmt::format("-{}", word[i]));
    if (option && !option->value.empty()) return i + 1 == word.size();
  }
  return false;
}

bool IsSymbolic(std::string_view word) {
  return word == "--symbolic" || (word.starts_with('-') && !word.starts_with("--") && word.contains('s'));
}

}  // namespace

Result<std::vector<std::string>, std::string> SplitWords(std::string_view line) {
  std::vector<std::string> words;
  std::optional<std::string> word;
  char quote = 0;
  for (size_t i = 0; i < line.size(); ++i) {
    const char character = line[i];
    if (quote == 0 && (character == ' ' || character == '\t' || character == '\r')) {
      if (word) words.push_back(*std::exchange(word, std::nullopt));
      continue;
    }
    if (quote == 0 && !word && character == '#') break;
    if (!word) word.emplace();
    if (quote == 0 && (character == '"' || character == '\'')) {
      quote = character;
    } else if (quote != 0 && character == quote) {
      quote = 0;
    } else if (character == '\\' && quote != '\'' && i + 1 < line.size()) {
      *word += line[++i];
    } else {
      *word += character;
    }
  }
  if (quote != 0) return std::unexpected(fmt::format("the quote {} does not end", quote));
  if (word) words.push_back(*std::move(word));
  return words;
}

ShellPlace::ShellPlace(std::string_view url, std::string path) : path_(AbsolutePath("/", path)) {
  const size_t query = std::min(url.find('?'), url.size());
  options_ = url.substr(query);
  const size_t host = std::string_view("nfs://").size();
  server_ = url.substr(0, std::min(url.find('/', host), query));
}

std::string ShellPlace::Absolute(std::string_view path) const { return AbsolutePath(path_, path); }

std::string ShellPlace::UrlOf(std::string_view path) const {
  if (path.starts_with("nfs://")) return std::string(path);
  return server_ + EncodePath(Absolute(path)) + options_;
}

std::optional<std::vector<std::string>> ProgramWords(const std::vector<std::string>& words, const ShellPlace& place,
                                                     const std::vector<CommandFacts>& commands) {
  const auto command = std::ranges::find(commands, words.front(), &CommandFacts::name);
  if (command == commands.end()) return std::nullopt;
  std::vector<const OptionFacts*> arguments;
  for (const OptionFacts& option : command->options) {
    if (option.positional) arguments.push_back(&option);
  }
  const bool works_on_files = std::ranges::any_of(
      arguments, [](const OptionFacts* argument) { return Contains(kPathArguments, argument->names.front()); });
  if (!works_on_files) return std::nullopt;
  const bool is_symbolic = command->name == "ln" && std::ranges::any_of(words, IsSymbolic);
  std::vector<std::string> made{words.front()};
  size_t next = 0;   // of the arguments
  size_t given = 0;  // arguments so far
  bool only_arguments = false;
  for (size_t i = 1; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (!only_arguments && word.size() > 1 && word.starts_with('-')) {
      only_arguments = word == "--";
      made.push_back(word);
      if (!only_arguments && TakesNext(*command, word) && i + 1 < words.size()) made.push_back(words[++i]);
      continue;
    }
    const OptionFacts* const argument = next < arguments.size() ? arguments[next] : nullptr;
    if (argument && !argument->repeats) ++next;
    const bool is_path = !argument || Contains(kPathArguments, argument->names.front());
    const bool is_text = is_symbolic && given == 0;
    ++given;
    made.push_back(is_path && !is_text ? place.UrlOf(word) : word);
  }
  if (given == 0 && Contains(kDirectoryCommands, command->name)) made.push_back(place.UrlOf("."));
  return made;
}

}  // namespace penstock::cli
