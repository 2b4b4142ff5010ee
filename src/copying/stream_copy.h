// Copies a file of unknown size that can be read only once: standard input, a pipe, a file of /proc.
#pragma once

#include <cstdint>
#include <string>

#include "base/workers.h"
#include "copying/file_copy.h"

namespace penstock::copying {

struct Stream {
  Workers* workers = nullptr;
  int fd = -1;
  std::string name{};    // in messages
  uint32_t mode = 0600;  // of the copy, less the umask on this machine
};

// Writes all octets of the stream to the new file `name` of `to`, and makes them stable. They are read in their order,
// while several writes are under way.
Task<Result<void>> CopyStreamTo(Run& run, const Stream& stream, Directory& to, const std::string& name,
                                const NewFile& file, uint64_t& size);

}  // namespace penstock::copying
