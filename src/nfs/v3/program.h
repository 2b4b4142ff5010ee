// NFS version 3 as an RPC program (RFC 1813 §3).
#pragma once

#include "nfs/exports.h"
#include "nfs/v3/settings.h"
#include "rpc/dispatch.h"

namespace penstock::nfs::v3 {

class Program final : public rpc::Program {
 public:
  // `exports` outlives the program, and does not change any more.
  explicit Program(const Exports& exports, Settings settings = {}) : exports_(exports), settings_(settings) {}

  uint32_t number() const override;
  rpc::VersionRange versions() const override;
  bool IsIdempotent(uint32_t version, uint32_t procedure) const override;
  bool IsHarmfulLate(uint32_t version, uint32_t procedure) const override;
  Task<rpc::AcceptStatus> Call(rpc::CallContext& context, xdr::Decoder& arguments, xdr::Encoder& results) override;

 private:
  const Exports& exports_;
  const Settings settings_;
};

}  // namespace penstock::nfs::v3
