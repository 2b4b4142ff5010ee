// NFS version 4 as an RPC program: NULL, and COMPOUND in every dialect that the server speaks (RFC 7530 §15, RFC 8881
// §16, RFC 7862).
//
// The program executes a COMPOUND as a stream: it decodes one operation, executes it and encodes the result, then the
// next one, until an operation fails (RFC 8881 §16.2.3). Payloads stay beside the stream in their order, so that over
// RDMA each payload finds its chunk (RFC 8267 §6.4.1).
#pragma once

#include "nfs/v4/engine/compound.h"
#include "nfs/v4/engine/compound_head.h"
#include "rpc/dispatch.h"

namespace penstock::nfs::v4 {

class Program final : public rpc::Program {
 public:
  // The objects that the services refer to outlive the program.
  explicit Program(const Services& services) : services_(services) {}

  uint32_t number() const override;
  rpc::VersionRange versions() const override;
  // Decodes the head of a COMPOUND into CallContext::head. Call() lowers CallContext::keep if the COMPOUND turns out to
  // be harmless.
  rpc::Classification Classify(rpc::CallContext& context, xdr::Decoder& arguments) const override;
  void Preview(rpc::CallContext& context, xdr::Decoder& arguments) const override;
  Task<rpc::AcceptStatus> Call(rpc::CallContext& context, xdr::Decoder& arguments, xdr::Encoder& results) override;

 private:
  Task<rpc::AcceptStatus> RunCompound(rpc::CallContext& context, xdr::Decoder& arguments, xdr::Encoder& results) const;

  const Services services_;
};

}  // namespace penstock::nfs::v4
