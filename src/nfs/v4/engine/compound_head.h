// The head of a COMPOUND: the fields before its operations, and the dialect that they select. Program decodes the head
// once, when it classifies the call, and passes it on to the execution.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "nfs/v4/dialect/dialect.h"
#include "protocol/nfs4_types.h"
#include "rpc/transport.h"
#include "xdr/decoder.h"

namespace penstock::nfs::v4 {

struct CompoundHead {
  std::string_view tag;  // a view of the call
  MinorVersion minor_version{};
  uint32_t count = 0;  // of operations
  // Empty if the COMPOUND has no operation.
  std::optional<nfs4::nfs_opnum4> first_operation{};
  // Null if the server speaks no such dialect: NFS4ERR_MINOR_VERS_MISMATCH.
  const Dialect* dialect = nullptr;
  size_t pads = 0;  // the octets of all pads among the operations; see xdr::Padding
};

// Leaves the decoder at the first operation. Returns nothing if the octets are not the head of a COMPOUND. `peer` is
// the sender; `bound_sessions` tells whether the server offers the sessions of 2004.
std::optional<CompoundHead> DecodeCompoundHead(xdr::Decoder& arguments, const rpc::Peer& peer, bool bound_sessions);

// The dialect of the RFCs with this minor version. Returns null if no such dialect exists. The dialects are in
// operations/operation_table.cc.
const Dialect* FindDialect(MinorVersion minor_version);
// The dialect of the sessions of 2004, which has the minor version of RFC 8881 (docs/sessions-2004.md).
const Dialect& DialectOfBoundSessions();

}  // namespace penstock::nfs::v4
