// Copies whole files between a mount and this machine, with several transfers in flight.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/workers.h"
#include "client/mount.h"

namespace penstock::client {

struct CopyOptions {
  unsigned in_flight = 8;  // READs or WRITEs at the same time
  // For a Download into a pipe or a device: writes the octets in order, with one READ at a time.
  bool in_order = false;
  // The name of the local file in errors.
  std::string local_name = "the local file";
  // Called on the mount's loop after every transfer.
  std::function<void(uint64_t done, uint64_t total)> progress{};
  // Called on the mount's loop before every transfer. Returns true to end the copy with an error (ECANCELED).
  std::function<bool()> stops{};
};

// Download() and Upload() leave `local_fd` open and block only threads of `workers`. In a regular file they use
// offsets, not the descriptor's position. They return the number of copied octets. After an error the target holds a
// part of the data.

// Copies the size that `from` has when the copy begins. Data that another client appends later is not copied. A file
// that becomes shorter during the copy is an error. Truncates a regular local file to the copied size. Does not sync
// it.
Task<Result<uint64_t>> Download(Mount& mount, Workers& workers, File& from, int local_fd, CopyOptions options = {});

// Copies `size` octets of the local file and commits them: after success they are on the server's stable storage. If
// the server restarts during the copy, it may lose uncommitted data, so everything is written again (RFC 1813 §4.11). A
// local file that becomes shorter during the copy is an error.
Task<Result<uint64_t>> Upload(Mount& mount, Workers& workers, int local_fd, uint64_t size, File& to,
                              CopyOptions options = {});

}  // namespace penstock::client
