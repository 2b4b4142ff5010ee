// Whole files between a mount and this machine, with several transfers in flight.
#pragma once

#include <cstdint>
#include <functional>

#include "base/workers.h"
#include "client/mount.h"

namespace penstock::client {

struct CopyOptions {
  unsigned in_flight = 8;  // READs or WRITEs at a time
  // Called on the mount's loop after every transfer.
  std::function<void(uint64_t done, uint64_t total)> progress;
};

// Both leave `local_fd`, a regular file, open, use its offsets and not its position, and block only threads of
// `workers`. They give the number of octets copied.

// `from` until its end, also where it has grown meanwhile; the local file is cut to that length.
Task<Result<uint64_t>> Download(Mount& mount, Workers& workers, File& from, int local_fd, CopyOptions options = {});

// `size` octets of the local file, then committed: when this has succeeded, they are on the server's stable storage.
// Where the server has restarted meanwhile and may have lost what it had not committed, everything is written again
// (RFC 1813 §4.11).
Task<Result<uint64_t>> Upload(Mount& mount, Workers& workers, int local_fd, uint64_t size, File& to,
                              CopyOptions options = {});

}  // namespace penstock::client
