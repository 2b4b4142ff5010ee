// CRC32c by carry-less multiplication, for processors that multiply eight pairs at once (AVX-512, VPCLMULQDQ).
#pragma once

#include <cstdint>

#include "base/bytes.h"

namespace penstock::rdma::iwarp::internal {

constexpr uint32_t kCrc32cPolynomial = 0x82f63b78;  // 0x1edc6f41, reflected

// What ExtendByFolding() takes is a multiple of this.
constexpr size_t kFoldedBlock = 256;

bool CanFold();
// Requires CanFold(), and at least one block.
uint32_t ExtendByFolding(uint32_t state, ConstBytes blocks);

}  // namespace penstock::rdma::iwarp::internal
