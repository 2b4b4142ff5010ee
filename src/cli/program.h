// The program `penstock` as a function, so that tests can run it in their own process.
#pragma once

#include <string>

namespace penstock::cli {

// `version` is the line that --version prints.
// Parses the command line, runs the command that it names, and returns the exit code of the process: 0; or 1 after one
// line on stderr, also if standard output takes not all of the output; or 2 after one line on stderr if the command
// line makes no sense. Sends log messages to stderr and ignores SIGPIPE and SIGXFSZ from then on.
int RunProgram(int argc, const char* const* argv, const std::string& version);

}  // namespace penstock::cli
