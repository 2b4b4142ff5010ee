// A histogram of latencies that needs little memory. It counts values in classes whose width grows with the value, so
// that every percentile is exact to within 1.6 %.
#pragma once

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <vector>

namespace penstock::cli {

class LatencyHistogram {
 public:
  using Nanoseconds = std::chrono::nanoseconds;

  void Add(Nanoseconds latency) {
    const auto value = static_cast<uint64_t>(std::max<int64_t>(latency.count(), 0));
    ++counts_[ClassOf(value)];
    ++total_;
    largest_ = std::max(largest_, value);
  }

  uint64_t count() const { return total_; }
  Nanoseconds largest() const { return Nanoseconds(largest_); }

  // Returns the smallest value that at least the share `quantile` (0 to 1) of all values does not exceed; 0 without
  // values.
  Nanoseconds Percentile(double quantile) const {
    const auto rank = std::max<uint64_t>(1, static_cast<uint64_t>(std::ceil(quantile * static_cast<double>(total_))));
    uint64_t seen = 0;
    for (size_t i = 0; i < counts_.size(); ++i) {
      seen += counts_[i];
      if (seen >= rank) return Nanoseconds(std::min(LargestOf(i), largest_));
    }
    return Nanoseconds(largest_);
  }

 private:
  // Each value below kSteps has a class of its own. Above, every power of two has kSteps classes of equal width.
  static constexpr unsigned kStepBits = 6;
  static constexpr uint64_t kSteps = 1 << kStepBits;

  static size_t ClassOf(uint64_t value) {
    if (value < kSteps) return value;
    const auto shift = static_cast<unsigned>(std::bit_width(value)) - 1 - kStepBits;
    return (shift + 1) * kSteps + (value >> shift) - kSteps;
  }
  static uint64_t LargestOf(size_t index) {
    if (index < kSteps) return index;
    const uint64_t shift = index / kSteps - 1;
    return ((index % kSteps + kSteps + 1) << shift) - 1;
  }

  std::vector<uint64_t> counts_ = std::vector<uint64_t>((64 - kStepBits + 1) * kSteps);
  uint64_t total_ = 0;
  uint64_t largest_ = 0;
};

}  // namespace penstock::cli
