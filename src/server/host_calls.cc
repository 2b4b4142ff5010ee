#include "server/host_calls.h"

#include <optional>
#include <utility>

#include "rpc/auth.h"
#include "rpc/client.h"
#include "rpc/header.h"
#include "rpcbind/remote_program.h"
#include "xdr/decoder.h"
#include "xdr/encoder.h"

namespace penstock::server {

using nfs::nlm::HostCall;
using Outcome = nfs::nlm::HostCalls::Outcome;

namespace {

constexpr size_t kMaxResults = 8 << 10;  // octets; the longest results have a cookie of 1024

Outcome OutcomeOf(rpc::CallError error, rpc::TransportKind transport) {
  // Over UDP, this means that nothing listens at the port.
  const bool refused = transport == rpc::TransportKind::kUdp && error == rpc::CallError::kDisconnected;
  return refused ? Outcome::kNotReached : Outcome::kNoAnswer;
}

}  // namespace

Task<Outcome> NetworkHostCalls::Call(HostCall call, std::function<void(xdr::Encoder&)> write,
                                     std::function<bool(xdr::Decoder&)> read) {
  if (cancellation_.cancelled() || IsCancelled(call.cancellation)) co_return Outcome::kEnded;
  Cancellation either;
  const auto end = [&either] { either.Cancel(); };
  const Cancellation::Entry all(&cancellation_, end), only(call.cancellation, end);
  call.cancellation = &either;
  const auto place = co_await places_.Enter(call.host, &either);
  if (!place) co_return either.cancelled() ? Outcome::kEnded : Outcome::kNotReached;
  const Outcome outcome = co_await CallNow(call, write, read);
  std::optional<bool> answered;
  if (!either.cancelled()) answered = outcome == Outcome::kAnswered || outcome == Outcome::kRefused;
  places_.Leave(*place, answered);
  co_return either.cancelled() ? Outcome::kEnded : outcome;
}

Task<Outcome> NetworkHostCalls::CallNow(HostCall call, const std::function<void(xdr::Encoder&)>& write,
                                        const std::function<bool(xdr::Decoder&)>& read) {
  const auto transport = call.by_udp ? rpc::TransportKind::kUdp : rpc::TransportKind::kTcp;
  rpcbind::RemoteOptions options{.limit = settings_.limit,
                                 .local_port = LocalPort::kReserved,
                                 .local_address = call.ours,
                                 .port_mapper_port = settings_.port_mapper_port,
                                 .cancellation = call.cancellation};
  const rpcbind::RemoteProgram program{
      .host = call.host, .program = call.program, .version = call.version, .transport = transport};
  const auto address = co_await rpcbind::FindRemote(loop_, program, options);
  if (!address) co_return Outcome::kNotReached;
  // A call whose first datagram got no answer in time is not sent again.
  if (call.only_once) options.first_pause = settings_.limit;
  auto channel = co_await rpcbind::OpenRemoteAt(loop_, *address, transport, options);
  if (!channel) co_return Outcome::kNotReached;
  // Closing the channel ends its call.
  const Cancellation::Entry entry(call.cancellation, [&channel] { const auto closing = std::move(*channel); });
  const rpc::Xid xid = rpc::RandomXid();
  const rpc::ClientCredential root(rpc::SystemIdentity{.machine = "penstock", .uid = 0, .gid = 0, .groups = {}});
  xdr::Encoder encoder(loop_.buffers());
  rpc::EncodeCallHeader(encoder, {xid, call.program, call.version, call.procedure, root.auth(), {}});
  write(encoder);
  rpc::Message message = encoder.Finish();
  rpc::ReplyShape shape;
  shape.max_stream = kMaxResults;
  const auto reply = co_await (*channel)->Call(std::move(message), std::move(shape));
  if (!reply) co_return OutcomeOf(reply.error(), transport);
  xdr::Decoder decoder(*reply);
  rpc::ReplyHeader header;
  if (!rpc::DecodeReplyHeader(decoder, header) || header.xid != xid) co_return Outcome::kRefused;
  const bool executed =
      header.body.is_areply() && header.body.areply().reply_data.discriminant() == rpc::AcceptStatus::SUCCESS;
  co_return executed&& read(decoder) ? Outcome::kAnswered : Outcome::kRefused;
}

}  // namespace penstock::server
