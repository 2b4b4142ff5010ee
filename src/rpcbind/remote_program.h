// Calls of a small program on another host, whose port that host's port mapper knows: the lock manager of a client, or
// its status monitor.
//
//   const auto channel = co_await rpcbind::OpenRemote(loop, {.host = host, .program = 100021, .version = 4});
//   if (!channel) ...
//   rpc::Client client(**channel, loop.buffers(), random_xid, credential);
//   const auto reply = co_await client.Call<Procedure>(arguments);
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>

#include "base/address.h"
#include "base/cancellation.h"
#include "base/local_port.h"
#include "base/loop.h"
#include "base/result.h"
#include "rpc/transport.h"

namespace penstock::rpcbind {

struct RemoteProgram {
  IpAddress host;
  uint32_t program = 0;
  uint32_t version = 0;
  rpc::TransportKind transport = rpc::TransportKind::kUdp;  // or kTcp
};

struct RemoteOptions {
  // The limit of each step: the call of the port mapper, the connection over TCP, and each call over the channel.
  Duration limit = std::chrono::seconds(10);
  // Over UDP, a call without a reply is sent again after this time, then after twice this time, and so on.
  Duration first_pause = std::chrono::seconds(1);
  // Programs that trust the caller's host accept only ports below 1024.
  LocalPort local_port = LocalPort::kAny;
  // The host may know this one by one address only. Unspecified for any: see LocalSide.
  IpAddress local_address{};
  uint16_t port_mapper_port = 111;
  // Ends the search and the connection's set-up early, with kUnreachable; not the calls over the channel. Null: nothing
  // does.
  Cancellation* cancellation = nullptr;
};

enum class RemoteError : uint8_t {
  kUnreachable,    // no port mapper answers, or the program cannot be reached at its port
  kNotRegistered,  // the port mapper does not know the program with this transport
};

// Asks the port mapper of the host, over the program's transport: version 2 for an IPv4 address, version 3 for an IPv6
// address. The result has the host's address, whatever the port mapper says: it cannot direct calls to another host.
// These belong to `loop`, which must outlive the channel. They wait for nothing but the loop.
Task<Result<SocketAddress, RemoteError>> FindRemote(Loop& loop, RemoteProgram program, RemoteOptions options = {});
// Returns a channel to the program. A channel over UDP may send a call more than once.
Task<Result<std::unique_ptr<rpc::Channel>, RemoteError>> OpenRemote(Loop& loop, RemoteProgram program,
                                                                    RemoteOptions options = {});
// The same for a program whose port is known.
Task<Result<std::unique_ptr<rpc::Channel>, RemoteError>> OpenRemoteAt(Loop& loop, SocketAddress address,
                                                                      rpc::TransportKind transport,
                                                                      RemoteOptions options = {});

}  // namespace penstock::rpcbind
