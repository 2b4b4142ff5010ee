// Converts between the types of the file system and those of NFSv3.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <optional>

#include "fs/types.h"
#include "nfs/file_handle.h"
#include "protocol/nfs3.h"

namespace penstock::nfs::v3 {

nfs3::nfsstat3 ToStatus(fs::Error error);

// Returns the status of a result: NFS3_OK, or the status for its error.
template <class T>
nfs3::nfsstat3 StatusOf(const fs::Result<T>& result) {
  return result ? nfs3::NFS3_OK : ToStatus(result.error());
}

nfs3::ftype3 ToFileType(fs::FileType type);
nfs3::fattr3 ToAttributes(const fs::Attributes& attributes);

inline nfs3::post_op_attr ToPostAttributes(const std::optional<fs::Attributes>& attributes) {
  if (!attributes) return std::nullopt;
  return ToAttributes(*attributes);
}

nfs3::wcc_data ToWeakCacheData(const fs::WeakCacheData& data);

// Converts to 32 unsigned bits. A time before 1970 becomes the first second, and one after 2106 the last.
inline nfs3::nfstime3 ToTime(const fs::Timestamp& time) {
  constexpr int64_t kLast = std::numeric_limits<uint32_t>::max();
  return {.seconds = static_cast<uint32_t>(std::clamp<int64_t>(time.seconds, 0, kLast)), .nseconds = time.nanoseconds};
}
inline fs::Timestamp FromTime(const nfs3::nfstime3& time) {
  return {.seconds = time.seconds, .nanoseconds = time.nseconds};
}

// Returns nullopt if a time has a thousand million nanoseconds or more.
std::optional<fs::NewAttributes> FromNewAttributes(const nfs3::sattr3& values);

inline nfs3::nfs_fh3 ToFileHandle(ExportId export_id, const fs::Handle& object) {
  return {.data = xdr::Opaque<nfs3::NFS3_FHSIZE>(EncodedHandle({export_id, object}).bytes())};
}

// Verifiers are eight octets that only the server interprets.
template <class Verifier>
std::array<std::byte, 8> ToVerifier(Verifier verifier) {
  std::array<std::byte, 8> bytes;
  StoreBig<uint64_t>(bytes.data(), verifier.value());
  return bytes;
}
template <class Verifier>
Verifier FromVerifier(const std::array<std::byte, 8>& bytes) {
  return Verifier(LoadBig<uint64_t>(bytes.data()));
}

}  // namespace penstock::nfs::v3
