// The operations of NFSv4, by number: which minor versions have them, what they need, and how one is run.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/task.h"
#include "nfs/v4/engine/compound.h"
#include "protocol/nfs4_types.h"
#include "xdr/decoder.h"
#include "xdr/encoder.h"

namespace penstock::nfs::v4 {

// Decodes an operation's arguments, executes it, and encodes its result (what follows the operation's number).
// NFS4ERR_BADXDR where the arguments are none.
using RunNow = nfs4::nfsstat4 (*)(Compound& compound, xdr::Decoder& arguments, xdr::Encoder& results);
using RunTask = Task<nfs4::nfsstat4> (*)(Compound& compound, xdr::Decoder& arguments, xdr::Encoder& results);

struct Operation {
  nfs4::nfs_opnum4 number;
  // The minor versions that have it; from the one after `last` on it must not be implemented (RFC 8881 §2.7).
  uint8_t first;
  uint8_t last;
  bool needs_current = false;
  bool needs_saved = false;
  // A second execution would not end as the first one did, or would harm.
  bool changes = false;
  // What it does is on stable storage when it is done; OPEN says so itself (Compound::lasting).
  bool lasting = false;
  // It gives up what earlier calls on the current file, over the same connection, may still need: it is done after them.
  bool gives_up = false;
  // Of what `changes`: the most octets that its result takes.
  size_t max_result = 0;
  // One of them. Neither: SEQUENCE, which the COMPOUND itself executes, and what we do not have.
  RunNow now = nullptr;
  RunTask task = nullptr;
  // The result where it fails before it is run, or cannot be sent.
  void (*fail)(xdr::Encoder& results, nfs4::nfsstat4 status) = nullptr;

  bool exists_in(uint32_t minor_version) const { return minor_version >= first; }
  // Else NFS4ERR_NOTSUPP.
  bool supported_in(uint32_t minor_version) const {
    return minor_version >= first && minor_version <= last && (now || task || number == nfs4::OP_SEQUENCE);
  }
};

// Null where no minor version that we know has it.
const Operation* FindOperation(nfs4::nfs_opnum4 number);

}  // namespace penstock::nfs::v4
