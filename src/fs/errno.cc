#include "fs/errno.h"

namespace penstock::fs {

Error FromErrno(int number) {
  switch (number) {
    case EPERM:
      return Error::kPerm;
    case ENOENT:
      return Error::kNoEnt;
    case EIO:
      return Error::kIo;
    case ENXIO:
      return Error::kNxIo;
    case EACCES:
    case EBUSY:    // a mount point
    case ETXTBSY:  // a program that is being executed
      return Error::kAccess;
    case EEXIST:
      return Error::kExist;
    case EXDEV:
      return Error::kXDev;
    case ENODEV:
      return Error::kNoDev;
    case ENOTDIR:
      return Error::kNotDir;
    case EISDIR:
      return Error::kIsDir;
    case EINVAL:
    case ELOOP:
      return Error::kInvalid;
    case EFBIG:
    case EOVERFLOW:
      return Error::kFileTooBig;
    case ENOSPC:
      return Error::kNoSpace;
    case EROFS:
      return Error::kReadOnly;
    case EMLINK:
      return Error::kTooManyLinks;
    case ENAMETOOLONG:
      return Error::kNameTooLong;
    case ENOTEMPTY:
      return Error::kNotEmpty;
    case EDQUOT:
      return Error::kQuota;
    case ESTALE:
      return Error::kStale;
    case EOPNOTSUPP:
      return Error::kNotSupported;
    case ENODATA:
      return Error::kNoXattr;
    case E2BIG:
    case ERANGE:
      return Error::kXattrTooBig;
    // A resource is used up, and other users will release it soon.
    case EAGAIN:
    case EMFILE:
    case ENFILE:
    case ENOMEM:
      return Error::kDelay;
    default:
      return Error::kServerFault;
  }
}

}  // namespace penstock::fs
