// The callback program: what the server asks of its client over the back channel (RFC 8881 §20).
//
// We ask for no delegations, and give back at once one that comes all the same; so there is little to be asked.
#pragma once

#include <functional>

#include "client/nfs4/callback_slots.h"
#include "protocol/nfs4_callback.h"
#include "rpc/dispatch.h"

namespace penstock::client::v4 {

// Belongs to the loop of the session.
class CallbackProgram final : public rpc::Program {
 public:
  struct Session {
    // Whose back channel it is now.
    std::function<nfs4::sessionid4()> id;
    // CB_RECALL_SLOT.
    std::function<void(uint32_t target)> set_target;
  };
  CallbackProgram(uint32_t slots, Session session) : slot_count_(slots), slots_(slots), session_(std::move(session)) {}

  uint32_t number() const override { return nfs4::NFS4_CALLBACK; }
  rpc::VersionRange versions() const override { return {1, 1}; }
  // Its slots meet duplicates.
  bool IsIdempotent(uint32_t, uint32_t) const override { return true; }

  Task<rpc::AcceptStatus> Call(rpc::CallContext& context, xdr::Decoder& arguments, xdr::Encoder& results) override;

 private:
  rpc::AcceptStatus Compound(xdr::Decoder& arguments, xdr::Encoder& results);
  nfs4::nfsstat4 Sequence(xdr::Decoder& arguments, xdr::Encoder& results, std::optional<uint32_t>& slot,
                          const xdr::Message*& replay);
  nfs4::nfsstat4 Execute(nfs4::nfs_cb_opnum4 operation, xdr::Decoder& arguments, xdr::Encoder& results);

  const uint32_t slot_count_;
  nfs4::sessionid4 current_{};
  CallbackSlots slots_;
  const Session session_;
};

}  // namespace penstock::client::v4
