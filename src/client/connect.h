// From a URL to a Channel.
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
  // For a connection to be made, with each of the server's addresses. Never longer than the URL's timeout.
  Duration time_limit = Duration::max();
  // Over RDMA: a server that has not answered anything for this long is asked for a sign of life, and when then it
  // gives none for `probe_limit` the connection is ended (RFC 8267 §6.7.2). Zero: it is never asked.
  Duration probe_after = std::chrono::seconds(15);
  Duration probe_limit = std::chrono::seconds(15);
  // Executes what the server calls over the connection (NFS version 4.1 callbacks); outlives the channel, and every
  // call that it was given. Null: there is nothing to be called.
  rpc::CallHandler* back_channel = nullptr;
};

// Looks up url.host (on a thread of `workers`, since that may block), and connects to url.port of the first of its
// addresses that answers; over RDMA by `provider`, which must be there then. The error is for people.
Task<Result<std::unique_ptr<rpc::Channel>, std::string>> OpenChannel(Loop& loop, Workers& workers, Url url,
                                                                     rdma::Provider* provider,
                                                                     ChannelOptions options = {});

}  // namespace penstock::client
