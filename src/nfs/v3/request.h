// What every procedure starts from: where the call came from, and the object that its first handle names.
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

// One call, apart from its arguments: references to what outlives it.
struct Request {
  const Exports& exports;
  const Settings& settings;
  rpc::CallContext& call;
  FileClaims* claims;  // null where no other version is served

  BufferPool& buffers() const { return *call.peer.buffers; }
};

// The object that a handle names, and the caller as its export sees it. Stays where it is made.
class Target {
 public:
  enum class Flavors : uint8_t { kOfExport, kAnyAtRoot };

  Target(const Request& request, const nfs3::nfs_fh3& handle, Flavors flavors = Flavors::kOfExport);

  // NFS3ERR_BADHANDLE: never a handle of ours. NFS3ERR_STALE: its export is gone, or not for this client.
  // Where the export wants another flavor of authentication, the call is denied besides.
  nfs3::nfsstat3 status() const { return status_; }
  explicit operator bool() const { return status_ == nfs3::NFS3_OK; }

  // All of these require *this.
  fs::FileSystem& file_system() const { return export_->file_system(); }
  const fs::RequestContext& context() const { return caller_->context(); }
  const fs::Handle& object() const { return object_; }
  bool read_only() const { return export_->options().read_only; }
  nfs3::nfs_fh3 HandleOf(const fs::Handle& object) const;

  // The object of another handle in the same call: NFS3ERR_XDEV where it is another export's.
  Result<fs::Handle, nfs3::nfsstat3> Other(const nfs3::nfs_fh3& handle) const;

  // What the answer says of the object, or of another one of the same export. Nothing of a file of which another version's
  // client may know more than the file system does: who needs its attributes asks for them by GETATTR.
  nfs3::post_op_attr PostAttributes(const fs::Handle& object, const std::optional<fs::Attributes>& attributes) const;
  nfs3::post_op_attr PostAttributes(const std::optional<fs::Attributes>& attributes) const {
    return PostAttributes(object_, attributes);
  }
  nfs3::wcc_data ConsistencyData(const fs::WeakCacheData& data) const;

  // Whether there is anything that CheckClaims might find: mostly not.
  bool may_be_claimed() const { return claims_ && claims_->any(); }
  // Whether clients of other versions leave room for this use, of the object, of another one of the same export, or of the
  // one that a name in `directory` leads to, if it leads to any. NFS3ERR_JUKEBOX where they are asked to give way: the
  // client is to try again later. NFS3ERR_ACCES where they deny it: that may last for as long as they like, so that nobody
  // should be told to wait for it. While this lives nobody is promised anew what the use would break. Requires
  // may_be_claimed().
  Task<nfs3::nfsstat3> CheckClaims(FileClaims::Use use) { return CheckClaims(object_, use); }
  Task<nfs3::nfsstat3> CheckClaims(fs::Handle object, FileClaims::Use use);
  Task<nfs3::nfsstat3> CheckClaims(fs::Handle directory, std::string_view name, FileClaims::Use use);

  // The answer's consistency data where a call is refused before it reaches the file system (RFC 1813 §3.1).
  Task<fs::WeakCacheData> Unchanged(const fs::Handle& object) const;
  Task<fs::WeakCacheData> Unchanged() const { return Unchanged(object_); }

 private:
  const Export* export_ = nullptr;
  fs::Handle object_;
  std::optional<Caller> caller_;
  nfs3::nfsstat3 status_;
  FileClaims* const claims_;
  const uint64_t mark_;  // of claims_, when the call began
  Loop* const loop_;
  std::vector<std::unique_ptr<FileClaims::Hold>> held_;  // until the call is answered
};

}  // namespace penstock::nfs::v3
