// The slots of a session's fore channel: they execute each request exactly once (RFC 8881 §2.10.6).
//
// A slot holds the sequence ID of the last request that was executed on it, and the reply if the client asked to keep
// it. The number of slots that a client may use is negotiated once. The number that it should use, the target, may
// change later up to that number (§2.10.6.1): slots beyond the target are retired once the client shows that it has
// seen the target, and come back when the target rises again.
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
  // `last`: the sequence ID before that of the first request. Requires count > 0.
  explicit ReplySlots(uint32_t count, SequenceId last = SequenceId(0));

  struct Request {
    SlotId slot;
    SequenceId sequence;
    SlotId highest_slot;
    // The digest of the request and its caller. It tells a retry from another request with the same sequence ID
    // (§2.10.6.1.3.1).
    uint64_t digest = 0;
  };

  enum class Outcome : uint8_t {
    kRun,       // a new request: execute it, then Finish()
    kReplay,    // a retry: here is the reply
    kUncached,  // a retry of a request that was executed and whose reply was not kept
  };
  struct Started {
    Outcome outcome;
    xdr::Message reply{};  // kReplay
  };

  // Starts a request on its slot, as SEQUENCE does. The errors leave the table unchanged (§2.10.6.1.2):
  // NFS4ERR_BADSLOT, NFS4ERR_BAD_HIGH_SLOT, NFS4ERR_SEQ_MISORDERED, NFS4ERR_SEQ_FALSE_RETRY, and NFS4ERR_DELAY for a
  // retry of a request that is still being executed (§2.10.6.2).
  Result<Started, nfs4::nfsstat4> Start(const Request& request);

  // Whether the sequence ID is that of the last request on the slot, so that the request is not new.
  bool IsLast(SlotId slot, SequenceId sequence) const;

  // Ends the execution of a request that Start() started. `reply` is kept for retries and must own its memory.
  void Finish(SlotId slot, SequenceId sequence, std::optional<xdr::Message> reply);

  // Sets how many slots the client should use: at least one, and at most count().
  void SetTarget(uint32_t slots);

  uint32_t count() const { return static_cast<uint32_t>(slots_.size()); }
  // The number of requests under way.
  uint32_t busy() const { return busy_; }
  // The octets of the replies that are kept.
  size_t kept_octets() const { return kept_octets_; }
  // Whether the client may still use slots beyond the target, because it has not shown that it has seen the target.
  bool owes_slots() const { return granted_ > target_; }
  // sr_highest_slotid and sr_target_highest_slotid.
  SlotId highest() const { return SlotId(granted_ - 1); }
  SlotId target_highest() const { return SlotId(target_ - 1); }

 private:
  struct Slot {
    SequenceId sequence{0};
    bool used = false;  // the slot has executed a request, or is executing one
    bool busy = false;
    bool kept = false;   // reply is the whole reply
    bool fresh = false;  // retired and given again: the client may have forgotten the sequence ID
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
  uint32_t generation_ = 0;  // changes with target_
  uint32_t busy_ = 0;
  size_t kept_octets_ = 0;
};

}  // namespace penstock::nfs::v4
