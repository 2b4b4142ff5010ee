// For tests: byte-range locks that are recorded instead of being taken from the system, and a lock of a local
// program.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "fs/local_locks.h"
#include "fs/types.h"

namespace penstock::fs {

// The locks on one file. It outlives the objects that Open() returns.
class TestLocks {
 public:
  // Behaves as FileSystem::OpenLocks does.
  Result<std::shared_ptr<LocalLocks>> Open(bool exclusive = true) {
    if (busy) return std::unexpected(Error::kDelay);
    return std::make_shared<Locks>(*this, exclusive && writable);
  }

  std::optional<LocalLocks::Conflict> programs{};  // the range that a local program has locked
  bool busy = false;                               // another program's lease delays all locks
  bool writable = true;
  std::vector<std::string> log{};   // the calls that local programs would see
  std::function<void()> on_call{};  // runs at the beginning of each Lock(), Unlock() and Test()

 private:
  class Locks final : public LocalLocks {
   public:
    Locks(TestLocks& all, bool can_exclude) : all_(all), can_exclude_(can_exclude) {}
    ~Locks() override { all_.log.emplace_back("gone"); }
    bool CanExclude() const override { return can_exclude_; }
    std::optional<Conflict> Lock(uint64_t first, uint64_t last, bool exclusive) override {
      if (auto conflict = Test(first, last, exclusive)) return conflict;
      const bool excludes = exclusive && can_exclude_;
      all_.log.push_back((excludes ? "exclusive " : "shared ") + std::to_string(first) + "-" + std::to_string(last));
      return std::nullopt;
    }
    void Unlock(uint64_t first, uint64_t last) override {
      Tell();
      all_.log.push_back("unlock " + std::to_string(first) + "-" + std::to_string(last));
    }
    std::optional<Conflict> Test(uint64_t first, uint64_t last, bool) const override {
      Tell();
      const bool free = !all_.programs || last < all_.programs->first || all_.programs->last < first;
      return free ? std::nullopt : all_.programs;
    }

   private:
    void Tell() const {
      if (const auto call = all_.on_call) call();  // a copy, because the call may replace it
    }
    TestLocks& all_;
    const bool can_exclude_;
  };
};

}  // namespace penstock::fs
