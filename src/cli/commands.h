// The commands of the program. Each command's file registers its subcommand with options and help text, and keeps the
// options; MakeParser() only lists the commands.
#pragma once

#include <functional>
#include <string>

namespace CLI {
class App;
}

namespace penstock::cli {

// A subcommand that has been registered.
struct Command {
  CLI::App* parser;  // owned by the program's parser
  // Runs the command with the options that were parsed. Returns the exit code: 0, or after one line on stderr 1, or 2
  // for wrong usage.
  std::function<int()> run;
};

// Each of these adds its subcommand to the program's parser.
// `version` is what serve tells operators of itself.
Command AddServe(CLI::App& program, const std::string& version);
Command AddCheckConfig(CLI::App& program);
Command AddControl(CLI::App& program);
Command AddPing(CLI::App& program);
Command AddList(CLI::App& program);
Command AddCat(CLI::App& program);
Command AddCopy(CLI::App& program);
Command AddSync(CLI::App& program);
Command AddMount(CLI::App& program);
Command AddMakeDirectory(CLI::App& program);
Command AddRemove(CLI::App& program);
Command AddRemoveDirectory(CLI::App& program);
Command AddMove(CLI::App& program);
Command AddLink(CLI::App& program);
Command AddChangeMode(CLI::App& program);
Command AddChangeOwner(CLI::App& program);
Command AddTouch(CLI::App& program);
Command AddTruncate(CLI::App& program);
Command AddStat(CLI::App& program);
Command AddSpace(CLI::App& program);
Command AddUsage(CLI::App& program);
Command AddFind(CLI::App& program);
Command AddTree(CLI::App& program);
Command AddHead(CLI::App& program);
Command AddTail(CLI::App& program);
Command AddCompare(CLI::App& program);
Command AddDigest(CLI::App& program);
Command AddGetAcl(CLI::App& program);
Command AddSetAcl(CLI::App& program);
Command AddGetXattr(CLI::App& program);
Command AddSetXattr(CLI::App& program);
Command AddShell(CLI::App& program);
Command AddBench(CLI::App& program);
Command AddShowMount(CLI::App& program);
Command AddProbe(CLI::App& program);
Command AddDoctor(CLI::App& program);
Command AddDevices(CLI::App& program);
Command AddCompletion(CLI::App& program);

}  // namespace penstock::cli
