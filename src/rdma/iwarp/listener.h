// Takes peers: each has its own time for its MPA request, so that slow ones hold up nobody.
#pragma once

#include <asio/ip/tcp.hpp>
#include <memory>

#include "base/accept_turns.h"
#include "rdma/iwarp/mpa_exchange.h"
#include "rdma/provider.h"

namespace penstock::rdma::iwarp {

// `acceptor` is listening. `turns` is shared by all who listen on its address.
std::unique_ptr<Listener> MakeListener(std::shared_ptr<ProviderState> state, asio::ip::tcp::acceptor acceptor,
                                       std::shared_ptr<AcceptTurns> turns);

}  // namespace penstock::rdma::iwarp
