// The errors of the client library. Users of the library read their messages; programs look at their status.
#pragma once

#include <cerrno>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace penstock::client {

// A server's reason for a refusal: nfsstat3 or nfsstat4. Both give an error that they share the same number (RFC 1813
// §2.6, RFC 7530 §13). Values without a name here also occur.
enum class Status : int32_t {
  kOk = 0,
  kNotPermitted = 1,
  kNotFound = 2,
  kAccess = 13,
  kExists = 17,
  kCrossDevice = 18,
  kNotDirectory = 20,
  kIsDirectory = 21,
  kInvalid = 22,
  kNoSpace = 28,
  kReadOnly = 30,
  kNameTooLong = 63,
  kNotEmpty = 66,
  kStale = 70,
  kBadCookie = 10003,  // the listing cannot go on from this place
  kNotSupported = 10004,
  kDenied = 10010,           // NFS4ERR_DENIED: another owner holds a conflicting lock
  kExpired = 10011,          // NFS4ERR_EXPIRED: the server has forgotten the locks
  kMoved = 10019,            // NFS4ERR_MOVED: in a file system that is absent from the server
  kWrongSecurity = 10016,    // NFS4ERR_WRONGSEC: the server requires another security flavor
  kVersionMismatch = 10021,  // NFS4ERR_MINOR_VERS_MISMATCH: no version 4, or not this minor version
  kNotSame = 10027,          // NFS4ERR_NOT_SAME: of a listing: the server rejects its verifier
  kBadOwner = 10039,         // NFS4ERR_BADOWNER: the server does not know the owner or group, or accepts no numbers
};
// Returns a text for users.
std::string Describe(Status status);
// Returns the errno that describes the status: EIO if none does it better.
int ErrnoOf(Status status);

struct Error {
  // One line for users, without a full stop.
  std::string message;
  // Present if the server refused the request.
  std::optional<Status> status;
  // The errno that describes the error, positive.
  int number = EIO;
};

// Makes a message such as "name: no such file or directory".
Error ErrorOf(Status status, std::string_view what);

// Whether the errno says that a server cannot be reached, or that a connection is lost.
bool IsOfConnection(int number);

// Appends the message of `trouble`, which is Mount::trouble(), to an error without a status, unless the error ends with
// it already. Replaces ECONNRESET, the errno of a lost connection, by that of the trouble, which says why there is no
// new connection.
Error WithTrouble(Error error, const SetupError& trouble);

template <class T, class E = Error>
using Result = penstock::Result<T, E>;

}  // namespace penstock::client
