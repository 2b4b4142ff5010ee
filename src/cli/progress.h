// The progress of a transfer, as a line on a terminal.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace penstock::cli {

// Formats a line of at most `width` columns, like "  42 % [########            ]  420 MiB of 1.0 GiB   850 MiB/s
// 0:01".
std::string ProgressLine(uint64_t done, uint64_t total, std::chrono::duration<double> elapsed, unsigned width);

// Draws the line on stderr a few times a second, if stderr is a terminal.
class ProgressBar {
 public:
  ProgressBar();
  // Leaves the cursor on a new line.
  ~ProgressBar();
  // `before` is a text at the beginning of the line. With it, call this with `last` when all is done.
  void Show(uint64_t done, uint64_t total, std::string_view before = {}, bool last = false);
  // Makes room for other lines on stderr or stdout. The next Show() draws the line again.
  void Clear();

 private:
  using Clock = std::chrono::steady_clock;
  const bool on_terminal_;
  const Clock::time_point begin_;
  Clock::time_point drawn_{};
  bool drew_ = false;
};

}  // namespace penstock::cli
