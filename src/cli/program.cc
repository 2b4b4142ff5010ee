#include "cli/program.h"

#include <CLI/CLI.hpp>
#include <csignal>

#include "cli/logging.h"
#include "cli/parser.h"

namespace penstock::cli {

int RunProgram(int argc, const char* const* argv, const std::string& version) {
  const Parser parser = MakeParser(version);
  CLI::App& program = *parser.program;
  CLI11_PARSE(program, argc, argv);
  if (program.get_subcommands().empty()) return program.exit(CLI::RequiredError("A command"));
  SetUpLogging({.levels = {{.module = {}, .least = LevelFor(*parser.verbosity)}}});
  // A connection or pipe that the peer has closed must be an error, not the program's end.
  std::signal(SIGPIPE, SIG_IGN);
  // So must a write beyond RLIMIT_FSIZE (EFBIG).
  std::signal(SIGXFSZ, SIG_IGN);

  for (const Command& command : parser.commands) {
    if (command.parser->parsed()) return command.run();
  }
  return 1;  // unreachable: the parser requires a command
}

}  // namespace penstock::cli
