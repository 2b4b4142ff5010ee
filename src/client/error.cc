#include "client/error.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <utility>

#include "protocol/nfs3.h"
#include "protocol/nfs4_types.h"

namespace penstock::client {
namespace {

constexpr int32_t NumberOf(auto status) { return static_cast<int32_t>(status); }

// A text for each status that concerns a user of files. Version 4 uses the numbers of version 3 for most errors.
constexpr auto kTexts = std::to_array<std::pair<int32_t, std::string_view>>({
    {NumberOf(nfs3::NFS3_OK), "no error"},
    {NumberOf(nfs3::NFS3ERR_PERM), "not permitted"},
    {NumberOf(nfs3::NFS3ERR_NOENT), "no such file or directory"},
    {NumberOf(nfs3::NFS3ERR_IO), "input/output error on the server"},
    {NumberOf(nfs3::NFS3ERR_NXIO), "no such device"},
    {NumberOf(nfs3::NFS3ERR_ACCES), "permission denied"},
    {NumberOf(nfs3::NFS3ERR_EXIST), "exists already"},
    {NumberOf(nfs3::NFS3ERR_XDEV), "on another file system"},
    {NumberOf(nfs3::NFS3ERR_NODEV), "no such device"},
    {NumberOf(nfs3::NFS3ERR_NOTDIR), "not a directory"},
    {NumberOf(nfs3::NFS3ERR_ISDIR), "is a directory"},
    {NumberOf(nfs3::NFS3ERR_INVAL), "invalid argument"},
    {NumberOf(nfs3::NFS3ERR_FBIG), "file too large"},
    {NumberOf(nfs3::NFS3ERR_NOSPC), "no space left on the server"},
    {NumberOf(nfs3::NFS3ERR_ROFS), "read-only file system"},
    {NumberOf(nfs3::NFS3ERR_MLINK), "too many links"},
    {NumberOf(nfs3::NFS3ERR_NAMETOOLONG), "name too long"},
    {NumberOf(nfs3::NFS3ERR_NOTEMPTY), "directory not empty"},
    {NumberOf(nfs3::NFS3ERR_DQUOT), "quota exceeded"},
    {NumberOf(nfs3::NFS3ERR_STALE), "stale file handle: the file is gone from the server or is no longer exported"},
    {NumberOf(nfs3::NFS3ERR_REMOTE), "is remote to the server"},
    {NumberOf(nfs3::NFS3ERR_BADHANDLE), "bad file handle"},
    {NumberOf(nfs3::NFS3ERR_NOT_SYNC), "changed in the meantime"},
    {NumberOf(nfs3::NFS3ERR_BAD_COOKIE), "the directory changed while it was read"},
    {NumberOf(nfs3::NFS3ERR_NOTSUPP), "not supported by the server"},
    {NumberOf(nfs3::NFS3ERR_TOOSMALL), "buffer too small"},
    {NumberOf(nfs3::NFS3ERR_SERVERFAULT), "server fault"},
    {NumberOf(nfs3::NFS3ERR_BADTYPE), "type not supported by the server"},
    {NumberOf(nfs3::NFS3ERR_JUKEBOX), "not available now, try again later"},
    {NumberOf(nfs4::NFS4ERR_DENIED), "locked by another client"},
    {NumberOf(nfs4::NFS4ERR_LOCKED), "locked by another client"},
    {NumberOf(nfs4::NFS4ERR_SHARE_DENIED), "another client has it open and denies sharing"},
    {NumberOf(nfs4::NFS4ERR_EXPIRED), "the lease expired and the server released the open files and locks"},
    {NumberOf(nfs4::NFS4ERR_GRACE), "the server has restarted and waits until its clients reclaim their state"},
    {NumberOf(nfs4::NFS4ERR_WRONGSEC), "the server requires another security flavor"},
    {NumberOf(nfs4::NFS4ERR_MOVED), "is on another server"},
    {NumberOf(nfs4::NFS4ERR_CLID_INUSE), "another user of the server has a client with the same name"},
    {NumberOf(nfs4::NFS4ERR_SYMLINK), "is a symbolic link"},
    {NumberOf(nfs4::NFS4ERR_BADNAME), "the server does not accept this name"},
    {NumberOf(nfs4::NFS4ERR_BADCHAR), "the server does not accept this name"},
    {NumberOf(nfs4::NFS4ERR_BADOWNER), "the server does not know this owner or group"},
    {NumberOf(nfs4::NFS4ERR_SESS01_BADSESSION), "the server does not know the session"},
    {NumberOf(nfs4::NFS4ERR_SESS01_BADSTREAM), "the server does not know the stream of the request"},
    {NumberOf(nfs4::NFS4ERR_SESS01_CHAIN_INVALID), "the server does not accept the request in its chain"},
    {NumberOf(nfs4::NFS4ERR_SESS01_BADCHANNEL), "the server does not know the channel of the request"},
    {NumberOf(nfs4::NFS4ERR_SESS01_NOT_BOUND), "the connection is not bound to a session"},
    {NumberOf(nfs4::NFS4ERR_SESS01_CONTROL_POS), "the server expects OPERATION_CONTROL elsewhere in the request"},
    {NumberOf(nfs4::NFS4ERR_SESS01_CHAIN_BROKEN),
     "the connection was lost in the middle of a chain of requests: a part of it may have been executed"},
    {NumberOf(nfs4::NFS4ERR_SESS01_BADBIND), "the server does not bind this connection to the session"},
    {NumberOf(nfs4::NFS4ERR_SESS01_STREAM_INUSE),
     "the connection was lost, and the server cannot tell whether it has executed the request"},
    {NumberOf(nfs4::NFS4ERR_SESS01_UNKNOWN_FATE),
     "the server restarted or lost the session during the request, and cannot tell whether it has executed it"},
});

// The errno for each status that has a better one than EIO.
constexpr auto kNumbers = std::to_array<std::pair<int32_t, int>>({
    {NumberOf(nfs3::NFS3_OK), 0},
    {NumberOf(nfs3::NFS3ERR_PERM), EPERM},
    {NumberOf(nfs3::NFS3ERR_NOENT), ENOENT},
    {NumberOf(nfs3::NFS3ERR_NXIO), ENXIO},
    {NumberOf(nfs3::NFS3ERR_ACCES), EACCES},
    {NumberOf(nfs3::NFS3ERR_EXIST), EEXIST},
    {NumberOf(nfs3::NFS3ERR_XDEV), EXDEV},
    {NumberOf(nfs3::NFS3ERR_NODEV), ENODEV},
    {NumberOf(nfs3::NFS3ERR_NOTDIR), ENOTDIR},
    {NumberOf(nfs3::NFS3ERR_ISDIR), EISDIR},
    {NumberOf(nfs3::NFS3ERR_INVAL), EINVAL},
    {NumberOf(nfs3::NFS3ERR_FBIG), EFBIG},
    {NumberOf(nfs3::NFS3ERR_NOSPC), ENOSPC},
    {NumberOf(nfs3::NFS3ERR_ROFS), EROFS},
    {NumberOf(nfs3::NFS3ERR_MLINK), EMLINK},
    {NumberOf(nfs3::NFS3ERR_NAMETOOLONG), ENAMETOOLONG},
    {NumberOf(nfs3::NFS3ERR_NOTEMPTY), ENOTEMPTY},
    {NumberOf(nfs3::NFS3ERR_DQUOT), EDQUOT},
    {NumberOf(nfs3::NFS3ERR_STALE), ESTALE},
    {NumberOf(nfs3::NFS3ERR_REMOTE), EREMOTE},
    {NumberOf(nfs3::NFS3ERR_BADHANDLE), ESTALE},
    {NumberOf(nfs3::NFS3ERR_NOTSUPP), EOPNOTSUPP},
    {NumberOf(nfs3::NFS3ERR_BADTYPE), EOPNOTSUPP},
    {NumberOf(nfs3::NFS3ERR_JUKEBOX), EAGAIN},
    {NumberOf(nfs4::NFS4ERR_DENIED), EAGAIN},
    {NumberOf(nfs4::NFS4ERR_EXPIRED), ENOLCK},
    {NumberOf(nfs4::NFS4ERR_LOCKED), EAGAIN},
    {NumberOf(nfs4::NFS4ERR_GRACE), EAGAIN},
    {NumberOf(nfs4::NFS4ERR_FHEXPIRED), ESTALE},
    {NumberOf(nfs4::NFS4ERR_SHARE_DENIED), EBUSY},
    {NumberOf(nfs4::NFS4ERR_WRONGSEC), EACCES},
    {NumberOf(nfs4::NFS4ERR_CLID_INUSE), EBUSY},
    {NumberOf(nfs4::NFS4ERR_MOVED), EREMOTE},
    {NumberOf(nfs4::NFS4ERR_MINOR_VERS_MISMATCH), EPROTONOSUPPORT},
    {NumberOf(nfs4::NFS4ERR_LOCK_RANGE), EINVAL},
    {NumberOf(nfs4::NFS4ERR_SYMLINK), ELOOP},
    {NumberOf(nfs4::NFS4ERR_ATTRNOTSUPP), EOPNOTSUPP},
    {NumberOf(nfs4::NFS4ERR_NO_GRACE), ENOLCK},
    {NumberOf(nfs4::NFS4ERR_RECLAIM_BAD), ENOLCK},
    {NumberOf(nfs4::NFS4ERR_RECLAIM_CONFLICT), ENOLCK},
    {NumberOf(nfs4::NFS4ERR_BADXDR), EPROTO},
    {NumberOf(nfs4::NFS4ERR_LOCKS_HELD), EBUSY},
    {NumberOf(nfs4::NFS4ERR_OPENMODE), EBADF},
    {NumberOf(nfs4::NFS4ERR_BADOWNER), EINVAL},
    {NumberOf(nfs4::NFS4ERR_BADCHAR), EILSEQ},
    {NumberOf(nfs4::NFS4ERR_BADNAME), EINVAL},
    {NumberOf(nfs4::NFS4ERR_BAD_RANGE), EINVAL},
    {NumberOf(nfs4::NFS4ERR_LOCK_NOTSUPP), EOPNOTSUPP},
    {NumberOf(nfs4::NFS4ERR_OP_ILLEGAL), EOPNOTSUPP},
    {NumberOf(nfs4::NFS4ERR_DEADLOCK), EDEADLK},
    {NumberOf(nfs4::NFS4ERR_FILE_OPEN), EBUSY},
    {NumberOf(nfs4::NFS4ERR_REQ_TOO_BIG), EMSGSIZE},
    {NumberOf(nfs4::NFS4ERR_REP_TOO_BIG), EMSGSIZE},
    {NumberOf(nfs4::NFS4ERR_WRONG_CRED), EACCES},
    {NumberOf(nfs4::NFS4ERR_WRONG_TYPE), EINVAL},
    {NumberOf(nfs4::NFS4ERR_PARTNER_NOTSUPP), EOPNOTSUPP},
    {NumberOf(nfs4::NFS4ERR_PARTNER_NO_AUTH), EACCES},
    {NumberOf(nfs4::NFS4ERR_UNION_NOTSUPP), EOPNOTSUPP},
    {NumberOf(nfs4::NFS4ERR_NOXATTR), ENODATA},
    {NumberOf(nfs4::NFS4ERR_XATTR2BIG), E2BIG},
});

}  // namespace

std::string Describe(Status status) {
  const int32_t number = NumberOf(status);
  const auto found = std::ranges::find(kTexts, number, &std::pair<int32_t, std::string_view>::first);
  if (found != kTexts.end()) return std::string(found->second);
  const std::string_view name = XdrName(static_cast<nfs4::nfsstat4>(number));
  return name.empty() ? fmt::format("unknown error {}", number) : fmt::format("the server says {}", name);
}

int ErrnoOf(Status status) {
  const auto found = std::ranges::find(kNumbers, NumberOf(status), &std::pair<int32_t, int>::first);
  return found == kNumbers.end() ? EIO : found->second;
}

Error ErrorOf(Status status, std::string_view what) {
  return {fmt::format("{}: {}", what, Describe(status)), status, ErrnoOf(status)};
}

bool IsOfConnection(int number) {
  switch (number) {
    case ECONNABORTED:
    case ECONNREFUSED:
    case ECONNRESET:
    case EHOSTDOWN:
    case EHOSTUNREACH:
    case ENETDOWN:
    case ENETUNREACH:
    case ENOTCONN:
    case EPIPE:
    case ETIMEDOUT:
      return true;
    default:
      return false;
  }
}

Error WithTrouble(Error error, const SetupError& trouble) {
  if (error.status || trouble.message.empty()) return error;
  if (!error.message.ends_with(trouble.message)) error.message += fmt::format(": {}", trouble.message);
  if (error.number == ECONNRESET) error.number = trouble.number;
  return error;
}

}  // namespace penstock::client
