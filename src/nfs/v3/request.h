// The common input of the procedures: the call, and the object of its first handle.
#pragma once

#include <optional>
#include <string_view>

#include "base/buffer.h"
#include "base/task.h"
#include "fs/file_system.h"
#include "nfs/exports.h"
#include "nfs/file_claims.h"
#include "nfs/target.h"
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

// The object of a handle, with the errors and replies of version 3.
class Target : public nfs::Target {
 public:
  Target(const Request& request, const nfs3::nfs_fh3& handle, Flavors flavors = Flavors::kOfExport)
      : nfs::Target({request.exports, request.call, request.claims}, FileHandle::Parse(handle.data.bytes()), flavors) {}

  // NFS3_OK for a valid target.
  nfs3::nfsstat3 status() const;

  // The following functions require a valid target (operator bool).
  nfs3::nfs_fh3 HandleOf(const fs::Handle& object) const;

  // Returns the object of another handle in the same call. Fails with NFS3ERR_XDEV if it belongs to another export.
  Result<fs::Handle, nfs3::nfsstat3> Other(const nfs3::nfs_fh3& handle) const;

  // Returns the attributes for the reply, of this object or of another one of the same export. Returns none for a file
  // whose write delegation may hide newer attributes; the client then asks by GETATTR.
  nfs3::post_op_attr PostAttributes(const fs::Handle& object, const std::optional<fs::Attributes>& attributes) const;
  nfs3::post_op_attr PostAttributes(const std::optional<fs::Attributes>& attributes) const {
    return PostAttributes(object(), attributes);
  }
  nfs3::wcc_data ConsistencyData(const fs::WeakCacheData& data) const;

  // As CheckUse(). Returns NFS3ERR_JUKEBOX while a conflicting delegation is recalled; the client retries.
  Task<nfs3::nfsstat3> CheckClaims(FileClaims::Use use) { return CheckClaims(object(), use); }
  Task<nfs3::nfsstat3> CheckClaims(fs::Handle object, FileClaims::Use use);
  Task<nfs3::nfsstat3> CheckClaims(fs::Handle directory, std::string_view name, FileClaims::Use use);

  // Returns the consistency data of a reply to a call that was refused before it reached the file system (RFC 1813
  // §3.1).
  Task<fs::WeakCacheData> Unchanged(const fs::Handle& object) const;
  Task<fs::WeakCacheData> Unchanged() const { return Unchanged(object()); }
};

}  // namespace penstock::nfs::v3
