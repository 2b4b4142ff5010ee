#include "cli/program.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <regex>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "base/nearest.h"
#include "cli/client_runtime.h"
#include "cli/logging.h"
#include "cli/mount_helper.h"
#include "cli/output.h"
#include "cli/parser.h"
#include "cli/printable.h"

namespace penstock::cli {
namespace {

// The command that the command line names, or else the program.
const CLI::App& CommandOf(const CLI::App& program) {
  const std::vector<CLI::App*> commands = program.get_subcommands();
  return commands.empty() ? program : *commands.back();
}

std::string Suggestion(std::string_view text, const std::vector<std::string>& names) {
  const std::vector<std::string_view> words(names.begin(), names.end());
  const std::string_view nearest = Nearest(text, words);
  return nearest.empty() ? "" : fmt::format(" (is {} meant?)", nearest);
}

// Names a word that the parser could not use.
std::string UnknownWord(const CLI::App& program, const CLI::App& command, const std::string& word) {
  std::vector<std::string> names;
  if (word.starts_with('-')) {
    const std::string option = word.substr(0, word.find('='));
    for (const CLI::App* const each : {&command, &program}) {
      for (const CLI::Option* const known : each->get_options()) {
        for (const std::string& name : known->get_lnames()) names.push_back("--" + name);
      }
    }
    return fmt::format("unknown option {}{}", option, Suggestion(option, names));
  }
  if (&command != &program) return fmt::format("unexpected argument '{}'", word);
  for (const CLI::App* const each : program.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(each->get_name());
  }
  return fmt::format("unknown command '{}'{}", word, Suggestion(word, names));
}

// Says a mistake of the parser's in the words of this program.
std::string Plain(std::string text) {
  static const std::regex kOutside("(.*): Value (.*) not in range (.*) to (.*)");
  static const std::regex kLacking("(.*): 1 required .* missing");
  static const std::regex kNoNumber("Could not convert: (.*) = (.*)");
  text = std::regex_replace(text, kOutside, "$1: $2 is not a number from $3 to $4");
  text = std::regex_replace(text, kLacking, "$1: a value is missing");
  return std::regex_replace(text, kNoNumber, "$1: $2 is not a number");
}

// Prints the mistake as one line on stderr. Returns the exit code of wrong usage.
int ReportMistake(const CLI::App& program, const CLI::ParseError& error) {
  const CLI::App& command = CommandOf(program);
  const std::string name =
      &command == &program ? program.get_name() : fmt::format("{} {}", program.get_name(), command.get_name());
  std::vector<std::string> unused = command.remaining();
  if (unused.empty()) unused = program.remaining();
  const bool lacks = dynamic_cast<const CLI::RequiredError*>(&error) != nullptr;
  const bool is_unknown = dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr || lacks;
  const std::string what =
      is_unknown && !unused.empty() ? UnknownWord(program, command, unused.front()) : Plain(error.what());
  std::fputs(fmt::format("{}: {}; see {} --help\n", name, Printable(what), name).c_str(), stderr);
  return 2;
}

int RunCommand(const Parser& parser) {
  for (const Command& command : parser.commands) {
    if (command.parser->parsed()) return command.run();
  }
  return ReportMistake(*parser.program, CLI::RequiredError("A command"));
}

}  // namespace

int RunProgram(int argc, const char* const* argv, const std::string& version) {
  // A connection or pipe that the peer has closed must be an error, not the program's end.
  std::signal(SIGPIPE, SIG_IGN);
  // So must a write beyond RLIMIT_FSIZE (EFBIG).
  std::signal(SIGXFSZ, SIG_IGN);
  const Parser parser = MakeParser(version);
  std::vector<std::string> words(argv, argv + argc);
  if (argc > 0 && IsMountHelper(words.front())) words = WithoutMountHelper(words);
  std::vector<const char*> pointers;
  for (const std::string& word : words) pointers.push_back(word.c_str());
  try {
    parser.program->parse(static_cast<int>(pointers.size()), pointers.data());
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() != 0) return ReportMistake(*parser.program, error);
    std::ostringstream text;  // of the help or the version
    parser.program->exit(error, text, text);
    return PrintOutput(text.str());
  }
  SetUpLogging({.levels = {{.module = {}, .least = LevelFor(*parser.verbosity)}}});
  const int code = RunCommand(parser);
  const client::Result<void> flushed = FlushOutput();
  return code == 0 && !flushed ? PrintError(flushed.error().message) : code;
}

}  // namespace penstock::cli
