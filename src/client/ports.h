// Finds the ports of a server's programs: those that its rpcbind names, and those of MOUNT and of the lock manager
// (NLM), which version 3 of NFS uses.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/cancellation.h"
#include "base/loop.h"
#include "base/result.h"
#include "base/workers.h"
#include "client/connect.h"
#include "client/url.h"
#include "rpc/transport.h"

namespace penstock::client {

// Asks the rpcbind of url.host for the port of a program. `transport` is kTcp or kUdp. The error has no name of the
// host. `loop` and `workers` are as for OpenChannel().
Task<SetupResult<uint16_t>> PortByRpcbind(Loop& loop, Workers& workers, const Url& url, uint32_t program,
                                          uint32_t version, rpc::TransportKind transport, Cancellation* cancellation);

// A connection to the MOUNT service of a server.
struct MountService {
  std::unique_ptr<rpc::Channel> channel;
  Url url;  // with the host and the port of MOUNT
};

// Connects to the MOUNT service of the server of `url`: at url.mount_port, or else at the first of these ports that has
// MOUNT: that of NFS, 20048, and the one that rpcbind names. The error names each attempt.
Task<SetupResult<MountService>> OpenMountService(Loop& loop, Workers& workers, const Url& url,
                                                 Cancellation* cancellation);

// Connects over TCP to the lock manager (NLM, version 4) of the server of `url`: at the first of these ports that has
// it: that of NFS over TCP, url.mount_port, and the one that rpcbind names. The error names each attempt. `options`
// are for the connection.
Task<SetupResult<std::unique_ptr<rpc::Channel>>> OpenLockManager(Loop& loop, Workers& workers, const Url& url,
                                                                 ChannelOptions options);

}  // namespace penstock::client
