// MOUNT version 3 as an RPC program (RFC 1813, appendix I), over TCP and UDP. A client gets its first file handle from it.
#pragma once

#include "nfs/exports.h"
#include "nfs/mount/mount_list.h"
#include "protocol/mount.h"
#include "rpc/dispatch.h"

namespace penstock::nfs::mount {

class Program final : public rpc::Program {
 public:
  // `exports` must outlive the program, and must not change.
  explicit Program(const Exports& exports) : exports_(exports) {}

  uint32_t number() const override;
  rpc::VersionRange versions() const override;
  // All procedures are idempotent: a second execution of MNT, UMNT or UMNTALL leads to the same list of mounts.
  rpc::Classification Classify(rpc::CallContext& /*context*/, xdr::Decoder& /*arguments*/) const override { return {}; }
  Task<rpc::AcceptStatus> Call(rpc::CallContext& context, xdr::Decoder& arguments, xdr::Encoder& results) override;

  const MountList& mounts() const { return mounts_; }

 private:
  Task<mount3::mountres3> Mount(rpc::CallContext& context, const mount3::dirpath& path);
  Task<rpc::AcceptStatus> Dump(xdr::Decoder& arguments, xdr::Encoder& results);
  xdr::Void Unmount(rpc::CallContext& context, const mount3::dirpath& path);
  xdr::Void UnmountAll(rpc::CallContext& context);
  Task<rpc::AcceptStatus> ListExports(xdr::Decoder& arguments, xdr::Encoder& results);

  const Exports& exports_;
  MountList mounts_;
};

}  // namespace penstock::nfs::mount
