// The callback program of a client with a session of 2004 (draft-talpey-nfsv4-rdma-sess-01 §2.6, §3.3, §6.5).
#pragma once

#include <optional>

#include "base/signal.h"
#include "client/nfs4/callback.h"
#include "client/nfs4/callback_compound.h"
#include "client/nfs4/sess01/callback_table.h"
#include "protocol/nfs4_callback.h"
#include "protocol/nfs4_sess01.h"

namespace penstock::client::v4::sess01 {

// A connection over which callbacks may arrive.
class BackConnection {
 public:
  // Waits while the connection is being bound: the first callback may overtake the reply to SESSION_BIND.
  virtual Task<void> AwaitBinding() = 0;
  // The channelid of its back channel; nothing if it carries none.
  virtual std::optional<uint32_t> back_channel() const = 0;

 protected:
  ~BackConnection() = default;
};

// The part of the client that handles callbacks of all its connections.
class BoundReceiver {
 public:
  virtual CallbackTable& callbacks() = 0;
  // Notified when the execution of a callback ends.
  virtual Signal& callbacks_changed() = 0;
  // CB_CREDITRECALL: uses no streamid of `target` or above any more. Returns when the last request with one has its
  // reply and the credits above the target are given back.
  virtual Task<nfs4::nfsstat4> RecallCredits(uint32_t target) = 0;

 protected:
  ~BoundReceiver() = default;
};

// Executes the callbacks of one connection. Belongs to the loop of the session.
class CallbackProgram final : public CallbackCompounds {
 public:
  // All outlive it. `state` handles CB_RECALL and CB_GETATTR.
  CallbackProgram(BackConnection& connection, BoundReceiver& session, CallbackReceiver& state)
      : connection_(connection), session_(session), state_(state) {}

 private:
  bool Speaks(uint32_t minor_version) const override;
  nfs4::nfsstat4 status_of_none() const override { return nfs4::nfsstat4::NFS4ERR_SESS01_CONTROL_POS; }
  Task<Opened> Open(rpc::Xid xid, nfs4::nfs_cb_opnum4 operation, xdr::Decoder& arguments,
                    xdr::Encoder& results) override;
  Task<nfs4::nfsstat4> Execute(nfs4::nfs_cb_opnum4 operation, xdr::Decoder& arguments, xdr::Encoder& results) override;
  void HandleEnd(const Opened& opened, xdr::Message results) override;
  // Looks for the callback in the table of the session.
  Task<Opened> Find(rpc::Xid xid, const nfs4::OPERATIONCONTROL4args& control);

  BackConnection& connection_;
  BoundReceiver& session_;
  CallbackReceiver& state_;
};

}  // namespace penstock::client::v4::sess01
