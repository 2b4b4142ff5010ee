// The object of a call's first handle, for the versions of NFS that have no state (2 and 3): it checks the export, the
// client and the flavor, and respects the claims that clients of version 4 have on files. Each version converts the
// errors into its own.
#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "base/task.h"
#include "fs/file_system.h"
#include "nfs/caller.h"
#include "nfs/exports.h"
#include "nfs/file_claims.h"
#include "rpc/dispatch.h"

namespace penstock::nfs {

// The call, and the objects of the server that it needs. All outlive the call.
struct TargetCall {
  const Exports& exports;
  rpc::CallContext& call;
  FileClaims* claims;  // null if no version with state is served
};

// The object of a handle, and the caller after the export's squashing. Not movable.
class Target {
 public:
  enum class Flavors : uint8_t { kOfExport, kAnyAtRoot };

  // `handle` has no value if it is malformed.
  Target(const TargetCall& of, const std::optional<FileHandle>& handle, Flavors flavors);
  Target(const Target&) = delete;
  Target& operator=(const Target&) = delete;

  explicit operator bool() const { return !error_; }
  // The error is kBadHandle if the handle is malformed, and kStale if its export is gone or refuses this client. If the
  // export does not accept the call's flavor or its connection, it is kAccess, and the call is denied. Requires an
  // invalid target.
  fs::Error error() const { return *error_; }

  // The following functions require a valid target (operator bool).
  const Export& exported() const { return *export_; }
  fs::FileSystem& file_system() const { return export_->file_system(); }
  const fs::RequestContext& context() const { return caller_->context(); }
  const fs::Handle& object() const { return object_; }
  bool read_only() const { return options_->IsReadOnlyFor(flavor_); }
  const ExportOptions& options() const { return *options_; }

  // Returns which of the wanted rights the caller has on the object. `wanted` has the bits of ACCESS in version 3 (RFC
  // 1813 §3.3.4); unknown bits, and those of changes in a read-only export, are zero in the result.
  Task<fs::Observed<fs::AccessMask>> Access(uint32_t wanted) const;

  // Returns the object of another handle in the same call. Fails with kXDev if it belongs to another export.
  fs::Result<fs::Handle> OtherObject(const std::optional<FileHandle>& handle) const;

  // Returns true if `attributes` of this object, or of another one of the same export, may be older than those that a
  // client with a write delegation has.
  bool IsOutdated(const fs::Handle& object, const fs::Attributes& attributes) const;

  // Returns true if CheckUse() may find a conflict. Usually false.
  bool may_be_claimed() const { return claims_ && claims_->any(); }
  // Checks whether claims of other versions' clients conflict with this use: of the object, of another object of the
  // same export, or of the object with a name in `directory`, if it exists. Fails with kDelay while a conflicting
  // delegation is recalled, and with kAccess if an open denies the use, because that may last without limit. During the
  // lifetime of this target, no client gets a new claim that conflicts with the use. Requires may_be_claimed().
  Task<fs::Result<void>> CheckUse(FileClaims::Use use) { return CheckUse(object_, use); }
  Task<fs::Result<void>> CheckUse(fs::Handle object, FileClaims::Use use);
  Task<fs::Result<void>> CheckUse(fs::Handle directory, std::string_view name, FileClaims::Use use);

 private:
  const std::shared_ptr<const ExportTable> table_;  // holds the following two
  const Export* export_ = nullptr;
  const ExportOptions* options_ = nullptr;
  const SecurityFlavor flavor_;
  fs::Handle object_;
  std::optional<Caller> caller_;
  std::optional<fs::Error> error_;
  FileClaims* const claims_;
  const uint64_t mark_;  // the mark of claims_ at the start of the call
  rpc::CallOutcome& outcome_;
  Loop* const loop_;
  std::vector<std::unique_ptr<FileClaims::Hold>> held_;  // until the reply is made
};

}  // namespace penstock::nfs
