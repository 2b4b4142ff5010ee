#include "client/error.h"

#include <fmt/core.h>

#include "protocol/nfs4_types.h"

namespace penstock::client {
namespace {

// Of both versions, and of version 3 alone.
std::string_view Common(int32_t number) {
  switch (number) {
    case 0:
      return "no error";
    case 1:
      return "not permitted";
    case 2:
      return "no such file or directory";
    case 5:
      return "input/output error on the server";
    case 6:
    case 19:
      return "no such device";
    case 13:
      return "permission denied";
    case 17:
      return "exists already";
    case 18:
      return "on another file system";
    case 20:
      return "not a directory";
    case 21:
      return "is a directory";
    case 22:
      return "invalid argument";
    case 27:
      return "file too large";
    case 28:
      return "no space left on the server";
    case 30:
      return "read-only file system";
    case 31:
      return "too many links";
    case 63:
      return "name too long";
    case 66:
      return "directory not empty";
    case 69:
      return "quota exceeded";
    case 70:
      return "stale file handle: what it led to is gone from the server, or served no more";
    case 71:
      return "is remote to the server";
    case 10001:
      return "bad file handle";
    case 10002:
      return "changed meanwhile";
    case 10003:
      return "the directory changed while it was read";
    case 10004:
      return "not supported by the server";
    case 10005:
      return "buffer too small";
    case 10006:
      return "server fault";
    case 10007:
      return "type not supported by the server";
    case 10008:
      return "not available now, try again later";
    default:
      return "";
  }
}

// Of version 4 alone: what a user of files can make something of.
std::string_view OfVersion4(nfs4::nfsstat4 status) {
  switch (status) {
    case nfs4::nfsstat4::NFS4ERR_DENIED:
    case nfs4::nfsstat4::NFS4ERR_LOCKED:
      return "locked by another client";
    case nfs4::nfsstat4::NFS4ERR_SHARE_DENIED:
      return "opened by another client, who shares it with nobody";
    case nfs4::nfsstat4::NFS4ERR_EXPIRED:
      return "the lease ran out, and the server forgot what was open";
    case nfs4::nfsstat4::NFS4ERR_GRACE:
      return "the server has restarted and waits for its clients to come back";
    case nfs4::nfsstat4::NFS4ERR_WRONGSEC:
      return "the server wants other security";
    case nfs4::nfsstat4::NFS4ERR_MOVED:
      return "moved to another server";
    case nfs4::nfsstat4::NFS4ERR_SYMLINK:
      return "is a symbolic link";
    case nfs4::nfsstat4::NFS4ERR_BADNAME:
    case nfs4::nfsstat4::NFS4ERR_BADCHAR:
      return "not a name that the server takes";
    default:
      return "";
  }
}

}  // namespace

std::string Describe(Status status) {
  const auto number = static_cast<int32_t>(status);
  std::string_view text = Common(number);
  const auto status4 = static_cast<nfs4::nfsstat4>(number);
  if (text.empty()) text = OfVersion4(status4);
  if (!text.empty()) return std::string(text);
  const std::string_view name = XdrName(status4);
  return name.empty() ? fmt::format("unknown error {}", number) : fmt::format("the server says {}", name);
}

Error ErrorOf(Status status, std::string_view what) { return {fmt::format("{}: {}", what, Describe(status)), status}; }

Error WithTrouble(Error error, std::string_view trouble) {
  if (!error.status && !trouble.empty()) error.message += fmt::format(": {}", trouble);
  return error;
}

}  // namespace penstock::client
