// The callback program: it executes the calls that a server sends to its client over the back channel of a session
// (RFC 8881 §20).
#pragma once

#include <utility>

#include "client/nfs4/callback_compound.h"
#include "client/nfs4/callback_slots.h"
#include "client/nfs4/delegation_table.h"
#include "client/nfs4/slot_table.h"
#include "protocol/nfs4_callback.h"

namespace penstock::client::v4 {

// The part of the client that handles callbacks.
class CallbackReceiver {
 public:
  // The session that has the back channel now.
  virtual nfs4::sessionid4 session() const = 0;
  // Whether the client has sent `request` and has not seen its reply.
  virtual bool IsUnderWay(SlotUse request) const = 0;
  // CB_RECALL_SLOT
  virtual void HandleSlotTarget(uint32_t target) = 0;
  // CB_RECALL. Returns the status of the operation.
  virtual nfs4::nfsstat4 HandleRecall(const nfs4::CB_RECALL4args& recall) = 0;
  // CB_RECALL_ANY. Its type mask names defined types only.
  virtual void HandleRecallAny(const nfs4::CB_RECALL_ANY4args& recall) = 0;
  // CB_GETATTR. Returns the write delegation of the file, or null.
  virtual DelegationTable::Pointer DelegationOf(const Handle& file) = 0;
  // CB_NOTIFY_LOCK
  virtual void HandleLockAvailable(const Handle& file) = 0;

 protected:
  ~CallbackReceiver() = default;
};

// Belongs to the loop of the session.
class CallbackProgram final : public CallbackCompounds {
 public:
  // `receiver` outlives it.
  CallbackProgram(uint32_t slots, CallbackReceiver& receiver)
      : slot_count_(slots), slots_(slots), receiver_(receiver) {}

 private:
  bool Speaks(uint32_t minor_version) const override;
  nfs4::nfsstat4 status_of_none() const override { return nfs4::nfsstat4::NFS4_OK; }
  Task<Opened> Open(rpc::Xid xid, nfs4::nfs_cb_opnum4 operation, xdr::Decoder& arguments,
                    xdr::Encoder& results) override;
  Task<nfs4::nfsstat4> Execute(nfs4::nfs_cb_opnum4 operation, xdr::Decoder& arguments, xdr::Encoder& results) override;
  void HandleEnd(const Opened& opened, xdr::Message results) override {
    slots_.Finish(opened.stream, std::move(results));
  }
  Opened Sequence(xdr::Decoder& arguments, xdr::Encoder& results);
  bool RefersToACallUnderWay(const nfs4::CB_SEQUENCE4args& sequence) const;

  const uint32_t slot_count_;
  nfs4::sessionid4 current_{};
  CallbackSlots slots_;
  CallbackReceiver& receiver_;
};

}  // namespace penstock::client::v4
