// The steps that the connecting and the accepting side of a connection have in common.
#pragma once

#include <rdma/rdma_cma.h>

#include <memory>
#include <vector>

#include "rdma/verbs/provider_state.h"
#include "rdma/verbs/queue_pair_driver.h"

namespace penstock::rdma::verbs {

// Makes the driver of a connection from its identifier, which has a device. The caller then connects or accepts. Moves
// the receives out of `options`.
Result<std::shared_ptr<QueuePairDriver>, ConnectError> MakeDriver(ProviderState& state, std::unique_ptr<CmId> id,
                                                                  ConnectOptions& options);

// Fails if the private data is longer than this message can carry.
Result<void, ConnectError> CheckPrivateData(const Traits& traits, CmMessage message,
                                            const std::vector<std::byte>& private_data);

// The parameters of rdma_connect() or rdma_accept(). They point to `private_data`. There is no retry for a Send that
// finds no receive (endpoint.h).
rdma_conn_param ParametersFor(const std::vector<std::byte>& private_data, ReadDepths depths);

// The connection is established: makes its endpoint. `info` lacks the provider and the addresses.
std::unique_ptr<Endpoint> BeginEndpoint(ProviderState& state, const std::shared_ptr<QueuePairDriver>& driver,
                                        ConnectionInfo info);

// Return the error for the caller of Connect() or Accept(). The cause is an event that came instead of the expected
// one, or a call that failed with this value of errno.
ConnectError ErrorOf(const CmEvent& event);
ConnectError ErrorOf(int error);
inline std::unexpected<ConnectError> Unexpected(ConnectError error) { return std::unexpected(std::move(error)); }

}  // namespace penstock::rdma::verbs
