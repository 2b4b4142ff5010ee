// What `penstock serve` prints when it is ready: its addresses, and the commands with which clients use its exports.
#pragma once

#include "server/options.h"
#include "server/server.h"

namespace penstock::cli {

// Prints to stdout, with "ready" as the last line. The server has started.
void PrintHowToMount(const server::Server& server, const server::Options& options);

}  // namespace penstock::cli
