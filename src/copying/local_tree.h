// The tree of a copy that is on this machine. All calls of the system run on threads. Names are looked up in open
// directories, and no symbolic link is followed, so that nobody can lead a copy out of its tree.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <type_traits>
#include <utility>

#include "base/loop.h"
#include "base/workers.h"
#include "copying/publisher.h"
#include "copying/tree.h"

namespace penstock::copying {

class LocalTree final : public Tree {
 public:
  // They outlive the tree, which outlives its directories.
  LocalTree(Loop& loop, Workers& workers) : loop_(loop), workers_(workers), publisher_(loop, workers) {}

  // Opens a directory that the user names. Follows symbolic links.
  Task<Result<std::shared_ptr<Directory>>> Open(std::string path);

  void Flush() override { publisher_.Flush(); }
  Task<Result<void>> Finish() override { return publisher_.Finish(); }

  Loop& loop() { return loop_; }
  Workers& workers() { return workers_; }
  Publisher& publisher() { return publisher_; }
  // Runs `work`, which may block, on a thread. What it refers to lives on until then.
  template <class Work>
  Task<std::invoke_result_t<Work&>> Away(Work work) {
    const auto run = [&work] { return work(); };
    co_return co_await Offload(loop_, workers_, run);
  }
  // The same for a change in `directory`: work() returns errno, or 0.
  template <class Work>
  Task<Result<void>> Change(std::shared_ptr<const HeldDirectory> directory, Work work) {
    publisher_.Touch(directory);
    const auto run = [&work] { return work(); };
    const int error = co_await Offload(loop_, workers_, run);
    if (error != 0) co_return std::unexpected(LocalError(error));
    co_return Result<void>();
  }
  // The domain of this host's users. The first call may block. Any thread.
  const std::string& domain();

 private:
  Loop& loop_;
  Workers& workers_;
  Publisher publisher_;
  std::once_flag domain_is_known_;
  std::string domain_;
};

// Converts the status of a local file.
Attributes AttributesOf(const struct stat& status);

}  // namespace penstock::copying
