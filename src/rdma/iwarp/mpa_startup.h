// MPA start-up (RFC 5044 §7.1): each side turns a connected socket into an endpoint, at the beginning of the connection
// or after other octets.
#pragma once

#include <memory>
#include <vector>

#include "base/released_socket.h"
#include "rdma/iwarp/mpa_exchange.h"
#include "rdma/iwarp/mpa_frame.h"
#include "rdma/iwarp/mpa_negotiation.h"
#include "rdma/provider.h"

namespace penstock::rdma::iwarp {

// Sends the request of `preferences`, and makes an endpoint if the peer accepts it. `options` lose their receives only
// then. Sets `closed_unanswered` if the peer has closed without an MPA reply. All arguments must outlive the task.
Task<ConnectResult> Initiate(const std::shared_ptr<ProviderState>& state, Exchange& exchange,
                             const MpaPreferences& preferences, ConnectOptions& options, bool& closed_unanswered);

// Accepts `request`, and makes an endpoint.
Task<ConnectResult> Respond(std::shared_ptr<ProviderState> state, std::unique_ptr<Exchange> exchange, MpaFrame request,
                            ConnectOptions options);

// See rdma::Provider::StepUp().
Task<ConnectResult> StepUp(std::shared_ptr<ProviderState> state, ReleasedSocket socket, StepUpRole role,
                           std::vector<std::byte> last_octets, ConnectOptions options);

}  // namespace penstock::rdma::iwarp
