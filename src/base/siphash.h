// SipHash-2-4 (Aumasson and Bernstein, 2012): a short keyed hash that cannot be predicted without the key.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>

#include "base/bytes.h"

namespace penstock {

using SipKey = std::array<uint64_t, 2>;

inline uint64_t SipHash(const SipKey& key, ConstBytes bytes) {
  uint64_t v0 = key[0] ^ 0x736f6d6570736575, v1 = key[1] ^ 0x646f72616e646f6d;
  uint64_t v2 = key[0] ^ 0x6c7967656e657261, v3 = key[1] ^ 0x7465646279746573;
  const auto rounds = [&](int count) {
    while (count-- > 0) {
      v0 += v1, v1 = std::rotl(v1, 13) ^ v0, v0 = std::rotl(v0, 32);
      v2 += v3, v3 = std::rotl(v3, 16) ^ v2;
      v0 += v3, v3 = std::rotl(v3, 21) ^ v0;
      v2 += v1, v1 = std::rotl(v1, 17) ^ v2, v2 = std::rotl(v2, 32);
    }
  };
  const auto take = [&](uint64_t word) {
    v3 ^= word;
    rounds(2);
    v0 ^= word;
  };
  const auto load = [](ConstBytes from) {
    std::byte octets[8] = {};
    CopyBytes(octets, from);
    return std::byteswap(LoadBig<uint64_t>(octets));
  };
  const uint64_t length = bytes.size();
  for (; bytes.size() >= 8; bytes = bytes.subspan(8)) take(load(bytes.first(8)));
  take(load(bytes) | length << 56);
  v2 ^= 0xff;
  rounds(4);
  return v0 ^ v1 ^ v2 ^ v3;
}

}  // namespace penstock
