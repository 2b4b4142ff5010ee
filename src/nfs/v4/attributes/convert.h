// Conversions between the types of the file-system interface and the types of NFSv4.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "fs/types.h"
#include "nfs/file_handle.h"
#include "protocol/nfs4_0.h"

namespace penstock::nfs::v4 {

nfs4::nfsstat4 ToStatus(fs::Error error);

// The status of an operation on a name in `directory`, whose attributes are absent if they are unknown. A symbolic link
// in place of a directory has its own error (RFC 8881 §15.1.2.8).
nfs4::nfsstat4 StatusInDirectory(fs::Error error, const std::optional<fs::Attributes>& directory);

// Returns NFS4_OK, or the status of the error.
template <class T>
nfs4::nfsstat4 StatusOf(const fs::Result<T>& result) {
  return result ? nfs4::NFS4_OK : ToStatus(result.error());
}

nfs4::nfs_ftype4 ToFileType(fs::FileType type);

inline nfs4::nfstime4 ToTime(const fs::Timestamp& time) {
  return {.seconds = time.seconds, .nseconds = time.nanoseconds};
}

// The change attribute of a directory before and after an operation (RFC 8881 §3.3.1). The pair is never marked as
// atomic, since other programs of this host may change the directory in between.
nfs4::change_info4 ToChangeInfo(const fs::WeakCacheData& data);

nfs4::stable_how4 ToStability(fs::Stability stability);
fs::Stability FromStability(nfs4::stable_how4 how);

inline nfs4::nfs_fh4 ToFileHandle(const FileHandle& handle) { return nfs4::nfs_fh4(EncodedHandle(handle).bytes()); }

// A verifier is eight octets that have a meaning only for the server.
template <class Verifier>
nfs4::verifier4 ToVerifier(Verifier verifier) {
  nfs4::verifier4 bytes;
  StoreBig<uint64_t>(bytes.data(), verifier.value());
  return bytes;
}
template <class Verifier>
Verifier FromVerifier(const nfs4::verifier4& bytes) {
  return Verifier(LoadBig<uint64_t>(bytes.data()));
}

// Checks that a name is one component of a path (RFC 8881 §14.5, RFC 7530 §12.8). Errors: NFS4ERR_INVAL if it is empty
// or not UTF-8; NFS4ERR_BADNAME for "." and ".."; NFS4ERR_BADCHAR if it contains '/' or NUL. The file system checks the
// length.
nfs4::nfsstat4 CheckName(std::string_view name);

}  // namespace penstock::nfs::v4
