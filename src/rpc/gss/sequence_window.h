// Records which sequence numbers of a context have been used: RFC 2203 §5.3.3.1. It detects replayed calls, and allows
// calls to overtake each other.
#pragma once

#include <bitset>
#include <cstdint>

namespace penstock::rpc::gss {

// The window covers the highest used number and the kSize - 1 numbers before it.
class SequenceWindow {
 public:
  // The maximum number of a client's calls under way in a context: more than the slots of a session.
  static constexpr uint32_t kSize = 1024;

  // Returns false if a call with this number must be dropped: the number has been used, or is below the window.
  bool IsNew(uint32_t number) const {
    if (empty_ || number > newest_) return true;
    return newest_ - number < kSize && !seen_[number % kSize];
  }

  // Marks `number` as used. Returns false like IsNew(). Call it only after the verifier has proven that the client sent
  // the number: a forged high number would put all others below the window.
  bool Take(uint32_t number) {
    if (!IsNew(number)) return false;
    if (empty_ || number > newest_) MoveTo(number);
    seen_.set(number % kSize);
    return true;
  }

 private:
  void MoveTo(uint32_t number) {
    if (empty_ || number - newest_ >= kSize) {
      seen_.reset();
    } else {
      for (uint32_t skipped = newest_ + 1; skipped <= number; ++skipped) seen_.reset(skipped % kSize);
    }
    newest_ = number;
    empty_ = false;
  }

  std::bitset<kSize> seen_;  // by number modulo kSize
  uint32_t newest_ = 0;
  bool empty_ = true;
};

}  // namespace penstock::rpc::gss
