// The slots of a session's back channel on the client's side, where the server is the requester (RFC 8881 §2.10.6.1,
// §20.9). They make each callback execute exactly once.
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
    // NFS4_OK: execute the call, then call Finish(). Otherwise the error of CB_SEQUENCE.
    nfs4::nfsstat4 status = nfs4::nfsstat4::NFS4_OK;
    // For a repeated call, the results of its first execution, which are the answer. Otherwise null.
    const xdr::Message* replay = nullptr;
  };
  Start HandleSequence(uint32_t slot, uint32_t sequence);
  // Ends the call in `slot` and keeps its results.
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
