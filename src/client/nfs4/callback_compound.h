// The callback programs of all kinds of sessions execute a CB_COMPOUND in the same way: its first operation recognizes
// repetitions, and the other operations follow until one fails. This base class does what they share.
#pragma once

#include <cstdint>

#include "protocol/nfs4_callback.h"
#include "rpc/dispatch.h"

namespace penstock::client::v4 {

// Belongs to the loop of the session.
class CallbackCompounds : public rpc::Program {
 public:
  uint32_t number() const final { return nfs4::NFS4_CALLBACK; }
  rpc::VersionRange versions() const final { return {1, 1}; }
  // The session recognizes duplicates. A server that protects its callbacks makes none without protection, so such
  // calls are somebody else's.
  rpc::Classification Classify(rpc::CallContext& context, xdr::Decoder& /*arguments*/) const final {
    return {.accepts_flavor = !is_protected_ || context.credential.flavor == rpc::AuthFlavor::RPCSEC_GSS};
  }
  Task<rpc::AcceptStatus> Call(rpc::CallContext& context, xdr::Decoder& arguments, xdr::Encoder& results) final;

 protected:
  // The result of the first operation.
  struct Opened {
    nfs4::nfsstat4 status = nfs4::nfsstat4::NFS4_OK;
    const xdr::Message* replay = nullptr;  // these are the results of the whole CB_COMPOUND
    bool runs = false;                     // the CB_COMPOUND is executed, so that HandleEnd() follows
    // The place of the CB_COMPOUND in its session.
    uint32_t channel = 0;
    uint32_t stream = 0;  // or slot
  };

  virtual bool Speaks(uint32_t minor_version) const = 0;
  // The status of a CB_COMPOUND without operations.
  virtual nfs4::nfsstat4 status_of_none() const = 0;
  // Executes the first operation, and encodes its result unless there is a replay.
  virtual Task<Opened> Open(rpc::Xid xid, nfs4::nfs_cb_opnum4 operation, xdr::Decoder& arguments,
                            xdr::Encoder& results) = 0;
  // Executes one of the other operations, and encodes its result.
  virtual Task<nfs4::nfsstat4> Execute(nfs4::nfs_cb_opnum4 operation, xdr::Decoder& arguments,
                                       xdr::Encoder& results) = 0;
  // Takes the results of a CB_COMPOUND that was executed.
  virtual void HandleEnd(const Opened& opened, xdr::Message results) = 0;

 private:
  Task<rpc::AcceptStatus> Compound(rpc::Xid xid, xdr::Decoder& arguments, xdr::Encoder& results);

  bool is_protected_ = false;  // a callback under RPCSEC_GSS has arrived
};

}  // namespace penstock::client::v4
