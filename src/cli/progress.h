// A line on a terminal that shows how far a transfer is.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace penstock::cli {

// "  42 % [########            ]  420 MiB of 1.0 GiB   850 MiB/s   0:01", in at most `width` columns.
std::string ProgressLine(uint64_t done, uint64_t total, std::chrono::duration<double> elapsed, unsigned width);

// Draws on stderr, and only where that is a terminal; a few times a second.
class ProgressBar {
 public:
  ProgressBar();
  // Leaves the cursor on a new line.
  ~ProgressBar();
  void Show(uint64_t done, uint64_t total);

 private:
  using Clock = std::chrono::steady_clock;
  const bool on_terminal_;
  const Clock::time_point begin_;
  Clock::time_point drawn_{};
  bool drew_ = false;
};

}  // namespace penstock::cli
