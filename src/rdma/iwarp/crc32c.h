// CRC32c, the check value of an FPDU (RFC 5044 §4.4). It is the digest of iSCSI. The computation uses the instructions
// that the processor offers for it.
#pragma once

#include <array>
#include <cstdint>

#include "base/bytes.h"

namespace penstock::rdma::iwarp {

class Crc32c {
 public:
  void Update(ConstBytes bytes);
  // The value in the order of the FPDU: the least significant octet first, as in iSCSI.
  std::array<std::byte, 4> Wire() const;
  uint32_t value() const { return ~state_; }

 private:
  uint32_t state_ = 0xffffffff;
};

namespace internal {

// Each function extends `state`, which is not inverted, by `bytes`. Tests compare the three. The last one chooses the
// fastest method for each part of `bytes`.
uint32_t ExtendCrc32cByTable(uint32_t state, ConstBytes bytes);
uint32_t ExtendCrc32cByInstruction(uint32_t state, ConstBytes bytes);
uint32_t ExtendCrc32c(uint32_t state, ConstBytes bytes);

}  // namespace internal

}  // namespace penstock::rdma::iwarp
