// What can go wrong for a user of the client library.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace penstock::client {

// Why a server says no: nfsstat3 or nfsstat4, whose numbers agree where both have them (RFC 1813 §2.6, RFC 7530 §13).
// Others than those named here occur.
enum class Status : int32_t {
  kOk = 0,
  kNotPermitted = 1,
  kNotFound = 2,
  kAccess = 13,
  kExists = 17,
  kNotDirectory = 20,
  kIsDirectory = 21,
  kInvalid = 22,
  kNoSpace = 28,
  kReadOnly = 30,
  kNameTooLong = 63,
  kNotEmpty = 66,
  kStale = 70,
  kNotSupported = 10004,
  kDenied = 10010,           // NFS4ERR_DENIED: another has a lock that is in the way
  kExpired = 10011,          // NFS4ERR_EXPIRED: the server has forgotten what was locked
  kVersionMismatch = 10021,  // NFS4ERR_MINOR_VERS_MISMATCH: version 4 is not spoken, or not this minor version
};
// For people.
std::string Describe(Status status);

struct Error {
  // For people: one line, without a full stop.
  std::string message;
  // Where it was the server that said no.
  std::optional<Status> status;
};

// "server: no such file or directory"
Error ErrorOf(Status status, std::string_view what);
// The same with Mount::trouble() behind it, where no server has said anything.
Error WithTrouble(Error error, std::string_view trouble);

template <class T, class E = Error>
using Result = penstock::Result<T, E>;

}  // namespace penstock::client
