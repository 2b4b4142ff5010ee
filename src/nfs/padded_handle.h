// The form of a file handle with exactly 32 octets, for NFS version 2 and for MOUNT versions 1 and 2 (RFC 1094 §2.3.3).
// It contains the same handle as the form of the other versions (file_handle.h), so the file is the same one for all.
//
//       0         1         2         3         4        5 ... 4 + n   5 + n ... 31
//  +---------+---------+---------+---------+---------+----------------+------------+
//  | 0x80+n  |        export id, big-endian          | n octets of    |   zeros    |
//  |         |                                       | the fs handle  |            |
//  +---------+---------+---------+---------+---------+----------------+------------+
//
// It stays valid after a restart of the server. A file system's handle fits if it has at most 27 octets:
//
//   ext4, tmpfs, xfs            22 to 26 octets    fit
//   btrfs, overlayfs            34 octets or more  do not fit
//   a table of handles          41 octets          does not fit (fs/posix/table_handles.h)
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "nfs/file_handle.h"

namespace penstock::nfs {

using PaddedHandle = std::array<std::byte, 32>;

// The largest handle of a file system that fits.
inline constexpr size_t kMaxPaddedObject = sizeof(PaddedHandle) - FileHandle::kHeaderSize;

// Returns no value if the file system's handle does not fit.
inline std::optional<PaddedHandle> ToPadded(const FileHandle& handle) {
  const size_t size = handle.object.size();
  if (size > kMaxPaddedObject) return std::nullopt;
  PaddedHandle padded{};
  padded[0] = static_cast<std::byte>(0x80 + size);
  StoreBig(padded.data() + 1, handle.export_id.value());
  CopyBytes(Bytes(padded).subspan(FileHandle::kHeaderSize), handle.object.bytes());
  return padded;
}

// Returns no value if the octets are not in this format. Each handle has one form: octets after it that are not zero
// make it malformed.
inline std::optional<FileHandle> FromPadded(const PaddedHandle& padded) {
  const size_t size = std::to_integer<size_t>(padded[0]) - 0x80;
  if (size == 0 || size > kMaxPaddedObject) return std::nullopt;
  const ConstBytes object = ConstBytes(padded).subspan(FileHandle::kHeaderSize);
  if (std::ranges::any_of(object.subspan(size), [](std::byte octet) { return octet != std::byte{}; })) {
    return std::nullopt;
  }
  return FileHandle{ExportId(LoadBig<uint32_t>(padded.data() + 1)), *fs::Handle::FromBytes(object.first(size))};
}

}  // namespace penstock::nfs
