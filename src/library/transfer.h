// Reads and writes of any size, by READs and WRITEs of the sizes that the server takes.
#pragma once

#include <cstdint>

#include "base/bytes.h"
#include "base/task.h"
#include "client/mount.h"
#include "library/operation.h"
#include "library/unsynced.h"

namespace penstock::library {

// If the operation may be abandoned, the RPCs do not use the memory of the host: the data are copied.
struct Transferred {
  client::Mount& mount;
  client::File& file;
  Operation& operation;
};

// Returns how many octets were read: fewer than into.size() only at the end of the file.
Task<Outcome> ReadRange(Transferred what, uint64_t offset, Bytes into);
// Writes all octets, and notes in `unsynced` what a COMMIT has to make stable. Returns from.size().
Task<Outcome> WriteRange(Transferred what, uint64_t offset, ConstBytes from, Unsynced& unsynced);
// Writes all octets, and makes them stable. If the server loses some of them in between, writes all of them again.
// Returns from.size().
Task<Outcome> WriteStable(Transferred what, uint64_t offset, ConstBytes from);

// The error of an operation that was abandoned, which nobody sees.
std::unexpected<client::Error> Abandoned();

}  // namespace penstock::library
