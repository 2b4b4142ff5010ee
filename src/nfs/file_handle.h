// The file handles that clients receive. All versions of NFS use the same format.
//
//      0         1         2         3         4         5 ... 52
//  +---------+---------+---------+---------+---------+---------------------------+
//  | version |             export id, big-endian     | the file system's handle  |
//  +---------+---------+---------+---------+---------+---------------------------+
//
// A handle stays valid after a restart of the server. It has at most 53 octets: version 3 permits 64 (RFC 1813 §2.4),
// version 4 permits 128 (RFC 8881 §3.2).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/bytes.h"
#include "base/strong.h"
#include "fs/types.h"

namespace penstock::nfs {

// Identifies an export in handles. It is a hash of the export's path, so it does not depend on the order of the
// configuration, and survives restarts.
struct ExportIdTag;
using ExportId = Strong<ExportIdTag, uint32_t>;

struct FileHandle {
  static constexpr std::byte kVersion{1};
  static constexpr size_t kHeaderSize = 1 + sizeof(uint32_t);
  static constexpr size_t kMaxSize = kHeaderSize + fs::Handle::kMaxSize;

  ExportId export_id;
  fs::Handle object;

  // Returns nullopt if the bytes are not in this format (NFS3ERR_BADHANDLE). Exports and the file system decide whether
  // the handle is stale (NFS3ERR_STALE).
  static std::optional<FileHandle> Parse(ConstBytes bytes) {
    if (bytes.size() <= kHeaderSize || bytes[0] != kVersion) return std::nullopt;
    const auto object = fs::Handle::FromBytes(bytes.subspan(kHeaderSize));
    if (!object) return std::nullopt;
    return FileHandle{ExportId(LoadBig<uint32_t>(bytes.data() + 1)), *object};
  }

  bool operator==(const FileHandle&) const = default;
};
static_assert(FileHandle::kMaxSize <= 64, "NFS3_FHSIZE, RFC 1813 §2.4");

// The encoded form of a handle.
class EncodedHandle {
 public:
  explicit EncodedHandle(const FileHandle& handle) : size_(FileHandle::kHeaderSize + handle.object.size()) {
    bytes_[0] = FileHandle::kVersion;
    StoreBig(bytes_.data() + 1, handle.export_id.value());
    CopyBytes(Bytes(bytes_).subspan(FileHandle::kHeaderSize), handle.object.bytes());
  }
  ConstBytes bytes() const { return {bytes_.data(), size_}; }

 private:
  std::array<std::byte, FileHandle::kMaxSize> bytes_{};
  size_t size_;
};

// A file and the handle by which a client names it. Two are equal if they are the same file, through any export: opens,
// locks and delegations belong to the file. Later messages to the client about the file use the client's handle.
struct NamedFile {
  FileHandle handle;
  fs::Identity identity;
  bool operator==(const NamedFile& other) const { return identity == other.identity; }
};

struct NamedFileHash {
  size_t operator()(const NamedFile& file) const { return std::hash<fs::Identity>{}(file.identity); }
};

}  // namespace penstock::nfs
