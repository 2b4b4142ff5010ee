// The slots of a session's fore channel on the client's side (RFC 8881 §2.10.6.1). A slot carries one request at a time
// and gives it a sequence id, so that the server executes the request exactly once, however often it arrives.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace penstock::client::v4 {

// A slot and the sequence id of its request.
struct SlotUse {
  uint32_t slot = 0;
  uint32_t sequence = 0;
  bool operator==(const SlotUse&) const = default;
};

class SlotTable {
 public:
  // `slots` is the number that CREATE_SESSION has negotiated; the table has at least one. `first` is the first sequence
  // id.
  explicit SlotTable(uint32_t slots, uint32_t first = 1);

  // Takes the lowest free slot. Returns nothing if the server accepts no more requests now.
  std::optional<SlotUse> Take();
  // Takes a slot whose last request may or may not have been executed. A lone SEQUENCE with the same sequence id
  // settles it.
  std::optional<SlotUse> TakeDoubtful();

  // Each of these ends a request. HandleExecuted(): its SEQUENCE succeeded, so the next request has the next sequence
  // id.
  void HandleExecuted(SlotUse use);
  // Its SEQUENCE failed, so the next request has the same sequence id.
  void HandleRefused(SlotUse use);
  // It has no reply, so the slot becomes doubtful.
  void HandleLost(SlotUse use);

  // Each SEQUENCE reply has the highest slot that the server accepts and the highest that it wants to be used. The
  // server forgets slots above the first; their sequence ids start from one when it accepts them again.
  void HandleLimits(uint32_t highest, uint32_t target);
  // CB_RECALL_SLOT (RFC 8881 §20.8).
  void HandleTarget(uint32_t target);

  // Whether the request has been sent and its reply has not been seen.
  bool IsUnderWay(SlotUse use) const {
    return use.slot < slots_.size() && slots_[use.slot].state != State::kFree &&
           slots_[use.slot].sequence == use.sequence;
  }
  // For SEQUENCE. Zero if no slot is in use.
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
  uint32_t highest_;  // the highest slot that may be taken
  uint32_t in_use_ = 0;
};

}  // namespace penstock::client::v4
