// The quota of a user or a group in a file system.
#pragma once

#include <cstdint>

namespace penstock::fs {

enum class QuotaKind : uint8_t { kUser, kGroup };

// How much the owner uses of something, and how much the owner may use.
struct QuotaUse {
  uint64_t used = 0;
  uint64_t hard = 0;  // zero: no limit
  uint64_t soft = 0;  // zero: no limit
  // When the soft limit becomes a hard one, in seconds since 1970; zero while it is kept.
  int64_t grace_ends = 0;

  bool operator==(const QuotaUse&) const = default;
};

struct Quota {
  QuotaUse bytes{};
  QuotaUse files{};
  bool enforced = false;  // the file system refuses what exceeds the limits

  bool operator==(const Quota&) const = default;
};

}  // namespace penstock::fs
