// penstock_runtime: loops, a pool of threads for calls that block, and RDMA.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/workers.h"
#include "library/fork_mark.h"
#include "library/place.h"
#include "penstock/penstock.h"
#include "rdma/choice/choice.h"

struct penstock_runtime {
 public:
  // The settings, which were checked. `threads` is zero if the host drives the only loop.
  struct Options {
    unsigned threads = 1;
    unsigned blocking_threads = 16;
    penstock::rdma::Choice rdma{};
    std::shared_ptr<penstock::log::Logger> logger;  // gets the messages
  };
  // Throws std::system_error if the system has no threads or descriptors left. The calling thread logs to the logger.
  explicit penstock_runtime(Options options);
  ~penstock_runtime();

  // False in a child that fork() gave a copy. Then nothing else may be used.
  bool is_here() const { return mark_.is_here(); }
  // Whether mounts or operations are left.
  bool is_busy() const;
  // Whether this thread runs one of its loops.
  bool RunsHere() const { return places_.front()->RunsHere(); }
  // The only loop if the host drives it; otherwise null.
  penstock::library::Place* driven_place() const { return places_.front()->driven() ? places_.front().get() : nullptr; }
  // The loop for another mount: one with the fewest, which then has one more.
  penstock::library::Place& TakePlace();

  penstock::Workers& workers() { return workers_; }
  // Returns what connects mounts of the place over RDMA. On its loop.
  penstock::rdma::Provider& ProviderFor(penstock::library::Place& place, bool crc) const;
  const penstock::rdma::Choice& rdma() const { return options_.rdma; }

 private:
  const penstock::library::ForkMark mark_;
  const Options options_;
  const std::shared_ptr<penstock::rdma::verbs::Registry> registry_;
  penstock::Workers workers_;
  std::mutex mutex_;  // of TakePlace()
  std::vector<std::unique_ptr<penstock::library::Place>> places_;
};

namespace penstock::library {

// Returns -EPERM if the runtime belongs to the parent of this process, otherwise zero.
int CheckProcess(const penstock_runtime& runtime);

}  // namespace penstock::library
