// For tests: files that a client of version 4 has claimed.
#pragma once

#include <atomic>
#include <vector>

#include "nfs/file_claims.h"

namespace penstock::nfs {

// Files on which another client has a claim, for the next `conflicts` checks.
class Claimed final : public FileClaims {
 public:
  Claimed() : FileClaims(count_) {}

  uint64_t Mark() const override { return 0; }
  bool IsOutdated(const NamedFile&, uint64_t) const override { return conflicts > 0; }
  Task<Checked> Check(Loop*, NamedFile, Use use) override {
    uses.push_back(use);
    const bool conflict = conflicts > 0 && conflicts-- > 0;
    co_return Checked{.verdict = conflict ? verdict : Verdict::kFree};
  }

  int conflicts = 0;
  Verdict verdict = Verdict::kLater;
  std::vector<Use> uses;

 private:
  std::atomic<size_t> count_{1};
};

}  // namespace penstock::nfs
