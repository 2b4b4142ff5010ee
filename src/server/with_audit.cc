#include "server/with_audit.h"

#include <fmt/core.h>

#include <utility>

#include "base/host.h"
#include "protocol/mount.h"
#include "xdr/decode.h"

namespace penstock::server {
namespace {

// The path of a MNT, which has the same number and encoding in all versions.
std::string PathOf(const xdr::Decoder& arguments) {
  const xdr::Message rest = xdr::Message::Whole(Slice::Borrowed(arguments.rest()));
  xdr::Decoder decoder(rest);
  mount3::dirpath path;
  return xdr::Decode(decoder, path) ? std::string(path) : std::string();
}

}  // namespace

Task<rpc::AcceptStatus> WithAuditOfMounts::Call(rpc::CallContext& context, xdr::Decoder& arguments,
                                                xdr::Encoder& results) {
  if (context.procedure != mount3::MOUNTPROC3_MNT::kNumber) return inner().Call(context, arguments, results);
  return Mount(context, PathOf(arguments), arguments, results);
}

Task<rpc::AcceptStatus> WithAuditOfMounts::Mount(rpc::CallContext& context, std::string path, xdr::Decoder& arguments,
                                                 xdr::Encoder& results) {
  const rpc::AcceptStatus status = co_await inner().Call(context, arguments, results);
  fs::audited::Record record;
  record.operation = "mount";
  record.address = Unmapped(context.peer.address.address()).to_string();
  record.uid = context.credential.uid;
  record.gid = context.credential.gid;
  record.path = std::move(path);
  if (context.denial != rpc::AuthStatus::AUTH_OK) {
    record.result = "denied";
  } else if (status != rpc::AcceptStatus::SUCCESS) {
    record.result = "malformed";
  } else if (context.outcome.status != 0) {
    const std::string_view name = XdrName(static_cast<mount3::mountstat3>(context.outcome.status));
    record.result = name.empty() ? fmt::format("error {}", context.outcome.status) : std::string(name);
  }
  log_.Add(std::move(record));
  co_return status;
}

}  // namespace penstock::server
