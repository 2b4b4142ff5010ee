#include "cli/modes.h"

#include <fmt/core.h>
#include <sys/stat.h>

#include <charconv>
#include <utility>

namespace penstock::cli {
namespace {

constexpr uint32_t kAllBits = 07777;

// The bits of a class, with its special bit.
uint32_t ClassBits(char letter) {
  switch (letter) {
    case 'u':
      return 04700;
    case 'g':
      return 02070;
    case 'o':
      return 01007;
    case 'a':
      return kAllBits;
    default:
      return 0;
  }
}

// The permission in all classes.
uint32_t PermissionBits(char letter) {
  switch (letter) {
    case 'r':
      return 0444;
    case 'w':
      return 0222;
    case 'x':
      return 0111;
    case 's':
      return 06000;
    case 't':
      return 01000;
    default:
      return 0;
  }
}

// The permissions of one class, in all classes.
uint32_t CopyOf(uint32_t mode, char letter) {
  const uint32_t bits = (mode >> (letter == 'u' ? 6 : letter == 'g' ? 3 : 0)) & 7;
  return bits * 0111;
}

}  // namespace

std::optional<ModeChange> ModeChange::Parse(std::string_view text) {
  ModeChange change;
  uint32_t octal = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), octal, 8);
  if (error == std::errc() && end == text.data() + text.size()) {
    if (octal > kAllBits) return std::nullopt;
    change.steps_.push_back({.operation = '=', .who = kAllBits, .bits = octal});
    return change;
  }
  while (true) {
    uint32_t who = 0;
    while (!text.empty() && ClassBits(text.front()) != 0) {
      who |= ClassBits(text.front());
      text.remove_prefix(1);
    }
    if (text.empty() || text.front() == ',') return std::nullopt;
    while (!text.empty() && text.front() != ',') {
      Step step{.operation = text.front(), .who = who};
      if (step.operation != '+' && step.operation != '-' && step.operation != '=') return std::nullopt;
      text.remove_prefix(1);
      if (!text.empty() && (text.front() == 'u' || text.front() == 'g' || text.front() == 'o')) {
        step.copied = text.front();
        text.remove_prefix(1);
      }
      for (; step.copied == 0 && !text.empty(); text.remove_prefix(1)) {
        const uint32_t bits = PermissionBits(text.front());
        if (bits == 0 && text.front() != 'X') break;
        step.bits |= bits;
        step.if_any = step.if_any || text.front() == 'X';
      }
      change.steps_.push_back(step);
    }
    if (text.empty()) return change;
    text.remove_prefix(1);  // the comma
  }
}

uint32_t ModeChange::Apply(uint32_t mode, bool is_directory, uint32_t umask) const {
  for (const Step& step : steps_) {
    uint32_t bits = step.copied != 0 ? CopyOf(mode, step.copied) : step.bits;
    if (step.if_any && (is_directory || (mode & 0111) != 0)) bits |= 0111;
    const uint32_t who = step.who == 0 ? kAllBits : step.who;
    bits &= who;
    if (step.who == 0) bits &= ~umask;
    switch (step.operation) {
      case '+':
        mode |= bits;
        break;
      case '-':
        mode &= ~bits;
        break;
      default:
        mode = (mode & ~who) | bits;
    }
  }
  return mode & kAllBits;
}

std::string WrongMode(std::string_view text) {
  return fmt::format("{}: a mode is an octal number of at most four digits, or changes such as u+x,g=rw", text);
}

uint32_t ProcessUmask() {
  const mode_t mask = ::umask(0);
  ::umask(mask);
  return mask;
}

}  // namespace penstock::cli
