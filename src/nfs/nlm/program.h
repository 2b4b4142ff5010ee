// The Network Lock Manager as an RPC program: its messages (RFC 1813 appendix II, X/Open XNFS). Version 4 accompanies
// NFS version 3; versions 1 and 3 accompany NFS version 2.
#pragma once

#include "nfs/nlm/lock_manager.h"
#include "rpc/dispatch.h"

namespace penstock::nfs::nlm {

// One version of the program.
class Program final : public rpc::Program {
 public:
  // `version` is 1, 3 or 4. The manager outlives the program.
  Program(LockManager& manager, uint32_t version) : manager_(manager), version_(version) {}

  uint32_t number() const override;
  rpc::VersionRange versions() const override { return {.low = version_, .high = version_}; }
  rpc::Classification Classify(rpc::CallContext& context, xdr::Decoder& arguments) const override;
  Task<rpc::AcceptStatus> Call(rpc::CallContext& context, xdr::Decoder& arguments, xdr::Encoder& results) override;

 private:
  LockManager& manager_;
  const uint32_t version_;
};

}  // namespace penstock::nfs::nlm
