// NFS version 3 as an RPC program (RFC 1813 §3).
#pragma once

#include "nfs/exports.h"
#include "nfs/file_claims.h"
#include "nfs/v3/settings.h"
#include "rpc/dispatch.h"

namespace penstock::nfs::v3 {

class Program final : public rpc::Program {
 public:
  // `exports` outlives the program and does not change any more. `claims` outlives it, too: the state that clients of
  // other versions hold on the same files; null if the server serves no other version.
  explicit Program(const Exports& exports, Settings settings = {}, FileClaims* claims = nullptr)
      : exports_(exports), settings_(settings), claims_(claims) {}

  uint32_t number() const override;
  rpc::VersionRange versions() const override;
  rpc::Classification Classify(rpc::CallContext& context, xdr::Decoder& arguments) const override;
  Task<rpc::AcceptStatus> Call(rpc::CallContext& context, xdr::Decoder& arguments, xdr::Encoder& results) override;
  void HandleFailure(const rpc::CallContext& context) const override { exports_.HandleFailure(context); }

 private:
  const Exports& exports_;
  const Settings settings_;
  FileClaims* const claims_;
};

}  // namespace penstock::nfs::v3
