#include "fs/ceph/handles.h"

#include <sys/xattr.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <vector>

#include <fmt/format.h>

#include "base/random.h"
#include "fs/export_key.h"

namespace penstock::fs::ceph {
namespace {

// The octets of a handle:
//
//   0      1            9                               13            21           29
//   +------+------------+-------------------------------+-------------+------------+
//   | kind | signature  | digest of covered directories | inode       | [snapshot] |
//   +------+------------+-------------------------------+-------------+------------+
constexpr std::byte kKind{1};
constexpr size_t kSignedAt = kTagAt + 8;
constexpr size_t kInodeAt = kSignedAt + 4;
constexpr size_t kSnapshotAt = kInodeAt + 8;
constexpr size_t kWithSnapshot = kSnapshotAt + 8;

constexpr size_t kKeySize = sizeof(SipKey);
std::array<std::byte, 16> OctetsOf(const InodeNumber& number) {
  std::array<std::byte, 16> octets;
  StoreBig<uint64_t>(octets.data(), number.ino);
  StoreBig<uint64_t>(octets.data() + 8, number.snapshot);
  return octets;
}

SetupError ErrorOf(int code) {
  return {fmt::format("the key of its file handles, in the attribute {} of the exported directory: {}", kHandleKey,
                      DescribeErrno(-code)),
          -code};
}

}  // namespace

SetupResult<SipKey> LoadHandleKey(Client& client, Inode* root) {
  std::vector<std::byte> kept;
  int code = client.GetXattr(kAsRoot, root, kHandleKey, kept);
  if (code == -ENODATA) {
    std::array<std::byte, kKeySize> made;
    FillRandomly(made);
    code = client.SetXattr(kAsRoot, root, kHandleKey, made, XATTR_CREATE);
    if (code < 0 && code != -EEXIST) return std::unexpected(ErrorOf(code));
    code = client.GetXattr(kAsRoot, root, kHandleKey, kept);
  }
  if (code < 0) return std::unexpected(ErrorOf(code));
  if (kept.size() != kKeySize) return std::unexpected(ErrorOf(-EINVAL));
  return SipKey{LoadBig<uint64_t>(kept.data()), LoadBig<uint64_t>(kept.data() + 8)};
}

Handles::Handles(const SipKey& kept, std::string_view export_name, const InodeNumber& root, uint64_t fsid,
                 ConstBytes covered)
    : fsid_(fsid),
      key_(KeyOfExport(kept, export_name, OctetsOf(root))),
      covered_(covered.empty() ? 0 : static_cast<uint32_t>(SipHash(key_, covered))) {}

Handle Handles::Of(const InodeNumber& number) const {
  std::array<std::byte, kWithSnapshot> octets;
  octets[0] = kKind;
  StoreBig<uint32_t>(octets.data() + kSignedAt, covered_);
  CopyBytes(Bytes(octets).subspan(kInodeAt), OctetsOf(number));
  const size_t size = number.snapshot == kNoSnapshot ? kSnapshotAt : kWithSnapshot;
  const ConstBytes whole = ConstBytes(octets).first(size);
  StoreBig<uint64_t>(octets.data() + kTagAt, SipHash(key_, whole.subspan(kSignedAt)));
  return *Handle::FromBytes(whole);
}

Result<InodeNumber> Handles::NumberOf(const Handle& handle) const {
  const ConstBytes octets = handle.bytes();
  const bool has_size = octets.size() == kSnapshotAt || octets.size() == kWithSnapshot;
  if (!has_size || octets[0] != kKind ||
      LoadBig<uint64_t>(octets.data() + kTagAt) != SipHash(key_, octets.subspan(kSignedAt))) {
    return std::unexpected(Error::kBadHandle);
  }
  if (LoadBig<uint32_t>(octets.data() + kSignedAt) != covered_) return std::unexpected(Error::kStale);
  InodeNumber number{LoadBig<uint64_t>(octets.data() + kInodeAt), kNoSnapshot};
  if (octets.size() == kWithSnapshot) number.snapshot = LoadBig<uint64_t>(octets.data() + kSnapshotAt);
  return number;
}

Result<Identity> Handles::Identify(const Handle& handle) const {
  PENSTOCK_TRY(const InodeNumber number, NumberOf(handle));
  return Identity{fsid_, *Handle::FromBytes(OctetsOf(number))};
}

}  // namespace penstock::fs::ceph
