// Converts between the types of the file system and those of NFSv2.
#pragma once

#include <cstdint>
#include <optional>

#include "fs/file_system.h"
#include "fs/types.h"
#include "protocol/nfs2.h"

namespace penstock::nfs::v2 {

// Errors without a counterpart in RFC 1094 §2.3.1 become NFSERR_IO. kDelay has none: see nfs/patience.h.
nfs2::nfsstat ToStatus(fs::Error error);

// The largest size of a file that fattr can express.
inline constexpr uint64_t kMaxSize = UINT32_MAX;

// The 32 bits of a file system's number or of a file's number. A number of 32 bits stays as it is.
inline uint32_t Fold(uint64_t number) { return static_cast<uint32_t>(number ^ (number >> 32)); }

// Fails with kFileTooBig for a regular file that is larger than kMaxSize: any number in its place would make the client
// take a part of the file for the whole.
fs::Result<nfs2::fattr> ToAttributes(const fs::Attributes& attributes);

// Fails with kInvalid if a time has more than a million microseconds.
fs::Result<fs::NewAttributes> FromNewAttributes(const nfs2::sattr& values);

// The object that CREATE makes. Version 2 has no MKNOD: clients put the type into the mode of CREATE, and the number of
// a device into the size. A character device without a number is a FIFO.
struct NewObject {
  bool is_file = true;           // a regular file
  fs::NodeType node;             // otherwise
  fs::NewAttributes attributes;  // for a file only: the size
};
// Fails with kIsDir for a directory, and with kBadType for a type that has a procedure of its own or is unknown.
fs::Result<NewObject> FromCreation(const nfs2::sattr& values);

// Blocks are as large as needed for their number to have 31 bits, but no larger than 1 GiB.
nfs2::statfsok ToSpace(const fs::Space& space);

}  // namespace penstock::nfs::v2
