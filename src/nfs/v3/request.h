// The common input of the procedures: the call, and the object of its first handle.
#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "base/buffer.h"
#include "base/task.h"
#include "fs/file_system.h"
#include "nfs/caller.h"
#include "nfs/exports.h"
#include "nfs/file_claims.h"
#include "nfs/v3/settings.h"
#include "protocol/nfs3.h"
#include "rpc/dispatch.h"

namespace penstock::nfs::v3 {

// One call without its arguments. It refers to objects that outlive it.
struct Request {
  const Exports& exports;
  const Settings& settings;
  rpc::CallContext& call;
  FileClaims* claims;  // null if no other version is served

  BufferPool& buffers() const { return *call.peer.buffers; }
};

// The object of a handle, and the caller after the export's squashing. Not movable.
class Target {
 public:
  enum class Flavors : uint8_t { kOfExport, kAnyAtRoot };

  Target(const Request& request, const nfs3::nfs_fh3& handle, Flavors flavors = Flavors::kOfExport);

  // The status is NFS3ERR_BADHANDLE if the handle is malformed, and NFS3ERR_STALE if its export is gone or refuses this
  // client. If the export does not accept the call's flavor, this also denies the call.
  nfs3::nfsstat3 status() const { return status_; }
  explicit operator bool() const { return status_ == nfs3::NFS3_OK; }

  // The following functions require a valid target (operator bool).
  fs::FileSystem& file_system() const { return export_->file_system(); }
  const fs::RequestContext& context() const { return caller_->context(); }
  const fs::Handle& object() const { return object_; }
  bool read_only() const { return export_->options().read_only; }
  nfs3::nfs_fh3 HandleOf(const fs::Handle& object) const;

  // Returns the object of another handle in the same call. Fails with NFS3ERR_XDEV if it belongs to another export.
  Result<fs::Handle, nfs3::nfsstat3> Other(const nfs3::nfs_fh3& handle) const;

  // Returns the attributes for the reply, of this object or of another one of the same export. Returns none for a file
  // whose write delegation may hide newer attributes; the client then asks by GETATTR.
  nfs3::post_op_attr PostAttributes(const fs::Handle& object, const std::optional<fs::Attributes>& attributes) const;
  nfs3::post_op_attr PostAttributes(const std::optional<fs::Attributes>& attributes) const {
    return PostAttributes(object_, attributes);
  }
  nfs3::wcc_data ConsistencyData(const fs::WeakCacheData& data) const;

  // Returns true if CheckClaims() may find a conflict. Usually false.
  bool may_be_claimed() const { return claims_ && claims_->any(); }
  // Checks whether claims of other versions' clients conflict with this use: of the object, of another object of the
  // same export, or of the object with a name in `directory`, if it exists. Returns NFS3ERR_JUKEBOX while a conflicting
  // delegation is recalled; the client retries. Returns NFS3ERR_ACCES if an open denies the use, because that may last
  // without limit. During the lifetime of this target, no client gets a new claim that conflicts with the use. Requires
  // may_be_claimed().
  Task<nfs3::nfsstat3> CheckClaims(FileClaims::Use use) { return CheckClaims(object_, use); }
  Task<nfs3::nfsstat3> CheckClaims(fs::Handle object, FileClaims::Use use);
  Task<nfs3::nfsstat3> CheckClaims(fs::Handle directory, std::string_view name, FileClaims::Use use);

  // Returns the consistency data of a reply to a call that was refused before it reached the file system (RFC 1813
  // §3.1).
  Task<fs::WeakCacheData> Unchanged(const fs::Handle& object) const;
  Task<fs::WeakCacheData> Unchanged() const { return Unchanged(object_); }

 private:
  const Export* export_ = nullptr;
  fs::Handle object_;
  std::optional<Caller> caller_;
  nfs3::nfsstat3 status_;
  FileClaims* const claims_;
  const uint64_t mark_;  // the mark of claims_ at the start of the call
  Loop* const loop_;
  std::vector<std::unique_ptr<FileClaims::Hold>> held_;  // until the reply is made
};

}  // namespace penstock::nfs::v3
