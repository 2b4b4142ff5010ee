// NFSACL version 3 as an RPC program: POSIX access control lists beside NFS version 3. Clients send its calls over the
// connection of NFS (RFC 8267 §5.2).
#pragma once

#include "nfs/exports.h"
#include "nfs/file_claims.h"
#include "nfs/v3/settings.h"
#include "rpc/dispatch.h"

namespace penstock::nfs::acl {

class Program final : public rpc::Program {
 public:
  // As for v3::Program.
  explicit Program(const Exports& exports, FileClaims* claims = nullptr) : exports_(exports), claims_(claims) {}

  uint32_t number() const override;
  rpc::VersionRange versions() const override;
  rpc::Classification Classify(rpc::CallContext& context, xdr::Decoder& arguments) const override;
  Task<rpc::AcceptStatus> Call(rpc::CallContext& context, xdr::Decoder& arguments, xdr::Encoder& results) override;

 private:
  const Exports& exports_;
  const v3::Settings settings_;
  FileClaims* const claims_;
};

}  // namespace penstock::nfs::acl
