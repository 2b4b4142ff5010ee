// NFSACL versions 2 and 3 as an RPC program: POSIX access control lists beside the same versions of NFS. Clients send
// its calls over the connection of NFS (RFC 8267 §5.2).
#pragma once

#include "nfs/exports.h"
#include "nfs/file_claims.h"
#include "nfs/v2/program.h"
#include "nfs/v3/settings.h"
#include "rpc/dispatch.h"

namespace penstock::nfs::acl {

class Program final : public rpc::Program {
 public:
  // `exports` and `claims` as for v3::Program. Version 2 is served beside `nfs2`, which outlives this program; null if
  // the server does not serve that version.
  explicit Program(const Exports& exports, FileClaims* claims = nullptr, v2::Program* nfs2 = nullptr)
      : exports_(exports), claims_(claims), nfs2_(nfs2) {}

  uint32_t number() const override;
  rpc::VersionRange versions() const override;
  rpc::Classification Classify(rpc::CallContext& context, xdr::Decoder& arguments) const override;
  Task<rpc::AcceptStatus> Call(rpc::CallContext& context, xdr::Decoder& arguments, xdr::Encoder& results) override;
  void HandleFailure(const rpc::CallContext& context) const override { exports_.HandleFailure(context); }

 private:
  Task<rpc::AcceptStatus> CallVersion2(rpc::CallContext& context, xdr::Decoder& arguments, xdr::Encoder& results);

  const Exports& exports_;
  const v3::Settings settings_;
  FileClaims* const claims_;
  v2::Program* const nfs2_;
};

}  // namespace penstock::nfs::acl
