// File handles as clients hold them, the same for every version of NFS.
//
//      0         1         2         3         4         5 ... 52
//  +---------+---------+---------+---------+---------+---------------------------+
//  | version |             export id, big-endian     | the file system's handle  |
//  +---------+---------+---------+---------+---------+---------------------------+
//
// Nothing in it changes when the server starts again. At most 53 octets: version 3 carries 64 (RFC 1813 §2.4), version
// 4 carries 128 (RFC 8881 §3.2).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/bytes.h"
#include "base/strong.h"
#include "fs/types.h"

namespace penstock::nfs {

// Names an export in handles: a hash of its path, so that it outlives the server and the order of its configuration.
struct ExportIdTag;
using ExportId = Strong<ExportIdTag, uint32_t>;

struct FileHandle {
  static constexpr std::byte kVersion{1};
  static constexpr size_t kHeaderSize = 1 + sizeof(uint32_t);
  static constexpr size_t kMaxSize = kHeaderSize + fs::Handle::kMaxSize;

  ExportId export_id;
  fs::Handle object;

  // Empty where the bytes were never a handle of this server (NFS3ERR_BADHANDLE). Whether it still leads somewhere is
  // for Exports and the file system to say (NFS3ERR_STALE).
  static std::optional<FileHandle> Parse(ConstBytes bytes) {
    if (bytes.size() <= kHeaderSize || bytes[0] != kVersion) return std::nullopt;
    const auto object = fs::Handle::FromBytes(bytes.subspan(kHeaderSize));
    if (!object) return std::nullopt;
    return FileHandle{ExportId(LoadBig<uint32_t>(bytes.data() + 1)), *object};
  }

  bool operator==(const FileHandle&) const = default;
};
static_assert(FileHandle::kMaxSize <= 64, "NFS3_FHSIZE, RFC 1813 §2.4");

// The wire form of a handle.
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

// A file as a client names it. Two are equal where they are the same file, whichever exports they are named by: opens, locks
// and delegations are the file's. What a client is told of it later names the handle that the client knows.
struct NamedFile {
  FileHandle handle;
  fs::Identity identity;
  bool operator==(const NamedFile& other) const { return identity == other.identity; }
};

struct NamedFileHash {
  size_t operator()(const NamedFile& file) const { return std::hash<fs::Identity>{}(file.identity); }
};

}  // namespace penstock::nfs
