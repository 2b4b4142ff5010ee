#include "nfs/v4/engine/compound_head.h"

#include "protocol/nfs4.h"
#include "xdr/decode.h"

namespace penstock::nfs::v4 {

namespace {

// The one place that chooses a COMPOUND's dialect. RFC 8881 and the sessions of 2004 have the same minor version. A
// COMPOUND belongs to the latter if its first operation is theirs, or if its connection is bound to one of their
// sessions: such a connection speaks nothing else.
const Dialect* ChooseDialect(const CompoundHead& head, const rpc::Peer& peer, bool bound_sessions) {
  if (bound_sessions) {
    const Dialect& bound = DialectOfBoundSessions();
    const bool is_bound = peer.back_channel && peer.back_channel->bound();
    const bool begins_so = head.first_operation && bound.Adds(*head.first_operation);
    if (head.minor_version == bound.minor_version() && (is_bound || begins_so)) return &bound;
    if (is_bound) return nullptr;
  }
  return FindDialect(head.minor_version);
}

}  // namespace

std::optional<CompoundHead> DecodeCompoundHead(xdr::Decoder& arguments, const rpc::Peer& peer, bool bound_sessions) {
  nfs4::COMPOUND4args_head decoded;
  if (!xdr::Decode(arguments, decoded)) return std::nullopt;
  CompoundHead head{.tag = decoded.tag, .minor_version = MinorVersion(decoded.minorversion), .count = decoded.count};
  if (const auto first = arguments.PeekU32(); first && head.count > 0) {
    head.first_operation = static_cast<nfs4::nfs_opnum4>(*first);
  }
  head.dialect = ChooseDialect(head, peer, bound_sessions);
  return head;
}

}  // namespace penstock::nfs::v4
