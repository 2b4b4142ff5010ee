#include "rdma/iwarp/crc32c.h"

#include "rdma/iwarp/crc32c_folding.h"

#ifdef __aarch64__
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

namespace penstock::rdma::iwarp {
namespace {

using Tables = std::array<std::array<uint32_t, 256>, 8>;

// kTables[k][b] is the contribution of octet b if k more octets follow it ("slicing by eight").
constexpr Tables MakeTables() {
  Tables tables{};
  for (uint32_t b = 0; b < 256; ++b) {
    uint32_t crc = b;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ (crc & 1 ? internal::kCrc32cPolynomial : 0);
    tables[0][b] = crc;
  }
  for (size_t k = 1; k < 8; ++k) {
    for (uint32_t b = 0; b < 256; ++b) tables[k][b] = (tables[k - 1][b] >> 8) ^ tables[0][tables[k - 1][b] & 0xff];
  }
  return tables;
}

constexpr Tables kTables = MakeTables();

uint32_t LoadLittle32(const std::byte* at) { return std::byteswap(LoadBig<uint32_t>(at)); }
uint64_t LoadLittle64(const std::byte* at) { return std::byteswap(LoadBig<uint64_t>(at)); }

#if defined(__x86_64__) || defined(__aarch64__)
#define PENSTOCK_CRC_INSTRUCTION
// The processor can start an instruction in each cycle, but a result takes three cycles. Therefore three parts are
// computed at the same time. To join the results, the states of the first two parts are shifted over the octets that
// follow them.
constexpr size_t kPart = 512;

// Extends a state by `octets` octets of zero. Each octet of the state has its own table.
class Shift {
 public:
  explicit Shift(size_t octets) {
    std::array<uint32_t, 32> of_bit;
    for (unsigned bit = 0; bit < 32; ++bit) {
      uint32_t state = 1u << bit;
      for (size_t i = 0; i < octets; ++i) state = (state >> 8) ^ kTables[0][state & 0xff];
      of_bit[bit] = state;
    }
    for (unsigned k = 0; k < 4; ++k) {
      for (unsigned b = 0; b < 256; ++b) {
        for (unsigned bit = 0; bit < 8; ++bit) table_[k][b] ^= b >> bit & 1 ? of_bit[8 * k + bit] : 0;
      }
    }
  }
  uint32_t operator()(uint32_t state) const {
    return table_[0][state & 0xff] ^ table_[1][state >> 8 & 0xff] ^ table_[2][state >> 16 & 0xff] ^
           table_[3][state >> 24];
  }

