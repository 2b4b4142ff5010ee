// The slots of a session's fore channel: exactly-once execution of what clients send (RFC 8881 §2.10.6).
//
// A slot holds the number of the last request that was executed on it, and its reply where the client asked for that.
// How many slots a client may use is negotiated once; how many it should use may change later, up to that (§2.10.6.1):
// slots beyond the target are retired once the client shows that it has seen the target, and come back when the target
// rises again.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/result.h"
#include "nfs/v4/state/ids.h"
#include "xdr/message.h"

namespace penstock::nfs::v4 {

class ReplySlots {
 public:
  // `last`: the number before that of the first request. Requires count > 0.
  explicit ReplySlots(uint32_t count, SequenceId last = SequenceId(0));

  struct Request {
    SlotId slot;
    SequenceId sequence;
    SlotId highest_slot;
    // Of what was asked and by whom, so that another request under the same number is told from a retry
    // (§2.10.6.1.3.1).
    uint64_t digest = 0;
  };

  enum class Outcome : uint8_t {
    kRun,       // a new request: execute it, then Finish()
    kReplay,    // a retry: here is the reply
    kUncached,  // a retry of what was executed, with a reply that was not kept
  };
  struct Started {
    Outcome outcome;
    xdr::Message reply{};  // kReplay
  };

  // What SEQUENCE does with the slot. Its errors leave the table as it is (§2.10.6.1.2): NFS4ERR_BADSLOT,
  // NFS4ERR_BAD_HIGH_SLOT, NFS4ERR_SEQ_MISORDERED, NFS4ERR_SEQ_FALSE_RETRY, and NFS4ERR_DELAY for a retry of what is
  // still being executed (§2.10.6.2).
  Result<Started, nfs4::nfsstat4> Start(const Request& request);

  // Whether a request's number is that of the last one on its slot: it is not a new one.
  bool IsLast(SlotId slot, SequenceId sequence) const;

  // Ends the execution of a request that was started; `reply`, in memory of its own, is for retries.
  void Finish(SlotId slot, SequenceId sequence, std::optional<xdr::Message> reply);

  // How many slots the client should use, at least one and no more than count().
  void SetTarget(uint32_t slots);

  uint32_t count() const { return static_cast<uint32_t>(slots_.size()); }
  // Requests under way.
  uint32_t busy() const { return busy_; }
  // Of the replies that are kept.
  size_t kept_octets() const { return kept_octets_; }
  // The client may use slots beyond the target: it has not shown yet that it has seen that.
  bool owes_slots() const { return granted_ > target_; }
  // sr_highest_slotid and sr_target_highest_slotid.
  SlotId highest() const { return SlotId(granted_ - 1); }
  SlotId target_highest() const { return SlotId(target_ - 1); }

 private:
  struct Slot {
    SequenceId sequence{0};
    bool used = false;  // a request has been executed, or is
    bool busy = false;
    bool kept = false;   // reply is the whole reply
    bool fresh = false;  // retired and given again: the client may have forgotten where it was
    uint32_t told = 0;   // the generation of the target that the last reply carried
    uint64_t digest = 0;
    xdr::Message reply{};
  };

  Result<Started, nfs4::nfsstat4> Retry(const Slot& slot, const Request& request) const;
  void Retire();
  void Replace(Slot& slot, Slot with);

  std::vector<Slot> slots_;
  uint32_t granted_;  // slots that may be used: [0, granted_)
  uint32_t target_;
  uint32_t generation_ = 0;  // of target_
  uint32_t busy_ = 0;
  size_t kept_octets_ = 0;
};

}  // namespace penstock::nfs::v4
