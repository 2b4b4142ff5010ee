// errno, in the words of the file-system interface.
#pragma once

#include <cerrno>
#include <expected>

#include "fs/types.h"

namespace penstock::fs::posix {

Error FromErrno(int number);

// What the system call that failed just now says.
inline std::unexpected<Error> LastError() { return std::unexpected(FromErrno(errno)); }

}  // namespace penstock::fs::posix
