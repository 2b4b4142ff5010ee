// From a URL to a Channel.
#pragma once

#include <asio/thread_pool.hpp>
#include <memory>
#include <string>

#include "base/loop.h"
#include "client/url.h"
#include "rdma/provider.h"
#include "rpc/transport.h"

namespace penstock::client {

// Looks up url.host (on a thread of `workers`, since that may block), and connects to url.port of the first of its addresses
// that answers; over RDMA by `provider`, which must be there then. The error is for people.
Task<Result<std::unique_ptr<rpc::Channel>, std::string>> OpenChannel(Loop& loop, asio::thread_pool& workers, Url url,
                                                                     rdma::Provider* provider);

}  // namespace penstock::client
