// CRC32c, the check value of an FPDU (RFC 5044 §4.4; computed as iSCSI does). Uses what instructions the
// processor has for it.
#pragma once

#include <array>
#include <cstdint>

#include "base/bytes.h"

namespace penstock::rdma::iwarp {

class Crc32c {
 public:
  void Update(ConstBytes bytes);
  // As it stands in the FPDU: least significant octet first, as iSCSI's digests are sent.
  std::array<std::byte, 4> Wire() const;
  uint32_t value() const { return ~state_; }

 private:
  uint32_t state_ = 0xffffffff;
};

namespace internal {

// All go on from `state` (not inverted); for tests, which compare them. The last takes the best way for each part.
uint32_t ExtendCrc32cByTable(uint32_t state, ConstBytes bytes);
uint32_t ExtendCrc32cByInstruction(uint32_t state, ConstBytes bytes);
uint32_t ExtendCrc32c(uint32_t state, ConstBytes bytes);

}  // namespace internal

}  // namespace penstock::rdma::iwarp
