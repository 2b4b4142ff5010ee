// Worker is the base of the simulated applications. A worker makes one call after the other in its own directory and
// knows the correct result of each. It checks that the server executes each call once and replies correctly, also when
// connections are lost.
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
    std::string content;  // the file's data, or the symlink's target
  };
  struct Facts {
    std::string directory;  // the worker's own directory, below the root
    size_t max_payload;
    // The network may refuse accesses to memory, so a call with chunks may have no reply. The worker then finds out
    // whether the call was executed.
    bool may_be_refused;
    // An operation on files may fail with a disk error. Such an operation changes nothing.
    bool disk_fails = false;
    // A call without a reply may still be executed during this time.
    Duration longest_execution{};
    // The worker's client may be silent for so long that its lease expires and other clients get its locks.
    bool may_be_silent = false;
    // Counts the server's losses of the kept replies of the worker's client. After a loss, calls under way may be
    // executed again.
    const unsigned* forgotten = nullptr;
    // False: the server keeps no replies for the worker's client at all. Each lost connection then counts as a loss,
    // and any request may be executed again.
    bool replies_are_kept = true;
    // The server of a session of 2004 may be killed, and then not know whether it has executed a request.
    bool fate_may_be_unknown = false;
    // The client splits COMPOUNDs into chains.
    bool splits = false;
    // A chain may be cut, so that the server executes the first part only.
    bool may_be_cut = false;
    // The time when the worker's client sent the latest of the calls that have a reply. Its lease was renewed then, or
    // later.
    TimePoint* renewed = nullptr;
  };

  Worker(rdma::sim::World& world, Findings& findings, Facts facts)
      : world_(world), findings_(findings), facts_(std::move(facts)) {}
  virtual ~Worker() = default;
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  Task<void> Run(unsigned calls);
  // Reclaims the worker's state after a restart of the server. The client calls it during the reclaim phase.
  virtual Task<void> Reclaim() { co_return; }
  // The worker's client was silent for longer than its lease.
  virtual void HandleLeaseOver() {}

  bool done() const { return done_; }
  unsigned calls() const { return calls_; }
  const std::string& name() const { return facts_.directory; }
  // The entries that the directory must have.
  const std::map<std::string, Entry>& entries() const { return entries_; }

 protected:
  virtual Task<void> MakeDirectory() = 0;
  virtual Task<void> Act() = 0;
  // Closes and unlocks all files, so that the server keeps no state for the worker.
  virtual Task<void> Finish() { co_return; }

  void HandleCall(std::string_view what);
  // Tells whether the status is a disk error that the schedule allows. The numbers are the same in both versions.
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
  // Picks a random entry: a symlink, a file, or either without a value. Returns null if no such entry exists.
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
