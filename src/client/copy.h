// Whole files between a mount and this machine, with several transfers in flight.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/workers.h"
#include "client/mount.h"

namespace penstock::client {

struct CopyOptions {
  unsigned in_flight = 8;  // READs or WRITEs at a time
  // For a Download into a pipe or a device: octets are written in their order, with one READ at a time.
  bool in_order = false;
  // Errors name the local file so.
  std::string local_name = "the local file";
  // Called on the mount's loop after every transfer.
  std::function<void(uint64_t done, uint64_t total)> progress{};
};

// Both leave `local_fd` open, and block only threads of `workers`. In a regular file they use offsets, not the
// descriptor's position. They give the number of octets copied. After an error the target holds a part of the data.

// Copies the size that `from` has when the copy begins. What is appended later is not copied; a file that becomes shorter
// meanwhile is an error. Cuts a regular local file to that size. Does not sync it.
Task<Result<uint64_t>> Download(Mount& mount, Workers& workers, File& from, int local_fd, CopyOptions options = {});

// `size` octets of the local file, then committed: when this has succeeded, they are on the server's stable storage.
// Where the server has restarted meanwhile and may have lost what it had not committed, everything is written again
// (RFC 1813 §4.11). A local file that becomes shorter meanwhile is an error.
Task<Result<uint64_t>> Upload(Mount& mount, Workers& workers, int local_fd, uint64_t size, File& to,
                              CopyOptions options = {});

}  // namespace penstock::client
