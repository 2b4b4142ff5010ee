// Scripts that complete command lines of the program, for three shells. They complete commands, options, values of
// fixed sets, files and folders.
#pragma once

#include <string>
#include <vector>

#include "cli/interface.h"

namespace penstock::cli {

// The facts are those of FactsOf(): the program first.
std::string BashCompletion(const std::vector<CommandFacts>& commands);
std::string ZshCompletion(const std::vector<CommandFacts>& commands);
std::string FishCompletion(const std::vector<CommandFacts>& commands);

}  // namespace penstock::cli
