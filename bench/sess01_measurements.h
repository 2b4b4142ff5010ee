// The measurements of sess01_bench: what `penstock bench` cannot express, because it needs single requests and
// callbacks of the sessions of 2004 (docs/sessions-2004.md). Each prints a table.
#pragma once

#include <vector>

#include "base/loop.h"
#include "base/workers.h"
#include "client/error.h"
#include "client/url.h"
#include "rdma/provider.h"

namespace penstock::bench {

// The parts of a measurement that outlive it.
struct Surroundings {
  Loop& loop;
  Workers& workers;
  rdma::Provider& provider;
};

struct ChainOptions {
  client::Url url;  // of a directory
  unsigned rounds = 1;
  double seconds = 0.1;                 // of each form in each round
  std::vector<double> delays = {0, 1};  // in each direction, in milliseconds
};

// Looks up a path of sixteen directories and gets the attributes of each: in one COMPOUND, in sixteen chained requests
// that leave at once, and in sixteen requests of which each waits for the reply to the one before.
Task<client::Result<void>> MeasureChains(Surroundings where, const ChainOptions& options);

struct RecallOptions {
  client::Url url;  // of a directory
  unsigned rounds = 1;
  unsigned depth = 8;  // the READs of 256 KiB under way on a busy operations channel
};

// The time from a conflicting OPEN of another client to CB_RECALL at the client with the delegation: over a back
// channel of its own and over one that shares the connection of the operations channel, while that is idle and while it
// is busy.
Task<client::Result<void>> MeasureRecalls(Surroundings where, const RecallOptions& options);

// Returns the value that the share `quantile` of the values does not exceed. There must be a value.
double Quantile(std::vector<double> values, double quantile);

}  // namespace penstock::bench
