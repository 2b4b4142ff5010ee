// NFS version 2 as an RPC program (RFC 1094 §2).
#pragma once

#include <atomic>

#include "nfs/exports.h"
#include "nfs/file_claims.h"
#include "nfs/v2/cookie_table.h"
#include "nfs/v2/settings.h"
#include "rpc/dispatch.h"

namespace penstock::nfs::v2 {

struct Execution;

class Program final : public rpc::Program {
 public:
  // `exports` outlives the program and does not change any more. `claims` outlives it, too: the state that clients of
  // version 4 hold on the same files; null if the server does not serve that version.
  explicit Program(const Exports& exports, Settings settings = {}, FileClaims* claims = nullptr)
      : exports_(exports),
        settings_(settings),
        claims_(claims),
        cookies_(settings.cookie_clients, settings.cookies_of_client) {}

  uint32_t number() const override;
  rpc::VersionRange versions() const override;
  rpc::Classification Classify(rpc::CallContext& context, xdr::Decoder& arguments) const override;
  Task<rpc::AcceptStatus> Call(rpc::CallContext& context, xdr::Decoder& arguments, xdr::Encoder& results) override;
  void HandleFailure(const rpc::CallContext& context) const override { exports_.HandleFailure(context); }

  // Returns the input of a procedure (run.h), also for the procedures of the program that accompanies this one, NFSACL
  // version 2. The result refers to this program and to `context`.
  Execution ExecutionOf(rpc::CallContext& context);

  // Makes calls that wait (nfs/patience.h) end soon, without a reply. Later calls do not wait. Any thread may call it.
  void StopWaiting() { stops_ = true; }

 private:
  const Exports& exports_;
  const Settings settings_;
  FileClaims* const claims_;
  CookieTable cookies_;
  std::atomic<bool> stops_ = false;
};

}  // namespace penstock::nfs::v2
