#include "nfs/quota/wire_quota.h"

#include <algorithm>
#include <limits>

namespace penstock::nfs::quota {
namespace {

// quota(1) reads sizes as multiples of this.
constexpr uint64_t kSmallestBlock = 1 << 10;
constexpr uint64_t kLargestBlock = 1 << 30;
constexpr uint64_t kMost = std::numeric_limits<uint32_t>::max();

uint64_t BlockFor(uint64_t octets) {
  uint64_t block = kSmallestBlock;
  while (block < kLargestBlock && octets / block >= kMost) block *= 2;
  return block;
}

uint32_t Count(uint64_t octets, uint64_t block) {
  return static_cast<uint32_t>(std::min(octets / block + (octets % block != 0 ? 1 : 0), kMost));
}

// A time that is over is not zero: that would mean that the limit is kept.
int32_t Left(int64_t ends, int64_t now) {
  if (ends == 0) return 0;
  const int64_t left =
      std::clamp<int64_t>(ends - now, std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max());
  return left == 0 ? -1 : static_cast<int32_t>(left);
}

}  // namespace

rquota::rquotablk WireQuota(const fs::Quota& quota, int64_t now) {
  const fs::QuotaUse& bytes = quota.bytes;
  const fs::QuotaUse& files = quota.files;
  const uint64_t block = BlockFor(std::max({bytes.hard, bytes.soft, bytes.used}));
  return {.rq_bsize = static_cast<int32_t>(block),
          .rq_active = quota.enforced,
          .rq_bhardlimit = Count(bytes.hard, block),
          .rq_bsoftlimit = Count(bytes.soft, block),
          .rq_curblocks = Count(bytes.used, block),
          .rq_fhardlimit = Count(files.hard, 1),
          .rq_fsoftlimit = Count(files.soft, 1),
          .rq_curfiles = Count(files.used, 1),
          .rq_btimeleft = Left(bytes.grace_ends, now),
          .rq_ftimeleft = Left(files.grace_ends, now)};
}

}  // namespace penstock::nfs::quota
