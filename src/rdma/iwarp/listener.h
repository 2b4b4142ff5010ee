// Takes peers: each has its own time for its MPA request, so that slow ones hold up nobody.
#pragma once

#include <asio/ip/tcp.hpp>
#include <memory>

#include "rdma/iwarp/mpa_exchange.h"
#include "rdma/provider.h"

namespace penstock::rdma::iwarp {

// `acceptor` is listening.
std::unique_ptr<Listener> MakeListener(std::shared_ptr<ProviderState> state, asio::ip::tcp::acceptor acceptor);

}  // namespace penstock::rdma::iwarp
