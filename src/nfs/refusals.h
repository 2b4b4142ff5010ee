// The refusals of the programs of NFS, for the log: who was refused what, why, and which option would allow it.
// base/refusal_log.h bounds their number.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "base/address.h"
#include "base/refusal_log.h"
#include "nfs/export_options.h"
#include "rpc/dispatch.h"
#include "rpc/transport.h"

namespace penstock::fs {
struct RequestContext;
}

namespace penstock::nfs {

class Export;

// Thread-safe. Each function logs one refusal.
class Refusals {
 public:
  // Makes a log of its own, as for tests.
  Refusals() : Refusals(std::make_shared<RefusalLog>()) {}
  explicit Refusals(std::shared_ptr<RefusalLog> log, bool squash_matters = true)
      : log_(std::move(log)), squash_matters_(squash_matters) {}

  RefusalLog& log() const { return *log_; }

  // The export refuses the client's host or port.
  void Refuse(const SocketAddress& client, const Export& refused) const;
  // Export::AdmitsProtection() is false.
  void RefuseProtection(const rpc::Peer& client, const Export& refused) const;
  // The export does not take calls of this flavor from the client, but those of `taken`.
  void RefuseFlavor(const rpc::CallContext& call, const Export& refused, const SecurityFlavors& taken) const;
  // No export admits the client.
  void RefuseAll(const SocketAddress& client) const;
  // No export has the path that the client wants to mount.
  void RefusePath(const SocketAddress& client, std::string_view path) const;
  // The client may not mount a directory of the export by this path, whoever its user is. `why` goes on after a colon.
  void RefuseWay(const SocketAddress& client, const Export& in, std::string_view path, std::string_view why) const;
  // The directory of an export is gone.
  void Miss(const SocketAddress& client, const Export& missed) const;
  // The client's version of NFS has no referrals.
  void CannotRefer(const SocketAddress& client, const Export& referral) const;

  // A call, or an operation of a COMPOUND, that has ended with `status`: an error of NFS version 2, 3 or 4, which have
  // the same numbers for those that matter here.
  struct Failed {
    const rpc::CallContext& call;
    std::string_view operation;  // by the protocol's name: "NFSPROC3_SETATTR", "OP_SETATTR"
    uint32_t status = 0;
    const Export* in = nullptr;  // null if the file handle has led to no export
    bool root_is_squashed = false;
    bool read_only = false;  // for this client
  };
  // Logs the failure if it is a refusal: a squashed root without a permission, a read-only export, a file handle that
  // leads nowhere. Other failures belong to the work of the client's programs. Does nothing if the refusal is logged
  // already (rpc::CallOutcome::told).
  void HandleFailure(const Failed& failed) const;
  // The same for a call of version 2 or 3, from its outcome.
  void HandleFailure(const rpc::CallContext& call, const Export* in) const;

 private:
  const std::shared_ptr<RefusalLog> log_;
  const bool squash_matters_;
};

// Whether the export has taken the rights of root from the caller.
bool IsSquashedRoot(const rpc::Credential& credential, const fs::RequestContext& context);

}  // namespace penstock::nfs
