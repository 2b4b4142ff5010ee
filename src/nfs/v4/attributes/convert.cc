#include "nfs/v4/attributes/convert.h"

#include <algorithm>

#include "base/utf8.h"

namespace penstock::nfs::v4 {

using namespace nfs4;  // NOLINT: the protocol's own names, RFC 8881

nfsstat4 ToStatus(fs::Error error) {
  switch (error) {
    case fs::Error::kPerm:
      return NFS4ERR_PERM;
    case fs::Error::kNoEnt:
      return NFS4ERR_NOENT;
    case fs::Error::kIo:
      return NFS4ERR_IO;
    case fs::Error::kNxIo:
    case fs::Error::kNoDev:
      return NFS4ERR_NXIO;
    case fs::Error::kAccess:
    case fs::Error::kCovered:
      return NFS4ERR_ACCESS;
    case fs::Error::kExist:
      return NFS4ERR_EXIST;
    case fs::Error::kXDev:
      return NFS4ERR_XDEV;
    case fs::Error::kNotDir:
      return NFS4ERR_NOTDIR;
    case fs::Error::kIsDir:
      return NFS4ERR_ISDIR;
    case fs::Error::kInvalid:
    case fs::Error::kNotSync:  // the error of a guard, which NFSv4 does not have
      return NFS4ERR_INVAL;
    case fs::Error::kFileTooBig:
      return NFS4ERR_FBIG;
    case fs::Error::kNoSpace:
      return NFS4ERR_NOSPC;
    case fs::Error::kReadOnly:
      return NFS4ERR_ROFS;
    case fs::Error::kTooManyLinks:
      return NFS4ERR_MLINK;
    case fs::Error::kNameTooLong:
      return NFS4ERR_NAMETOOLONG;
    case fs::Error::kNotEmpty:
      return NFS4ERR_NOTEMPTY;
    case fs::Error::kQuota:
      return NFS4ERR_DQUOT;
    case fs::Error::kStale:
      return NFS4ERR_STALE;
    case fs::Error::kBadHandle:
      return NFS4ERR_BADHANDLE;
    case fs::Error::kBadCookie:
      return NFS4ERR_BAD_COOKIE;
    case fs::Error::kNotSupported:
      return NFS4ERR_NOTSUPP;
    case fs::Error::kServerFault:
      return NFS4ERR_SERVERFAULT;
    case fs::Error::kBadType:
      return NFS4ERR_BADTYPE;
    case fs::Error::kDelay:
      return NFS4ERR_DELAY;
    case fs::Error::kBadName:
      return NFS4ERR_BADNAME;
    case fs::Error::kNoXattr:
      return NFS4ERR_NOXATTR;
    case fs::Error::kXattrTooBig:
      return NFS4ERR_XATTR2BIG;
  }
  return NFS4ERR_SERVERFAULT;
}

nfsstat4 StatusInDirectory(fs::Error error, const std::optional<fs::Attributes>& directory) {
  const bool is_link = directory && directory->type == fs::FileType::kSymlink;
  return error == fs::Error::kNotDir && is_link ? NFS4ERR_SYMLINK : ToStatus(error);
}

nfs_ftype4 ToFileType(fs::FileType type) {
  switch (type) {
    case fs::FileType::kRegular:
      return NF4REG;
    case fs::FileType::kDirectory:
      return NF4DIR;
    case fs::FileType::kBlock:
      return NF4BLK;
    case fs::FileType::kCharacter:
      return NF4CHR;
    case fs::FileType::kSymlink:
      return NF4LNK;
    case fs::FileType::kSocket:
      return NF4SOCK;
    case fs::FileType::kFifo:
      return NF4FIFO;
  }
  return NF4REG;
}

change_info4 ToChangeInfo(const fs::WeakCacheData& data) {
  return {.atomic = data.atomic && data.before && data.after,
          .before = data.before ? data.before->change : 0,
          .after = data.after ? data.after->change : 0};
}

stable_how4 ToStability(fs::Stability stability) {
  switch (stability) {
    case fs::Stability::kUnstable:
      return UNSTABLE4;
    case fs::Stability::kDataSync:
      return DATA_SYNC4;
    case fs::Stability::kFileSync:
      return FILE_SYNC4;
  }
  return UNSTABLE4;
}

fs::Stability FromStability(stable_how4 how) {
  switch (how) {
    case UNSTABLE4:
      return fs::Stability::kUnstable;
    case DATA_SYNC4:
      return fs::Stability::kDataSync;
    case FILE_SYNC4:
      return fs::Stability::kFileSync;
  }
  return fs::Stability::kFileSync;
}

nfsstat4 CheckName(std::string_view name) {
  if (name.empty() || !IsUtf8(name)) return NFS4ERR_INVAL;
  if (name == "." || name == "..") return NFS4ERR_BADNAME;
  if (name.find('/') != name.npos || name.find('\0') != name.npos) return NFS4ERR_BADCHAR;
  return NFS4_OK;
}

}  // namespace penstock::nfs::v4
