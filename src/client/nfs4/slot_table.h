// The slots of a session's fore channel, as its client sees them: RFC 8881 §2.10.6.1. Each carries one request at a
// time, and counts them, so that the server executes each exactly once however often it comes.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace penstock::client::v4 {

// What a SEQUENCE names.
struct SlotUse {
  uint32_t slot = 0;
  uint32_t sequence = 0;
  bool operator==(const SlotUse&) const = default;
};

class SlotTable {
 public:
  // As many slots as CREATE_SESSION has agreed on, at least one. `first`: the number of the first request in each.
  explicit SlotTable(uint32_t slots, uint32_t first = 1);

  // The lowest slot that is free; nothing where the server wants no more requests now.
  std::optional<SlotUse> Take();
  // A slot whose last request may or may not have been executed: a SEQUENCE of its own, with the same sequence id,
  // makes it certain.
  std::optional<SlotUse> TakeDoubtful();

  // How a request ended. Its SEQUENCE succeeded, whatever came of the rest: the next has the next number.
  void HandleExecuted(SlotUse use);
  // Its SEQUENCE failed: the number is still to be used.
  void HandleRefused(SlotUse use);
  // Nobody knows.
  void HandleLost(SlotUse use);

  // What the server says in each SEQUENCE: the highest slot that it takes, and the highest that it would like to be
  // used. What it does not take any more it has forgotten, and begins from one when it is taken again.
  void HandleLimits(uint32_t highest, uint32_t target);
  // CB_RECALL_SLOT (RFC 8881 §20.8).
  void HandleTarget(uint32_t target);

  // Whether that request has been sent and its reply not been seen.
  bool IsUnderWay(SlotUse use) const {
    return use.slot < slots_.size() && slots_[use.slot].state != State::kFree &&
           slots_[use.slot].sequence == use.sequence;
  }
  // For SEQUENCE: zero where none is in use.
  uint32_t highest_in_use() const;
  bool idle() const { return in_use_ == 0; }
  uint32_t in_use() const { return in_use_; }

 private:
  enum class State : uint8_t { kFree, kInUse, kDoubtful };
  struct Slot {
    uint32_t sequence = 1;
    State state = State::kFree;
  };

  Slot& InUse(SlotUse use);
  void Give(Slot& slot, State state);

  std::vector<Slot> slots_;
  uint32_t highest_;  // of those that may be taken
  uint32_t in_use_ = 0;
};

}  // namespace penstock::client::v4
