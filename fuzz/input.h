// The parts that fuzz targets share: their input, consumed from the front, and the report of an error.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "base/bytes.h"

namespace penstock::fuzz {

// Reports an error of the code under test: the fuzzer keeps the input.
[[noreturn]] inline void Die(const char* what) {
  std::fprintf(stderr, "%s\n", what);
  std::abort();
}

// At the end of the input, octets are zero and slices are short.
class Input {
 public:
  Input(const uint8_t* data, size_t size) : rest_(reinterpret_cast<const std::byte*>(data), size) {}
  bool empty() const { return rest_.empty(); }
  uint8_t Octet() {
    const ConstBytes taken = Take(1);
    return taken.empty() ? 0 : static_cast<uint8_t>(taken[0]);
  }
  ConstBytes Take(size_t size) {
    const ConstBytes taken = rest_.first(std::min(size, rest_.size()));
    rest_ = rest_.subspan(taken.size());
    return taken;
  }

 private:
  ConstBytes rest_;
};

}  // namespace penstock::fuzz
