// The parser of the whole command line.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cli/commands.h"

namespace penstock::cli {

// The program's parser and its commands, which point into it.
struct Parser {
  std::unique_ptr<CLI::App> program;
  std::vector<Command> commands;
  std::unique_ptr<unsigned> verbosity;  // the number of -v, after the parsing
};

// `version` is the line that --version prints.
Parser MakeParser(const std::string& version);

}  // namespace penstock::cli
