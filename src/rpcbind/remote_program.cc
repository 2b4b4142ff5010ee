#include "rpcbind/remote_program.h"

#include <limits>
#include <optional>
#include <utility>

#include "base/host.h"
#include "protocol/rpcb.h"
#include "rpc/client.h"
#include "rpc/tcp/channel.h"
#include "rpc/udp/channel.h"
#include "rpc/universal_address.h"

namespace penstock::rpcbind {

using namespace pmap;  // NOLINT: the protocol's own names, RFC 1833
using rpc::TransportKind;

namespace {

// A reply of the small programs over TCP.
constexpr size_t kMaxRecord = 64 << 10;

// Port 0 means that the program is not registered.
Result<SocketAddress, RemoteError> AddressOf(const IpAddress& host, uint32_t port) {
  if (port == 0 || port > std::numeric_limits<uint16_t>::max()) return std::unexpected(RemoteError::kNotRegistered);
  return SocketAddress(host, static_cast<uint16_t>(port));
}

}  // namespace

Task<Result<SocketAddress, RemoteError>> FindRemote(Loop& loop, RemoteProgram program, RemoteOptions options) {
  const IpAddress host = Unmapped(program.host);
  // Anybody may ask a port mapper, from any port.
  RemoteOptions asking = options;
  asking.local_port = LocalPort::kAny;
  const SocketAddress port_mapper(host, options.port_mapper_port);
  auto channel = co_await OpenRemoteAt(loop, port_mapper, program.transport, asking);
  if (!channel) co_return std::unexpected(channel.error());
  // Closing the channel ends its call.
  const Cancellation::Entry entry(options.cancellation, [&channel] { const auto closing = std::move(*channel); });
  rpc::Client client(**channel, loop.buffers(), rpc::RandomXid());
  const bool is_tcp = program.transport == TransportKind::kTcp;
  if (host.is_v4()) {
    mapping asked;
    asked.prog = program.program;
    asked.vers = program.version;
    asked.prot = is_tcp ? IPPROTO_TCP_NUMBER : IPPROTO_UDP_NUMBER;
    const auto reply = co_await client.Call<PMAPPROC_GETPORT>(asked);
    if (!reply) co_return std::unexpected(RemoteError::kUnreachable);
    co_return AddressOf(host, reply->results);
  }
  const rpc::Netid netid{.transport = program.transport, .v6 = true};
  pmap::rpcb asked;
  asked.r_prog = program.program;
  asked.r_vers = program.version;
  asked.r_netid = rpc::ToString(netid);
  const auto reply = co_await client.Call<RPCBPROC_GETADDR>(asked);
  if (!reply) co_return std::unexpected(RemoteError::kUnreachable);
  const auto address = rpc::ParseUniversalAddress(netid, reply->results);
  co_return AddressOf(host, address ? address->port() : 0);
}

Task<Result<std::unique_ptr<rpc::Channel>, RemoteError>> OpenRemote(Loop& loop, RemoteProgram program,
                                                                    RemoteOptions options) {
  const auto address = co_await FindRemote(loop, program, options);
  if (!address) co_return std::unexpected(address.error());
  co_return co_await OpenRemoteAt(loop, *address, program.transport, options);
}

Task<Result<std::unique_ptr<rpc::Channel>, RemoteError>> OpenRemoteAt(Loop& loop, SocketAddress address,
                                                                      TransportKind transport, RemoteOptions options) {
  if (IsCancelled(options.cancellation)) co_return std::unexpected(RemoteError::kUnreachable);
  if (transport == TransportKind::kTcp) {
    rpc::tcp::ChannelOptions tcp;
    tcp.max_record = kMaxRecord;
    tcp.connect_limit = options.limit;
    tcp.call_limit = options.limit;
    tcp.local_port = options.local_port;
    tcp.local_address = options.local_address;
    tcp.cancellation = options.cancellation;
    auto channel = co_await rpc::tcp::Channel::Connect(loop, address, tcp);
    if (!channel) co_return std::unexpected(RemoteError::kUnreachable);
    co_return std::unique_ptr<rpc::Channel>(*std::move(channel));
  }
  rpc::udp::ChannelOptions udp;
  udp.first_pause = options.first_pause;
  udp.call_limit = options.limit;
  udp.local_port = options.local_port;
  udp.local_address = options.local_address;
  auto channel = rpc::udp::Channel::Open(loop, address, udp);
  if (!channel) co_return std::unexpected(RemoteError::kUnreachable);
  co_return std::unique_ptr<rpc::Channel>(*std::move(channel));
}

}  // namespace penstock::rpcbind
