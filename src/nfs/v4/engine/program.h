// NFS version 4 as an RPC program: NULL, and COMPOUND of minor versions 0, 1 and 2 (RFC 7530 §15, RFC 8881 §16, RFC
// 7862).
//
// A COMPOUND is a stream: one operation is decoded, executed, and its result encoded, then the next, until one fails
// (RFC 8881 §16.2.3). Its payloads stay beside the stream in their order, so that over RDMA each finds its chunk (RFC
// 8267 §6.4.1).
#pragma once

#include "nfs/v4/engine/compound.h"
#include "rpc/dispatch.h"

namespace penstock::nfs::v4 {

class Program final : public rpc::Program {
 public:
  // What the services refer to outlives the program.
  explicit Program(const Services& services) : services_(services) {}

  uint32_t number() const override;
  rpc::VersionRange versions() const override;
  // A COMPOUND says while it is executed whether it was harmless to do so (CallContext::keep).
  bool IsIdempotent(uint32_t version, uint32_t procedure) const override;
  // From minor version 1 on there are sessions for that.
  bool MeetsDuplicates(uint32_t version, uint32_t procedure, ConstBytes arguments) const override;
  bool PlacesItems(uint32_t version, uint32_t procedure, xdr::Decoder& arguments) const override;
  Task<rpc::AcceptStatus> Call(rpc::CallContext& context, xdr::Decoder& arguments, xdr::Encoder& results) override;

 private:
  Task<rpc::AcceptStatus> RunCompound(rpc::CallContext& context, xdr::Decoder& arguments, xdr::Encoder& results) const;

  const Services services_;
};

}  // namespace penstock::nfs::v4