 private:
  std::array<std::array<uint32_t, 256>, 4> table_{};
};

const Shift& OverOnePart() {
  static const Shift shift(kPart);
  return shift;
}
const Shift& OverTwoParts() {
  static const Shift shift(2 * kPart);
  return shift;
}

// The processor's instructions: they extend a state by eight octets, and by one.
#ifdef __x86_64__
#define PENSTOCK_CRC_TARGET __attribute__((target("sse4.2")))
PENSTOCK_CRC_TARGET inline uint64_t ExtendBy64(uint64_t crc, uint64_t octets) {
  return __builtin_ia32_crc32di(crc, octets);
}
PENSTOCK_CRC_TARGET inline uint32_t ExtendBy8(uint32_t crc, uint8_t octet) {
  return __builtin_ia32_crc32qi(crc, octet);
}
bool HaveInstruction() {
  static const bool have = __builtin_cpu_supports("sse4.2");
  return have;
}
#else
#ifdef __clang__
#define PENSTOCK_CRC_TARGET __attribute__((target("crc")))
#define PENSTOCK_CRC_64 __builtin_arm_crc32cd
#define PENSTOCK_CRC_8 __builtin_arm_crc32cb
#else
#define PENSTOCK_CRC_TARGET __attribute__((target("+crc")))
#define PENSTOCK_CRC_64 __builtin_aarch64_crc32cx
#define PENSTOCK_CRC_8 __builtin_aarch64_crc32cb
#endif
PENSTOCK_CRC_TARGET inline uint64_t ExtendBy64(uint64_t crc, uint64_t octets) {
  return PENSTOCK_CRC_64(static_cast<uint32_t>(crc), octets);
}
PENSTOCK_CRC_TARGET inline uint32_t ExtendBy8(uint32_t crc, uint8_t octet) { return PENSTOCK_CRC_8(crc, octet); }
// The instructions are optional in ARMv8.0.
bool HaveInstruction() {
  static const bool have = (::getauxval(AT_HWCAP) & HWCAP_CRC32) != 0;
  return have;
}
#endif

PENSTOCK_CRC_TARGET uint32_t ExtendByInstruction(uint32_t state, ConstBytes bytes) {
  const std::byte* at = bytes.data();
  size_t left = bytes.size();
  uint64_t crc = state;
  if (left >= 3 * kPart) {
    const Shift& over_one = OverOnePart();
    const Shift& over_two = OverTwoParts();
    for (; left >= 3 * kPart; at += 3 * kPart, left -= 3 * kPart) {
      uint64_t second = 0;
      uint64_t third = 0;
      for (size_t i = 0; i < kPart; i += 8) {
        crc = ExtendBy64(crc, LoadLittle64(at + i));
        second = ExtendBy64(second, LoadLittle64(at + kPart + i));
        third = ExtendBy64(third, LoadLittle64(at + 2 * kPart + i));
      }
      crc = over_two(static_cast<uint32_t>(crc)) ^ over_one(static_cast<uint32_t>(second)) ^ third;
    }
  }
  for (; left >= 8; at += 8, left -= 8) crc = ExtendBy64(crc, LoadLittle64(at));
  auto narrow = static_cast<uint32_t>(crc);
  for (; left > 0; ++at, --left) narrow = ExtendBy8(narrow, std::to_integer<uint8_t>(*at));
  return narrow;
}
#endif

}  // namespace

namespace internal {

uint32_t ExtendCrc32cByTable(uint32_t state, ConstBytes bytes) {
  const std::byte* at = bytes.data();
  size_t left = bytes.size();
  for (; left >= 8; at += 8, left -= 8) {
    const uint32_t low = state ^ LoadLittle32(at);
    const uint32_t high = LoadLittle32(at + 4);
    state = kTables[7][low & 0xff] ^ kTables[6][low >> 8 & 0xff] ^ kTables[5][low >> 16 & 0xff] ^
            kTables[4][low >> 24] ^ kTables[3][high & 0xff] ^ kTables[2][high >> 8 & 0xff] ^
            kTables[1][high >> 16 & 0xff] ^ kTables[0][high >> 24];
  }
  for (; left > 0; ++at, --left) state = (state >> 8) ^ kTables[0][(state ^ std::to_integer<uint8_t>(*at)) & 0xff];
  return state;
}

uint32_t ExtendCrc32cByInstruction(uint32_t state, ConstBytes bytes) {
#ifdef PENSTOCK_CRC_INSTRUCTION
  if (HaveInstruction()) return ExtendByInstruction(state, bytes);
#endif
  return ExtendCrc32cByTable(state, bytes);
}

uint32_t ExtendCrc32c(uint32_t state, ConstBytes bytes) {
  if (const size_t folded = bytes.size() / kFoldedBlock * kFoldedBlock; folded > 0 && CanFold()) {
    state = ExtendByFolding(state, bytes.first(folded));
    bytes = bytes.subspan(folded);
  }
  return ExtendCrc32cByInstruction(state, bytes);
}

}  // namespace internal

void Crc32c::Update(ConstBytes bytes) { state_ = internal::ExtendCrc32c(state_, bytes); }

std::array<std::byte, 4> Crc32c::Wire() const {
  std::array<std::byte, 4> wire;
  StoreBig(wire.data(), std::byteswap(value()));
  return wire;
}

}  // namespace penstock::rdma::iwarp
