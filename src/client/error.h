// What can go wrong for a user of the client library.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "protocol/nfs3.h"

namespace penstock::client {

struct Error {
  // For people: one line, without a full stop.
  std::string message;
  // Where it was the server that said no.
  std::optional<nfs3::nfsstat3> status;
};

template <class T, class E = Error>
using Result = penstock::Result<T, E>;

}  // namespace penstock::client
