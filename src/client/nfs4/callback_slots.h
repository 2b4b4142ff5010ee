// The slots of a session's back channel, as the client sees them, whom the server calls: RFC 8881 §2.10.6.1, §20.9.
#pragma once

#include <cstdint>
#include <vector>

#include "protocol/nfs4_types.h"
#include "xdr/message.h"

namespace penstock::client::v4 {

class CallbackSlots {
 public:
  explicit CallbackSlots(uint32_t slots) : slots_(slots) {}

  struct Start {
    // NFS4_OK: execute it, then Finish(). Otherwise the error that CB_SEQUENCE gives.
    nfs4::nfsstat4 status = nfs4::nfsstat4::NFS4_OK;
    // A repetition: the results of the first time, to be given again. Null otherwise.
    const xdr::Message* replay = nullptr;
  };
  Start HandleSequence(uint32_t slot, uint32_t sequence);
  // What was said to the call that has begun in `slot`.
  void Finish(uint32_t slot, xdr::Message results);

  uint32_t highest() const { return static_cast<uint32_t>(slots_.size()) - 1; }

 private:
  struct Slot {
    uint32_t sequence = 0;
    bool in_use = false;
    xdr::Message results;
  };
  std::vector<Slot> slots_;
};

}  // namespace penstock::client::v4
