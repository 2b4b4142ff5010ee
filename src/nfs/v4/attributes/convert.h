// From the words of the file system to those of NFSv4, and back.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "fs/types.h"
#include "nfs/file_handle.h"
#include "protocol/nfs4_0.h"

namespace penstock::nfs::v4 {

nfs4::nfsstat4 ToStatus(fs::Error error);

// The status of a result: NFS4_OK, or that of its error.
template <class T>
nfs4::nfsstat4 StatusOf(const fs::Result<T>& result) {
  return result ? nfs4::NFS4_OK : ToStatus(result.error());
}

nfs4::nfs_ftype4 ToFileType(fs::FileType type);

inline nfs4::nfstime4 ToTime(const fs::Timestamp& time) {
  return {.seconds = time.seconds, .nseconds = time.nanoseconds};
}

// What a directory was before and after it was changed (RFC 8881 §3.3.1). A file system of this host may be changed by
// others in between, so that the two are never said to be atomic.
nfs4::change_info4 ToChangeInfo(const fs::WeakCacheData& data);

nfs4::stable_how4 ToStability(fs::Stability stability);
fs::Stability FromStability(nfs4::stable_how4 how);

inline nfs4::nfs_fh4 ToFileHandle(const FileHandle& handle) { return nfs4::nfs_fh4(EncodedHandle(handle).bytes()); }

// Verifiers are eight octets that only we make sense of.
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

// Whether all of `text` is UTF-8 as RFC 3629 has it: no surrogates, nothing above U+10FFFF, no longer forms than
// needed.
bool IsUtf8(std::string_view text);

// Whether a name is one component of a path (RFC 8881 §14.5, RFC 7530 §12.8), before it is looked for: NFS4_OK,
// NFS4ERR_INVAL (empty, or no UTF-8), NFS4ERR_BADNAME ("." and ".."), NFS4ERR_BADCHAR ('/' or NUL in it). Whether it is
// too long the file system says.
nfs4::nfsstat4 CheckName(std::string_view name);

}  // namespace penstock::nfs::v4
