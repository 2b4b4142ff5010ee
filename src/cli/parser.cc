#include "cli/parser.h"

#include <CLI/CLI.hpp>

#include "cli/interface.h"

namespace penstock::cli {

Parser MakeParser(const std::string& version) {
  Parser parser{std::make_unique<CLI::App>("NFS over RDMA in user space: server and client", "penstock"),
                {},
                std::make_unique<unsigned>(0)};
  CLI::App& program = *parser.program;
  // The parser names unknown words only if it does not require a command itself.
  program.require_subcommand(0, 1);
  program.set_version_flag("--version", version, "Print the version and end");
  program.add_flag("-v,--verbose", *parser.verbosity,
                   "Print more messages on stderr; give it twice for debug messages");
  program.fallthrough();
  parser.commands = {
      // clang-format off: one on a line
      AddServe(program, version),
      AddCheckConfig(program),
      AddControl(program),
      AddPing(program),
      AddList(program),
      AddCat(program),
      AddCopy(program),
      AddSync(program),
      AddMount(program),
      AddMakeDirectory(program),
      AddRemove(program),
      AddRemoveDirectory(program),
      AddMove(program),
      AddLink(program),
      AddChangeMode(program),
      AddChangeOwner(program),
      AddTouch(program),
      AddTruncate(program),
      AddStat(program),
      AddSpace(program),
      AddUsage(program),
      AddFind(program),
      AddTree(program),
      AddHead(program),
      AddTail(program),
      AddCompare(program),
      AddDigest(program),
      AddGetAcl(program),
      AddSetAcl(program),
      AddGetXattr(program),
      AddSetXattr(program),
      AddShell(program),
      AddBench(program),
      AddShowMount(program),
      AddProbe(program),
      AddDoctor(program),
      AddDevices(program),
      AddCompletion(program),
      // clang-format on
  };
  // Commands inherit what the program's help says at their end, so this comes after them.
  SetFooter(program, "`penstock COMMAND --help` explains a command; so does `man penstock-COMMAND`.",
            {"# Serve a directory to programs on this host", "penstock serve ./export",
             "# List it, over software iWARP", "penstock ls 'nfs://127.0.0.1/?proto=rdma'"});
  return parser;
}

}  // namespace penstock::cli
