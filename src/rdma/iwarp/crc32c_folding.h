// CRC32c by carry-less multiplication, for processors that multiply several pairs at once (AVX-512, VPCLMULQDQ).
#pragma once

#include <cstdint>

#include "base/bytes.h"

namespace penstock::rdma::iwarp::internal {

constexpr uint32_t kCrc32cPolynomial = 0x82f63b78;  // 0x1edc6f41, reflected

// ExtendByFolding() requires a multiple of this size.
constexpr size_t kFoldedBlock = 256;

// Returns true if the processor has the instructions.
bool CanFold();
// Extends `state` by `blocks`. Requires CanFold() and at least one block.
uint32_t ExtendByFolding(uint32_t state, ConstBytes blocks);

}  // namespace penstock::rdma::iwarp::internal
