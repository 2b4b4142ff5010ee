// A message is a polynomial over GF(2), and its CRC is the remainder modulo P. The remainder stays the same if a part
// at the beginning, A x^n, is replaced by A (x^n mod P), which is shorter. Thus the code folds the beginning of the
// message onto the octets that follow, until sixteen octets are left. Sixteen lanes of 128 bits pass through the
// message at the same time.
#include "rdma/iwarp/crc32c_folding.h"

#include <cassert>

#ifdef __x86_64__
#include <immintrin.h>
#endif

namespace penstock::rdma::iwarp::internal {

#ifdef __x86_64__
namespace {

// Returns x^n mod P in reflected order: bit 31 is x^0.
constexpr uint32_t PowerOfX(unsigned n) {
  uint32_t power = 0x80000000;
  for (; n > 0; --n) power = (power >> 1) ^ (power & 1 ? kCrc32cPolynomial : 0);
  return power;
}

// The multipliers of the two halves of a lane that shift it over `bits`. In reflected order the low half comes first in
// the message: it stands for x^64 more than the high half. The position of a 32-bit constant in a 64-bit register, and
// that of the product in a 128-bit register, stand for x^33.
struct Multipliers {
  explicit constexpr Multipliers(unsigned bits) : low(PowerOfX(bits + 64 - 33)), high(PowerOfX(bits - 33)) {}
  long long low;
  long long high;
};
constexpr unsigned kLane = 128;
constexpr unsigned kRegister = 4 * kLane;
constexpr Multipliers kOverBlock(4 * kRegister);
constexpr Multipliers kOverRegister(kRegister);
constexpr Multipliers kOverLane(kLane);

#define PENSTOCK_FOLDING __attribute__((target("avx512f,vpclmulqdq,pclmul,sse4.2")))

PENSTOCK_FOLDING inline __m512i Load(const std::byte* at) { return _mm512_loadu_si512(at); }

// Shifts `lanes` and adds the octets at their new position, `onto`.
PENSTOCK_FOLDING inline __m512i Fold(__m512i lanes, __m512i by, __m512i onto) {
  constexpr int kExclusiveOr = 0x96;
  return _mm512_ternarylogic_epi64(_mm512_clmulepi64_epi128(lanes, by, 0x00), _mm512_clmulepi64_epi128(lanes, by, 0x11),
                                   onto, kExclusiveOr);
}

PENSTOCK_FOLDING inline __m128i FoldLane(__m128i lane, __m128i onto) {
  const __m128i by = _mm_set_epi64x(kOverLane.high, kOverLane.low);
  return _mm_xor_si128(_mm_xor_si128(_mm_clmulepi64_si128(lane, by, 0x00), _mm_clmulepi64_si128(lane, by, 0x11)), onto);
}

PENSTOCK_FOLDING inline __m512i Broadcast(const Multipliers& by) {
  return _mm512_broadcast_i32x4(_mm_set_epi64x(by.high, by.low));
}

}  // namespace

bool CanFold() {
  static const bool can = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("vpclmulqdq") &&
                          __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.2");
  return can;
}

PENSTOCK_FOLDING uint32_t ExtendByFolding(uint32_t state, ConstBytes blocks) {
  assert(!blocks.empty() && blocks.size() % kFoldedBlock == 0);
  const std::byte* at = blocks.data();
  const std::byte* const end = at + blocks.size();
  __m512i a = _mm512_xor_si512(Load(at), _mm512_zextsi128_si512(_mm_cvtsi32_si128(static_cast<int>(state))));
  __m512i b = Load(at + 64);
  __m512i c = Load(at + 128);
  __m512i d = Load(at + 192);
  const __m512i over_block = Broadcast(kOverBlock);
  for (at += kFoldedBlock; at != end; at += kFoldedBlock) {
    a = Fold(a, over_block, Load(at));
    b = Fold(b, over_block, Load(at + 64));
    c = Fold(c, over_block, Load(at + 128));
    d = Fold(d, over_block, Load(at + 192));
  }
  const __m512i over_register = Broadcast(kOverRegister);
  const __m512i lanes = Fold(Fold(Fold(a, over_register, b), over_register, c), over_register, d);
  __m128i lane = FoldLane(_mm512_castsi512_si128(lanes), _mm512_extracti32x4_epi32(lanes, 1));
  lane = FoldLane(lane, _mm512_extracti32x4_epi32(lanes, 2));
  lane = FoldLane(lane, _mm512_extracti32x4_epi32(lanes, 3));
  // The CRC instruction for eight octets computes the rest.
  const uint64_t half = _mm_crc32_u64(0, static_cast<uint64_t>(_mm_cvtsi128_si64(lane)));
  return static_cast<uint32_t>(_mm_crc32_u64(half, static_cast<uint64_t>(_mm_extract_epi64(lane, 1))));
}

#undef PENSTOCK_FOLDING
#else

bool CanFold() { return false; }

uint32_t ExtendByFolding(uint32_t, ConstBytes) {
  assert(false);
  return 0;
}
#endif

}  // namespace penstock::rdma::iwarp::internal
