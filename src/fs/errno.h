// Converts errno to the errors of the file-system interface.
#pragma once

#include <cerrno>
#include <expected>

#include "fs/types.h"

namespace penstock::fs {

Error FromErrno(int number);

// The error of the system call that failed just now.
inline std::unexpected<Error> LastError() { return std::unexpected(FromErrno(errno)); }

}  // namespace penstock::fs
