// What a scrape reads: the counters of the loops, and the statistics that the server's parts have anyway.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/loop.h"
#include "base/workers.h"
#include "fs/open_files.h"
#include "metrics/counts.h"
#include "metrics/family.h"
#include "nfs/exports.h"
#include "rpc/connection_table.h"
#include "rpc/gss/acceptor.h"
#include "rpc/memory_budget.h"
#include "rpc/reply_cache.h"
#include "server/nfs4.h"

namespace penstock::server {

// All outlive the scrape, and may be asked on any thread.
struct StatisticsSources {
  const metrics::Counts& counts;
  const nfs::Exports& exports;
  const rpc::ConnectionTable& connections;
  const rpc::MemoryBudget& memory;
  const rpc::ReplyCache& replies;
  const Workers& pool;
  Nfs4& nfs4;
  const fs::OpenFiles* open_files;     // null if the file systems keep none open
  const rpc::gss::Acceptor* acceptor;  // null if RPCSEC_GSS is not offered
};

// How long each loop took to run a function that was posted to it; nothing for a loop that did not run it in time.
using LoopDelays = std::vector<std::optional<Duration>>;
// Asks the loops, and waits for their answers. Any thread but those of the loops, which live on until this returns.
LoopDelays AskLoops(std::span<Loop* const> loops, Duration limit);
// Returns the index of the first loop that has not answered; nothing if all have.
std::optional<size_t> FirstHung(const LoopDelays& delays);

// Returns all metrics. `delays` has a value for each loop.
metrics::Families CollectStatistics(const StatisticsSources& sources, bool ready, const LoopDelays& delays);

}  // namespace penstock::server
