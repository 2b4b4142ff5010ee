// From the words of the file system to those of NFSv3, and back.
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

// The status of a result: NFS3_OK, or that of its error.
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

// 32 bits without a sign: a time before 1970 is told as 1970, one after 2106 as the last second that there is.
inline nfs3::nfstime3 ToTime(const fs::Timestamp& time) {
  constexpr int64_t kLast = std::numeric_limits<uint32_t>::max();
  return {.seconds = static_cast<uint32_t>(std::clamp<int64_t>(time.seconds, 0, kLast)), .nseconds = time.nanoseconds};
}
inline fs::Timestamp FromTime(const nfs3::nfstime3& time) {
  return {.seconds = time.seconds, .nanoseconds = time.nseconds};
}

// Empty where a time has a thousand million nanoseconds or more.
std::optional<fs::NewAttributes> FromNewAttributes(const nfs3::sattr3& values);

inline nfs3::nfs_fh3 ToFileHandle(ExportId export_id, const fs::Handle& object) {
  return {.data = xdr::Opaque<nfs3::NFS3_FHSIZE>(EncodedHandle({export_id, object}).bytes())};
}

// Verifiers are eight octets that only we make sense of.
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
