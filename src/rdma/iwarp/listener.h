// The listener of iWARP. It receives the MPA requests of many peers at the same time, each with its own time limit, so
// that a slow peer does not delay others.
#pragma once

#include <asio/ip/tcp.hpp>
#include <memory>

#include "base/accept_turns.h"
#include "rdma/iwarp/mpa_exchange.h"
#include "rdma/provider.h"

namespace penstock::rdma::iwarp {

// `acceptor` must be listening. All listeners on its address share `turns`.
std::unique_ptr<Listener> MakeListener(std::shared_ptr<ProviderState> state, asio::ip::tcp::acceptor acceptor,
                                       std::shared_ptr<AcceptTurns> turns);

}  // namespace penstock::rdma::iwarp
