#include "server/host_calls.h"

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
  if (aborted_ || under_way_ >= settings_.most) co_return Outcome::kBusy;
  const auto to_host = to_host_.try_emplace(call.host, 0).first;
  if (to_host->second >= settings_.most_to_a_host) co_return Outcome::kBusy;
  ++under_way_;
  ++to_host->second;
  const Outcome outcome = co_await CallNow(call, write, read);
  --under_way_;
  if (--to_host->second == 0) to_host_.erase(to_host);
  co_return outcome;
}

Task<Outcome> NetworkHostCalls::CallNow(const HostCall& call, const std::function<void(xdr::Encoder&)>& write,
                                        const std::function<bool(xdr::Decoder&)>& read) {
  const auto transport = call.by_udp ? rpc::TransportKind::kUdp : rpc::TransportKind::kTcp;
  const rpcbind::RemoteOptions options{.limit = settings_.limit,
                                       .local_port = LocalPort::kReserved,
                                       .local_address = call.ours,
                                       .port_mapper_port = settings_.port_mapper_port};
  const rpcbind::RemoteProgram program{
      .host = call.host, .program = call.program, .version = call.version, .transport = transport};
  const auto address = co_await rpcbind::FindRemote(loop_, program, options);
  if (!address || aborted_) co_return Outcome::kNotReached;
  auto opened = co_await rpcbind::OpenRemoteAt(loop_, *address, transport, options);
  if (!opened || aborted_) co_return Outcome::kNotReached;
  const uint64_t number = ++last_channel_;
  rpc::Channel& channel = *channels_.emplace(number, *std::move(opened)).first->second;
  const rpc::Xid xid = rpc::RandomXid();
  const rpc::ClientCredential root(rpc::SystemIdentity{.machine = "penstock", .uid = 0, .gid = 0, .groups = {}});
  xdr::Encoder encoder(loop_.buffers());
  rpc::EncodeCallHeader(encoder, {xid, call.program, call.version, call.procedure, root.auth(), {}});
  write(encoder);
  rpc::Message message = encoder.Finish();
  rpc::ReplyShape shape;
  shape.max_stream = kMaxResults;
  const auto reply = co_await channel.Call(std::move(message), std::move(shape));
  channels_.erase(number);
  if (!reply) co_return OutcomeOf(reply.error(), transport);
  xdr::Decoder decoder(*reply);
  rpc::ReplyHeader header;
  if (!rpc::DecodeReplyHeader(decoder, header) || header.xid != xid) co_return Outcome::kRefused;
  const bool executed =
      header.body.is_areply() && header.body.areply().reply_data.discriminant() == rpc::AcceptStatus::SUCCESS;
  co_return executed&& read(decoder) ? Outcome::kAnswered : Outcome::kRefused;
}

void NetworkHostCalls::Abort() {
  aborted_ = true;
  // Closing a channel ends its call, which removes the channel from the table.
  const auto closing = std::exchange(channels_, {});
}

}  // namespace penstock::server
