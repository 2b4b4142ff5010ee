#include "nfs/v3/convert.h"

namespace penstock::nfs::v3 {

using namespace nfs3;  // NOLINT: the protocol's own names, RFC 1813

nfsstat3 ToStatus(fs::Error error) {
  switch (error) {
    case fs::Error::kPerm:
      return NFS3ERR_PERM;
    case fs::Error::kNoEnt:
      return NFS3ERR_NOENT;
    case fs::Error::kIo:
      return NFS3ERR_IO;
    case fs::Error::kNxIo:
      return NFS3ERR_NXIO;
    case fs::Error::kAccess:
    case fs::Error::kCovered:
      return NFS3ERR_ACCES;
    case fs::Error::kExist:
      return NFS3ERR_EXIST;
    case fs::Error::kXDev:
      return NFS3ERR_XDEV;
    case fs::Error::kNoDev:
      return NFS3ERR_NODEV;
    case fs::Error::kNotDir:
      return NFS3ERR_NOTDIR;
    case fs::Error::kIsDir:
      return NFS3ERR_ISDIR;
    case fs::Error::kInvalid:
      return NFS3ERR_INVAL;
    case fs::Error::kFileTooBig:
      return NFS3ERR_FBIG;
    case fs::Error::kNoSpace:
      return NFS3ERR_NOSPC;
    case fs::Error::kReadOnly:
      return NFS3ERR_ROFS;
    case fs::Error::kTooManyLinks:
      return NFS3ERR_MLINK;
    case fs::Error::kNameTooLong:
      return NFS3ERR_NAMETOOLONG;
    case fs::Error::kNotEmpty:
      return NFS3ERR_NOTEMPTY;
    case fs::Error::kQuota:
      return NFS3ERR_DQUOT;
    case fs::Error::kStale:
      return NFS3ERR_STALE;
    case fs::Error::kBadHandle:
      return NFS3ERR_BADHANDLE;
    case fs::Error::kNotSync:
      return NFS3ERR_NOT_SYNC;
    case fs::Error::kBadCookie:
      return NFS3ERR_BAD_COOKIE;
    case fs::Error::kNotSupported:
      return NFS3ERR_NOTSUPP;
    case fs::Error::kServerFault:
      return NFS3ERR_SERVERFAULT;
    case fs::Error::kBadType:
      return NFS3ERR_BADTYPE;
    case fs::Error::kDelay:
      return NFS3ERR_JUKEBOX;
    case fs::Error::kBadName:
      return NFS3ERR_ACCES;  // RFC 1813 §3.2, points 1 and 5
    case fs::Error::kNoXattr:
    case fs::Error::kXattrTooBig:
      break;  // no procedure of this version gets these errors
  }
  return NFS3ERR_SERVERFAULT;
}

ftype3 ToFileType(fs::FileType type) {
  switch (type) {
    case fs::FileType::kRegular:
      return NF3REG;
    case fs::FileType::kDirectory:
      return NF3DIR;
    case fs::FileType::kBlock:
      return NF3BLK;
    case fs::FileType::kCharacter:
      return NF3CHR;
    case fs::FileType::kSymlink:
      return NF3LNK;
    case fs::FileType::kSocket:
      return NF3SOCK;
    case fs::FileType::kFifo:
      return NF3FIFO;
  }
  return NF3REG;
}

fattr3 ToAttributes(const fs::Attributes& a) {
  return {
      .type = ToFileType(a.type),
      .mode = a.mode,
      .nlink = a.nlink,
      .uid = a.uid,
      .gid = a.gid,
      .size = a.size,
      .used = a.used,
      .rdev = {.specdata1 = a.rdev.major, .specdata2 = a.rdev.minor},
      .fsid = a.fsid,
      .fileid = a.fileid,
      .atime = ToTime(a.atime),
      .mtime = ToTime(a.mtime),
      .ctime = ToTime(a.ctime),
  };
}

wcc_data ToWeakCacheData(const fs::WeakCacheData& data) {
  wcc_data wcc;
  if (data.before) {
    wcc.before = {.size = data.before->size, .mtime = ToTime(data.before->mtime), .ctime = ToTime(data.before->ctime)};
  }
  wcc.after = ToPostAttributes(data.after);
  return wcc;
}

namespace {

constexpr uint32_t kNanosecondsPerSecond = 1'000'000'000;

// `given` is the client's time with SET_TO_CLIENT_TIME, otherwise null. Returns false if it is invalid.
bool FromSetTime(time_how how, const nfstime3* given, fs::SetTime& to) {
  if (how == SET_TO_SERVER_TIME) to.how = fs::SetTime::How::kServerTime;
  if (!given) return true;
  if (given->nseconds >= kNanosecondsPerSecond) return false;
  to = {fs::SetTime::How::kGiven, FromTime(*given)};
  return true;
}

}  // namespace

std::optional<fs::NewAttributes> FromNewAttributes(const sattr3& values) {
  constexpr uint32_t kModeBits = 07777;
  fs::NewAttributes to;
  if (values.mode) to.mode = *values.mode & kModeBits;
  to.uid = values.uid;
  to.gid = values.gid;
  to.size = values.size;
  const auto& atime = values.atime;
  const auto& mtime = values.mtime;
  if (!FromSetTime(atime.set_it(), atime.is_atime() ? &atime.atime() : nullptr, to.atime) ||
      !FromSetTime(mtime.set_it(), mtime.is_mtime() ? &mtime.mtime() : nullptr, to.mtime)) {
    return std::nullopt;
  }
  return to;
}

}  // namespace penstock::nfs::v3
