// Opens the connection that a URL asks for: over TCP or RDMA, to the host and port of the URL.
#pragma once

#include <memory>
#include <string>

#include "base/loop.h"
#include "base/timer.h"
#include "base/workers.h"
#include "client/url.h"
#include "rdma/provider.h"
#include "rpc/transport.h"

namespace penstock::client {

struct ChannelOptions {
  // The time limit of one connection attempt. Each address of the server gets it. The URL's timeout limits it further.
  Duration time_limit = Duration::max();
  // Over RDMA, the client sends a probe to a server that has been silent for `probe_after`, and ends the connection if
  // the server is silent for another `probe_limit` (RFC 8267 §6.7.2). Zero turns probes off.
  Duration probe_after = std::chrono::seconds(15);
  Duration probe_limit = std::chrono::seconds(15);
  // Executes the server's calls over the connection (callbacks of NFSv4.1). It outlives the channel and its own calls.
  // Null: the client accepts no calls.
  rpc::CallHandler* back_channel = nullptr;
};

// Looks up url.host on a thread of `workers`, because that may block, and connects to port url.port of the first
// address that answers. For RDMA `provider` must not be null. The error is a text for users.
Task<Result<std::unique_ptr<rpc::Channel>, std::string>> OpenChannel(Loop& loop, Workers& workers, Url url,
                                                                     rdma::Provider* provider,
                                                                     ChannelOptions options = {});

}  // namespace penstock::client
