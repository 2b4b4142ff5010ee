// The only source of random numbers in a simulation. The same seed gives the same run on every machine.
#pragma once

#include <cassert>
#include <cstdint>
#include <random>

#include "base/timer.h"

namespace penstock::rdma::sim {

class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}

  uint64_t Next() { return engine_(); }
  // A number less than `bound`, which must not be 0. (The distributions of <random> differ between libraries.)
  uint64_t Below(uint64_t bound) {
    assert(bound != 0);
    return Next() % bound;
  }
  // A number from `least` to `most`, both included.
  uint64_t Between(uint64_t least, uint64_t most) { return least + Below(most - least + 1); }
  // A duration from zero to `most`, both included.
  Duration UpTo(Duration most) { return Duration(Below(static_cast<uint64_t>(most.count()) + 1)); }
  bool Chance(double probability) { return static_cast<double>(Next() >> 11) * 0x1p-53 < probability; }

 private:
  std::mt19937_64 engine_;
};

}  // namespace penstock::rdma::sim
