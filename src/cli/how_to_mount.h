// What `penstock serve` prints when it is ready: its addresses, and the commands with which clients use its exports.
#pragma once

#include <string>

#include "server/options.h"
#include "server/server.h"

namespace penstock::cli {

// Prints to stdout, with "ready" as the last line. The server has started.
void PrintHowToMount(const server::Server& server, const server::Options& options);

// Returns how a shell finds this program: its name if PATH leads to it, or else its path, which is relative to the
// working directory if there is one.
std::string ThisProgram();

}  // namespace penstock::cli
