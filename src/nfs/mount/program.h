// MOUNT as an RPC program, over TCP and UDP. A client gets its first file handle from it: version 3 (RFC 1813,
// appendix I), and versions 1 and 2 for clients of NFS version 2 (RFC 1094, appendix A). The versions differ in the
// form of MNT's results. Version 2 adds PATHCONF.
#pragma once

#include <cstdint>
#include <string_view>

#include "nfs/exports.h"
#include "nfs/mount/mount_list.h"
#include "protocol/mount.h"
#include "protocol/mount1.h"
#include "rpc/dispatch.h"

namespace penstock::nfs::mount {

enum class Versions : uint8_t { kThree, kOneToThree };

class Program final : public rpc::Program {
 public:
  // `exports` must outlive the program, and must not change.
  explicit Program(const Exports& exports, Versions versions = Versions::kThree)
      : exports_(exports), served_(versions) {}

  uint32_t number() const override;
  rpc::VersionRange versions() const override;
  // All procedures are idempotent: a second execution of MNT, UMNT or UMNTALL leads to the same list of mounts.
  rpc::Classification Classify(rpc::CallContext& /*context*/, xdr::Decoder& /*arguments*/) const override { return {}; }
  Task<rpc::AcceptStatus> Call(rpc::CallContext& context, xdr::Decoder& arguments, xdr::Encoder& results) override;

  const MountList& mounts() const { return mounts_; }

 private:
  struct Place {
    std::shared_ptr<const ExportTable> table;  // holds the following two
    const Export* exported;
    const ExportOptions* options;
    fs::Handle directory;
  };
  // Finds a directory that the caller may mount.
  Task<Result<Place, mount3::mountstat3>> Find(rpc::CallContext& context, std::string_view path);
  Task<rpc::AcceptStatus> CallFirst(rpc::CallContext& context, xdr::Decoder& arguments, xdr::Encoder& results);
  Task<mount3::mountres3> Mount(rpc::CallContext& context, const mount3::dirpath& path);
  Task<mount1::fhstatus> MountFirst(rpc::CallContext& context, const mount1::dirpath& path);
  Task<mount1::ppathcnf> PathConfiguration(rpc::CallContext& context, const mount1::dirpath& path);
  Task<rpc::AcceptStatus> Dump(xdr::Decoder& arguments, xdr::Encoder& results);
  xdr::Void Unmount(rpc::CallContext& context, const mount3::dirpath& path);
  xdr::Void UnmountAll(rpc::CallContext& context);
  Task<rpc::AcceptStatus> ListExports(xdr::Decoder& arguments, xdr::Encoder& results);

  const Exports& exports_;
  const Versions served_;
  MountList mounts_;
};

}  // namespace penstock::nfs::mount
