#include "nfs/v4/engine/compound_head.h"

#include "protocol/nfs4.h"
#include "xdr/decode.h"

namespace penstock::nfs::v4 {

namespace {

// The one place that chooses a COMPOUND's dialect. Today the minor version decides. A dialect that shares its number
// with another one is to be chosen here by the first operation, or by the connection.
const Dialect* ChooseDialect(const CompoundHead& head) { return FindDialect(head.minor_version); }

}  // namespace

std::optional<CompoundHead> DecodeCompoundHead(xdr::Decoder& arguments) {
  nfs4::COMPOUND4args_head decoded;
  if (!xdr::Decode(arguments, decoded)) return std::nullopt;
  CompoundHead head{.tag = decoded.tag, .minor_version = MinorVersion(decoded.minorversion), .count = decoded.count};
  if (const auto first = arguments.PeekU32(); first && head.count > 0) {
    head.first_operation = static_cast<nfs4::nfs_opnum4>(*first);
  }
  head.dialect = ChooseDialect(head);
  return head;
}

}  // namespace penstock::nfs::v4
