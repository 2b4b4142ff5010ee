#include "nfs/v2/convert.h"

#include <algorithm>
#include <limits>

#include "nfs/v2/settings.h"

namespace penstock::nfs::v2 {

using namespace nfs2;  // NOLINT: the protocol's own names, RFC 1094

nfsstat ToStatus(fs::Error error) {
  switch (error) {
    case fs::Error::kPerm:
      return NFSERR_PERM;
    case fs::Error::kNoEnt:
      return NFSERR_NOENT;
    case fs::Error::kNxIo:
      return NFSERR_NXIO;
    case fs::Error::kAccess:
    case fs::Error::kCovered:
    case fs::Error::kBadName:
      return NFSERR_ACCES;
    case fs::Error::kExist:
      return NFSERR_EXIST;
    case fs::Error::kNoDev:
      return NFSERR_NODEV;
    case fs::Error::kNotDir:
      return NFSERR_NOTDIR;
    case fs::Error::kIsDir:
      return NFSERR_ISDIR;
    case fs::Error::kFileTooBig:
      return NFSERR_FBIG;
    case fs::Error::kNoSpace:
      return NFSERR_NOSPC;
    case fs::Error::kReadOnly:
      return NFSERR_ROFS;
    case fs::Error::kNameTooLong:
      return NFSERR_NAMETOOLONG;
    case fs::Error::kNotEmpty:
      return NFSERR_NOTEMPTY;
    case fs::Error::kQuota:
      return NFSERR_DQUOT;
    case fs::Error::kStale:
    case fs::Error::kBadHandle:
      return NFSERR_STALE;
    case fs::Error::kIo:
    case fs::Error::kXDev:
    case fs::Error::kInvalid:
    case fs::Error::kTooManyLinks:
    case fs::Error::kNotSync:
    case fs::Error::kBadCookie:
    case fs::Error::kNotSupported:
    case fs::Error::kServerFault:
    case fs::Error::kBadType:
    case fs::Error::kDelay:
    case fs::Error::kNoXattr:
    case fs::Error::kXattrTooBig:
      return NFSERR_IO;
  }
  return NFSERR_IO;
}

namespace {

constexpr uint32_t kUnset = UINT32_MAX;  // RFC 1094 §2.3.6
constexpr uint32_t kTypeBits = 0170000;
constexpr uint32_t kPermissionBits = 07777;
constexpr uint32_t kMicrosecondsPerSecond = 1'000'000;

// The type in the mode bits (RFC 1094 §2.3.5) and the type of its own. A socket has no type of its own. A FIFO, which
// RFC 1094 does not know, looks like a character device with the number -1.
struct Type {
  uint32_t mode_bits;
  ftype type;
};
Type ToType(fs::FileType type) {
  switch (type) {
    case fs::FileType::kRegular:
      return {0100000, NFREG};
    case fs::FileType::kDirectory:
      return {0040000, NFDIR};
    case fs::FileType::kBlock:
      return {0060000, NFBLK};
    case fs::FileType::kCharacter:
    case fs::FileType::kFifo:
      return {0020000, NFCHR};
    case fs::FileType::kSymlink:
      return {0120000, NFLNK};
    case fs::FileType::kSocket:
      return {0140000, NFNON};
  }
  return {0100000, NFREG};
}

// The number of a device as Linux encodes it: the old 16 bits, with more bits of the minor number above them.
uint32_t ToDeviceNumber(const fs::Device& device) {
  return (device.minor & 0xff) | ((device.major & 0xfff) << 8) | ((device.minor & 0xfff00) << 12);
}
fs::Device FromDeviceNumber(uint32_t number) {
  return {.major = (number >> 8) & 0xfff, .minor = (number & 0xff) | ((number >> 12) & 0xfff00)};
}

uint32_t Clamp(uint64_t value) { return static_cast<uint32_t>(std::min<uint64_t>(value, UINT32_MAX)); }

nfstime ToTime(const fs::Timestamp& time) {
  return {.seconds = static_cast<uint32_t>(std::clamp<int64_t>(time.seconds, 0, UINT32_MAX)),
          .useconds = time.nanoseconds / 1000};
}

// A time with all bits set is kept. One with a million microseconds, which is no valid time, asks for the server's
// time: clients of version 2 agree on that.
fs::Result<fs::SetTime> FromTime(const nfstime& time) {
  if (time.seconds == kUnset || time.useconds == kUnset) return fs::SetTime{};
  if (time.useconds > kMicrosecondsPerSecond) return std::unexpected(fs::Error::kInvalid);
  if (time.useconds == kMicrosecondsPerSecond) return fs::SetTime{.how = fs::SetTime::How::kServerTime, .time = {}};
  return fs::SetTime{.how = fs::SetTime::How::kGiven,
                     .time = {.seconds = time.seconds, .nanoseconds = time.useconds * 1000}};
}

std::optional<uint32_t> IfSet(uint32_t value) {
  if (value == kUnset) return std::nullopt;
  return value;
}

// Some clients set 16 bits only.
bool HasMode(const sattr& values) { return values.mode != kUnset && values.mode != 0xffff; }

}  // namespace

fs::Result<fattr> ToAttributes(const fs::Attributes& a) {
  if (a.type == fs::FileType::kRegular && a.size > kMaxSize) return std::unexpected(fs::Error::kFileTooBig);
  constexpr uint32_t kBlockSize = 4096;
  constexpr uint32_t kBlocksOfUnix = 512;  // clients count blocks of this size, whatever blocksize says
  const Type type = ToType(a.type);
  const bool is_device = a.type == fs::FileType::kBlock || a.type == fs::FileType::kCharacter;
  return fattr{
      .type = type.type,
      .mode = type.mode_bits | (a.mode & kPermissionBits),
      .nlink = a.nlink,
      .uid = a.uid,
      .gid = a.gid,
      .size = Clamp(a.size),
      .blocksize = kBlockSize,
      .rdev = is_device ? ToDeviceNumber(a.rdev) : UINT32_MAX,
      .blocks = Clamp(a.used / kBlocksOfUnix + (a.used % kBlocksOfUnix ? 1 : 0)),
      .fsid = Fold(a.fsid),
      .fileid = Fold(a.fileid),
      .atime = ToTime(a.atime),
      .mtime = ToTime(a.mtime),
      .ctime = ToTime(a.ctime),
  };
}

fs::Result<fs::NewAttributes> FromNewAttributes(const sattr& values) {
  fs::NewAttributes to;
  if (HasMode(values)) to.mode = values.mode & kPermissionBits;
  to.uid = IfSet(values.uid);
  to.gid = IfSet(values.gid);
  to.size = IfSet(values.size);
  PENSTOCK_TRY(to.atime, FromTime(values.atime));
  PENSTOCK_TRY(to.mtime, FromTime(values.mtime));
  // The server's time for mtime applies to both times, so that users who may write to a file, but do not own it, can
  // set them together.
  if (to.mtime.how == fs::SetTime::How::kServerTime && to.atime.how == fs::SetTime::How::kGiven) to.atime = to.mtime;
  return to;
}

fs::Result<NewObject> FromCreation(const sattr& values) {
  NewObject object;
  PENSTOCK_TRY(object.attributes, FromNewAttributes(values));
  const uint32_t type = HasMode(values) ? values.mode & kTypeBits : 0;
  if (type == 0 || type == 0100000) return object;
  object.is_file = false;
  const bool numbered = values.size != kUnset;
  object.attributes.size.reset();
  switch (type) {
    case 0010000:
      object.node.type = fs::FileType::kFifo;
      return object;
    case 0020000:
      object.node.type = numbered ? fs::FileType::kCharacter : fs::FileType::kFifo;
      break;
    case 0060000:
      object.node.type = fs::FileType::kBlock;
      break;
    case 0140000:
      object.node.type = fs::FileType::kSocket;
      return object;
    case 0040000:
      return std::unexpected(fs::Error::kIsDir);
    default:
      return std::unexpected(fs::Error::kBadType);
  }
  if (numbered) object.node.device = FromDeviceNumber(values.size);
  return object;
}

statfsok ToSpace(const fs::Space& space) {
  constexpr uint64_t kMostBlocks = INT32_MAX;
  uint64_t block = 4096;
  constexpr uint64_t kLargestBlock = 1 << 30;
  while (space.total_bytes / block > kMostBlocks && block < kLargestBlock) block *= 2;
  return {.tsize = kMaxTransfer,
          .bsize = Clamp(block),
          .blocks = Clamp(space.total_bytes / block),
          .bfree = Clamp(space.free_bytes / block),
          .bavail = Clamp(space.available_bytes / block)};
}

}  // namespace penstock::nfs::v2
