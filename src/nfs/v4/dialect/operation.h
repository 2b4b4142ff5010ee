// One row of a dialect's table of operations: what an operation needs, what it does, and which function executes it.
// The engine reads these facts before it decodes the operation's arguments.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/task.h"
#include "protocol/nfs4_types.h"
#include "xdr/decoder.h"
#include "xdr/encoder.h"

namespace penstock::nfs::v4 {

struct Compound;

// Decodes an operation's arguments, executes it, and encodes its result, which follows the operation's number. Returns
// NFS4ERR_BADXDR if the arguments cannot be decoded.
using RunNow = nfs4::nfsstat4 (*)(Compound& compound, xdr::Decoder& arguments, xdr::Encoder& results);
using RunTask = Task<nfs4::nfsstat4> (*)(Compound& compound, xdr::Decoder& arguments, xdr::Encoder& results);

// Where an operation may stand in a COMPOUND of a dialect with sessions (RFC 8881 §2.10.6.2.1, §18.34 to §18.37,
// §18.46; draft-talpey-nfsv4-rdma-sess-01 §6).
enum class Placement : uint8_t {
  kInRequest,    // behind the opener
  kOpener,       // first: the engine itself executes it (SEQUENCE, OPERATION_CONTROL)
  kAlsoAlone,    // behind the opener, or as the only operation
  kOnlyAlone,    // as the only operation
  kBeforeReads,  // first, in the place of the opener; only operations that change nothing may follow
  kLast,         // behind the opener, as the last operation
};

struct Operation {
  nfs4::nfs_opnum4 number;
  Placement placement = Placement::kInRequest;
  bool needs_current = false;
  bool needs_saved = false;
  // A second execution would end differently or would do harm.
  bool changes = false;
  // The operation's effect is on stable storage when the operation ends. OPEN decides this itself (Compound::lasting).
  bool lasting = false;
  // The operation gives up state on the current file. It waits for earlier calls on that file over the same connection,
  // which may still need the state.
  bool gives_up = false;
  // For operations that change something: the largest size of the result in octets.
  size_t max_result = 0;
  // An operation has one of the two. It has both if only the last one of a COMPOUND is a task. Both are null for the
  // opener and for an operation that the server does not support.
  RunNow now = nullptr;
  RunTask task = nullptr;
  // Encodes the result of an operation that fails before it is executed, or whose result cannot be sent.
  void (*fail)(xdr::Encoder& results, nfs4::nfsstat4 status) = nullptr;

  // Whether an execution may change something. A second WRITE does no harm, so `changes` is false for it.
  constexpr bool may_change() const { return changes || number == nfs4::OP_WRITE; }
  // If false, the operation exists in the dialect, and its result is NFS4ERR_NOTSUPP.
  constexpr bool supported() const { return now || task || placement == Placement::kOpener; }
};

}  // namespace penstock::nfs::v4
