#include "fs/types.h"

namespace penstock::fs {

std::string_view ToString(Error error) {
  switch (error) {
    case Error::kPerm:
      return "operation not permitted";
    case Error::kNoEnt:
      return "no such file or directory";
    case Error::kIo:
      return "input/output error";
    case Error::kNxIo:
      return "no such device or address";
    case Error::kAccess:
      return "permission denied";
    case Error::kExist:
      return "file exists";
    case Error::kXDev:
      return "another file system";
    case Error::kNoDev:
      return "no such device";
    case Error::kNotDir:
      return "not a directory";
    case Error::kIsDir:
      return "is a directory";
    case Error::kInvalid:
      return "invalid argument";
    case Error::kFileTooBig:
      return "file too large";
    case Error::kNoSpace:
      return "no space left";
    case Error::kReadOnly:
      return "read-only file system";
    case Error::kTooManyLinks:
      return "too many links";
    case Error::kNameTooLong:
      return "name too long";
    case Error::kNotEmpty:
      return "directory not empty";
    case Error::kQuota:
      return "quota exceeded";
    case Error::kStale:
      return "stale handle";
    case Error::kBadHandle:
      return "bad handle";
    case Error::kNotSync:
      return "guard does not hold";
    case Error::kBadCookie:
      return "bad cookie";
    case Error::kNotSupported:
      return "not supported";
    case Error::kServerFault:
      return "server fault";
    case Error::kBadType:
      return "type cannot be made";
    case Error::kDelay:
      return "try again later";
    case Error::kCovered:
      return "served by another export";
    case Error::kBadName:
      return "bad name";
    case Error::kNoXattr:
      return "no such extended attribute";
    case Error::kXattrTooBig:
      return "extended attribute too big";
  }
  return "unknown error";
}

}  // namespace penstock::fs
