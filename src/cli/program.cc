#include "cli/program.h"

#include <CLI/CLI.hpp>
#include <csignal>

#include "cli/commands.h"
#include "cli/logging.h"

namespace penstock::cli {

int RunProgram(int argc, const char* const* argv, const std::string& version) {
  CLI::App program("NFS over RDMA in user space: server and client");
  // The parser names unknown words only if it does not require a command itself.
  program.require_subcommand(0, 1);
  program.set_version_flag("--version", version);
  unsigned verbosity = 0;
  program.add_flag("-v,--verbose", verbosity, "Print more messages on stderr; give it twice for debug messages");
  program.fallthrough();

  const Command commands[] = {
      AddServe(program),   AddPing(program),          AddList(program),       AddCat(program),
      AddCopy(program),    AddMakeDirectory(program), AddRemove(program),     AddRemoveDirectory(program),
      AddMove(program),    AddLink(program),          AddChangeMode(program), AddBench(program),
      AddDevices(program),
  };
  CLI11_PARSE(program, argc, argv);
  if (program.get_subcommands().empty()) return program.exit(CLI::RequiredError("A command"));
  SetUpLogging(verbosity);
  // A connection or pipe that the peer has closed must be an error, not the program's end.
  std::signal(SIGPIPE, SIG_IGN);
  // So must a write beyond RLIMIT_FSIZE (EFBIG).
  std::signal(SIGXFSZ, SIG_IGN);

  for (const Command& command : commands) {
    if (command.parser->parsed()) return command.run();
  }
  return 1;  // unreachable: the parser requires a command
}

}  // namespace penstock::cli
