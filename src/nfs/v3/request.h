// What every procedure starts from: where the call came from, and the object that its first handle names.
#pragma once

#include <optional>

#include "base/buffer.h"
#include "base/task.h"
#include "fs/file_system.h"
#include "nfs/caller.h"
#include "nfs/exports.h"
#include "nfs/v3/settings.h"
#include "protocol/nfs3.h"
#include "rpc/dispatch.h"

namespace penstock::nfs::v3 {

// One call, apart from its arguments: references to what outlives it.
struct Request {
  const Exports& exports;
  const Settings& settings;
  rpc::CallContext& call;

  BufferPool& buffers() const { return *call.peer.buffers; }
};

// The object that a handle names, and the caller as its export sees it. Stays where it is made.
class Target {
 public:
  Target(const Request& request, const nfs3::nfs_fh3& handle);

  // NFS3ERR_BADHANDLE: never a handle of ours. NFS3ERR_STALE: its export is gone, or not for this client.
  // Where the export wants a stronger flavour of authentication, the call is denied besides.
  nfs3::nfsstat3 status() const { return status_; }
  explicit operator bool() const { return status_ == nfs3::NFS3_OK; }

  // All of these require *this.
  fs::FileSystem& file_system() const { return export_->file_system(); }
  const fs::Context& context() const { return caller_->context(); }
  const fs::Handle& object() const { return object_; }
  bool read_only() const { return export_->options().read_only; }
  nfs3::nfs_fh3 HandleOf(const fs::Handle& object) const;

  // The object of another handle in the same call: NFS3ERR_XDEV where it is another export's.
  Result<fs::Handle, nfs3::nfsstat3> Other(const nfs3::nfs_fh3& handle) const;

  // The answer's consistency data where a call is refused before it reaches the file system (RFC 1813 §3.1).
  Task<fs::WeakCacheData> Unchanged(const fs::Handle& object) const;
  Task<fs::WeakCacheData> Unchanged() const { return Unchanged(object_); }

 private:
  const Export* export_ = nullptr;
  fs::Handle object_;
  std::optional<Caller> caller_;
  nfs3::nfsstat3 status_;
};

}  // namespace penstock::nfs::v3
