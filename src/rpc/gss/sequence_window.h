// Which of a context's sequence numbers have been seen: RFC 2203 §5.3.3.1. With it, a call that somebody recorded and
// sends again is dropped, while calls may overtake each other.
#pragma once

#include <bitset>
#include <cstdint>

namespace penstock::rpc::gss {

// Of the newest number that was seen, and the kSize - 1 before it, each is known.
class SequenceWindow {
 public:
  // The calls that a client may have under way within a context: more than it has slots in a session.
  static constexpr uint32_t kSize = 1024;

  // False where a call with this number is to be dropped: it has been seen, or is too old to tell.
  bool IsNew(uint32_t number) const {
    if (empty_ || number > newest_) return true;
    return newest_ - number < kSize && !seen_[number % kSize];
  }

  // Marks `number` as seen, which must be proven to come from the client: a forged one would make all others old. False
  // as IsNew().
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
