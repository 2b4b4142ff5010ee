#include "rdma/verbs/connection_setup.h"

#include <fmt/core.h>

#include <cerrno>
#include <utility>

#include "base/result.h"
#include "rdma/verbs/endpoint.h"

namespace penstock::rdma::verbs {
namespace {

using Kind = ConnectError::Kind;

// Reasons of a rejection (InfiniBand Architecture §12.6.7.2).
constexpr int kRejectedByConsumer = 28;
constexpr int kNoListener = 8;
constexpr uint8_t kReceiverNotReadyRetries = 0;

}  // namespace

Result<std::shared_ptr<QueuePairDriver>, ConnectError> MakeDriver(ProviderState& state, std::unique_ptr<CmId> id,
                                                                  ConnectOptions& options) {
  auto device = state.DeviceFor(id->get()->verbs);
  if (!device) return std::unexpected(ConnectError{Kind::kUnreachable, device.error().message, {}});
  auto driver = std::make_shared<QueuePairDriver>(*std::move(device), std::move(id), state.buffers,
                                                  static_cast<uint32_t>(options.receives.size()));
  auto prepared = driver->Prepare(options.receives);
  if (!prepared) return std::unexpected(ConnectError{Kind::kUnreachable, prepared.error().message, {}});
  return driver;
}

Result<void, ConnectError> CheckPrivateData(const Traits& traits, CmMessage message,
                                            const std::vector<std::byte>& private_data) {
  if (private_data.size() <= MaxPrivateData(traits.transport, message)) return {};
  return std::unexpected(ConnectError{Kind::kProtocol, "too much private data", {}});
}

rdma_conn_param ParametersFor(const std::vector<std::byte>& private_data, ReadDepths depths) {
  rdma_conn_param parameters{};
  parameters.private_data = private_data.data();
  parameters.private_data_len = static_cast<uint8_t>(private_data.size());
  parameters.responder_resources = static_cast<uint8_t>(depths.ird);
  parameters.initiator_depth = static_cast<uint8_t>(depths.ord);
  parameters.rnr_retry_count = kReceiverNotReadyRetries;
  return parameters;
}

std::unique_ptr<Endpoint> BeginEndpoint(ProviderState& state, const std::shared_ptr<QueuePairDriver>& driver,
                                        ConnectionInfo info) {
  info.provider = "verbs";
  info.local = driver->id().local();
  info.peer = driver->id().peer();
  driver->Begin(info.ord);
  return std::make_unique<QueuePairEndpoint>(driver, std::move(info), state.buffers);
}

ConnectError ErrorOf(int error) {
  switch (error) {
    case ECONNREFUSED:
      return {Kind::kRefused, DescribeErrno(error), {}};
    case ETIMEDOUT:
      return {Kind::kTimedOut, DescribeErrno(error), {}};
    case ENODEV:
      return {Kind::kUnreachable, "no RDMA device has a route to the peer", {}};
    default:
      return {Kind::kUnreachable, DescribeErrno(error), {}};
  }
}

ConnectError ErrorOf(const CmEvent& event) {
  if (event.kind == CmEvent::Kind::kTimedOut) return {Kind::kTimedOut, "the peer did not answer", {}};
  if (event.kind == CmEvent::Kind::kCancelled) return {Kind::kCancelled, "cancelled", {}};
  if (event.kind == CmEvent::Kind::kDeviceGone) return {Kind::kUnreachable, "the RDMA device was removed", {}};
  switch (event.type) {
    case RDMA_CM_EVENT_REJECTED:
      // The status is a reason on InfiniBand, and a negative value of errno on iWARP.
      if (event.status == kNoListener || event.status == -ECONNREFUSED) {
        return {Kind::kRefused, "the peer has no listener on this port", {}};
      }
      if (event.status > 0 && event.status != kRejectedByConsumer) {
        return {Kind::kUnreachable, fmt::format("rejected, reason {}", event.status), {}};
      }
      return {Kind::kRejected, "rejected by the peer", event.private_data};
    case RDMA_CM_EVENT_UNREACHABLE:
      return {Kind::kTimedOut, "the peer did not answer", {}};
    default:
      if (event.status < 0) return ErrorOf(-event.status);
      return {Kind::kUnreachable, ::rdma_event_str(event.type), {}};
  }
}

}  // namespace penstock::rdma::verbs
