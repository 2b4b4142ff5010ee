// Somebody who works in a directory of his own, one call after the other, and knows what must come of each: whatever happens to
// connections, calls are executed once and replies are right.
#pragma once

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "base/signal.h"
#include "base/task.h"
#include "findings.h"

namespace penstock::simulation {

class Worker {
 public:
  struct Entry {
    bool symlink = false;
    std::string content;  // the file's, or where the link leads
  };
  struct Facts {
    std::string directory;  // his own, below the root
    size_t max_payload;
    // A call that has chunks may have no reply, because the network refuses accesses to memory; he then finds out what has
    // come of it.
    bool may_be_refused;
    // An operation on files may fail with an error of the disk, and has then changed nothing.
    bool disk_fails = false;
    // A call without a reply may still be executed for so long.
    Duration longest_execution{};
    // His client may be silent for so long that the server gives away what it has.
    bool may_be_silent = false;
    // How often the server has forgotten what it had executed for his client: calls that were under way may be executed once more.
    const unsigned* forgotten = nullptr;
    // When that was sent of his client which the server has answered last.
    TimePoint* renewed = nullptr;
  };

  Worker(rdma::sim::World& world, Findings& findings, Facts facts)
      : world_(world), findings_(findings), facts_(std::move(facts)) {}
  virtual ~Worker() = default;
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  Task<void> Run(unsigned calls);
  // His client may reclaim what it had when the server was killed.
  virtual Task<void> Reclaim() { co_return; }
  // His client has been silent for longer than its lease.
  virtual void HandleLeaseOver() {}

  bool done() const { return done_; }
  unsigned calls() const { return calls_; }
  const std::string& name() const { return facts_.directory; }
  // What the directory must hold.
  const std::map<std::string, Entry>& entries() const { return entries_; }

 protected:
  virtual Task<void> MakeDirectory() = 0;
  virtual Task<void> Act() = 0;
  // Gives back what the server keeps for him.
  virtual Task<void> Finish() { co_return; }

  void HandleCall(std::string_view what);
  // A status of any version: the numbers are the same.
  template <class Status>
  bool IsDisksFault(Status status) const {
    const auto number = static_cast<int>(status);
    constexpr std::array kNumbers{5, 28, 69, 10008};  // IO, NOSPC, DQUOT, JUKEBOX (in version 4: DELAY)
    return facts_.disk_fails && std::ranges::find(kNumbers, number) != kNumbers.end();
  }
  void Expect(bool right, std::string_view what);
  void Unexpected(std::string_view operation, std::string_view why);

  std::string NewName();
  std::string Text(size_t most);
  // One of the entries of that kind; null where there is none.
  std::pair<const std::string, Entry>* Pick(std::optional<bool> symlink);

  rdma::sim::World& world_;
  Findings& findings_;
  const Facts facts_;
  std::map<std::string, Entry> entries_;

 private:
  unsigned names_ = 0;
  unsigned calls_ = 0;
  bool done_ = false;
};

}  // namespace penstock::simulation
