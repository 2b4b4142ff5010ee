#include "cli/progress.h"

#include <fmt/core.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

namespace penstock::cli {
namespace {

std::string Octets(double count) {
  static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  size_t unit = 0;
  while (count >= 1024 && unit + 1 < std::size(kUnits)) {
    count /= 1024;
    ++unit;
  }
  return unit == 0 || count >= 100 ? fmt::format("{:.0f} {}", count, kUnits[unit])
                                   : fmt::format("{:.1f} {}", count, kUnits[unit]);
}

unsigned TerminalWidth() {
  winsize size{};
  return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80u;
}

}  // namespace

std::string ProgressLine(uint64_t done, uint64_t total, std::chrono::duration<double> elapsed, unsigned width) {
  const double share = total == 0 ? 1 : std::min(1.0, static_cast<double>(done) / static_cast<double>(total));
  const double rate = elapsed.count() > 0 ? static_cast<double>(done) / elapsed.count() : 0;
  const auto left = rate > 0 ? std::llround(static_cast<double>(total - std::min(done, total)) / rate) : 0;
  const std::string numbers = fmt::format("{} of {}  {}/s  {}:{:02}", Octets(static_cast<double>(done)),
                                          Octets(static_cast<double>(total)), Octets(rate), left / 60, left % 60);
  std::string line = fmt::format("{:3.0f} % ", share * 100);
  constexpr size_t kFrame = 4;  // the brackets and the spaces after them
  if (width > line.size() + numbers.size() + kFrame + 5) {
    const size_t room = std::min<size_t>(width - line.size() - numbers.size() - kFrame, 50);
    const auto filled = static_cast<size_t>(share * static_cast<double>(room));
    line += "[" + std::string(filled, '#') + std::string(room - filled, ' ') + "]  ";
  }
  line += numbers;
  line.resize(std::min<size_t>(line.size(), width));
  return line;
}

ProgressBar::ProgressBar() : on_terminal_(::isatty(STDERR_FILENO) == 1), begin_(Clock::now()) {}

ProgressBar::~ProgressBar() {
  if (drew_) fmt::print(stderr, "\n");
}

void ProgressBar::Clear() {
  if (!std::exchange(drew_, false)) return;
  fmt::print(stderr, "\r\x1b[K");
  std::fflush(stderr);
}

void ProgressBar::Show(uint64_t done, uint64_t total, std::string_view before, bool last) {
  if (!on_terminal_) return;
  const Clock::time_point now = Clock::now();
  if ((done < total || !before.empty()) && !last && now - drawn_ < std::chrono::milliseconds(100)) return;
  drawn_ = now;
  drew_ = true;
  const auto width = TerminalWidth() - 1;
  const std::string_view shown = before.substr(0, width);
  const auto rest = width - static_cast<unsigned>(shown.size());
  fmt::print(stderr, "\r\x1b[K{}{}", shown, ProgressLine(done, total, now - begin_, rest));
  std::fflush(stderr);
}

}  // namespace penstock::cli
