#include "rdma/verbs/provider.h"

#include <fmt/core.h>
#include <sys/socket.h>

#include <asio/io_context.hpp>
#include <asio/ip/udp.hpp>
#include <cerrno>
#include <cstdlib>
#include <stop_token>
#include <utility>

#include "base/result.h"
#include "rdma/verbs/connection_setup.h"
#include "rdma/verbs/provider_state.h"
#include "rdma/verbs/set_up_errors.h"

namespace penstock::rdma::verbs {
namespace {

using Kind = ConnectError::Kind;

// The adapter repeats lost packets as often as it can.
constexpr uint8_t kRetries = 7;

ReadDepths Wanted(const ConnectOptions& options) { return {.ird = options.ird, .ord = options.ord}; }

// The peer's read depths, from the event that reports to the connecting side that the connection is established. On
// iWARP the event has the depths of the connecting side itself (iw_cm), otherwise those of the peer.
ReadDepths PeerDepths(const Traits& traits, const CmEvent& established) {
  const ReadDepths depths = established.peer_depths;
  return traits.transport == Transport::kIwarp ? ReadDepths{.ird = depths.ord, .ord = depths.ird} : depths;
}

Task<ConnectResult> ConnectTo(std::shared_ptr<ProviderState> state, Address peer, ConnectOptions options) {
  std::unique_ptr<CmId> id = CmId::Make(state->channel);
  if (!id) co_return Unexpected(ErrorOf(errno));
  rdma_cm_id* raw = id->get();
  const std::stop_callback on_stop(options.stop, [at = id.get()] { at->GiveUp(CmEvent::Kind::kCancelled); });
  Loop& loop = state->loop;
  const int limit = static_cast<int>(state->options.resolve_timeout / std::chrono::milliseconds(1));
  const Duration patience = state->options.resolve_timeout + std::chrono::seconds(1);

  if (::rdma_resolve_addr(raw, nullptr, peer.data(), limit) != 0) co_return Unexpected(ErrorOf(errno));
  CmEvent event = co_await id->Next(loop.Now() + patience);
  if (!event.is(RDMA_CM_EVENT_ADDR_RESOLVED)) co_return Unexpected(ErrorOf(event));
  const std::string& wanted = state->options.device;
  if (!wanted.empty() && wanted != raw->verbs->device->name) {
    co_return Unexpected({Kind::kUnreachable,
                          fmt::format("the route leads over {}, not over {}", raw->verbs->device->name, wanted),
                          {}});
  }
  if (::rdma_resolve_route(raw, limit) != 0) co_return Unexpected(ErrorOf(errno));
  event = co_await id->Next(loop.Now() + patience);
  if (!event.is(RDMA_CM_EVENT_ROUTE_RESOLVED)) co_return Unexpected(ErrorOf(event));

  auto made = MakeDriver(*state, std::move(id), options);
  if (!made) co_return Unexpected(std::move(made).error());
  const std::shared_ptr<QueuePairDriver> driver = *std::move(made);
  const Traits& traits = driver->traits();
  PENSTOCK_CO_CHECK(CheckPrivateData(traits, CmMessage::kRequest, options.private_data));
  const ReadDepths offered = OfferedDepths(traits, Wanted(options));
  rdma_conn_param parameters = ParametersFor(options.private_data, offered);
  parameters.retry_count = kRetries;
  if (::rdma_connect(raw, &parameters) != 0) co_return Unexpected(ErrorOf(errno));
  event = co_await driver->id().Next(loop.Now() + options.time_limit);
  if (!event.is(RDMA_CM_EVENT_ESTABLISHED)) co_return Unexpected(ErrorOf(event));

  ConnectionInfo info;
  info.peer_depths = PeerDepths(traits, event);
  info.ird = offered.ird;
  info.ord = std::min(offered.ord, info.peer_depths->ird);
  info.private_data = std::move(event.private_data);
  co_return BeginEndpoint(*state, driver, std::move(info));
}

}  // namespace

SetupResult<std::shared_ptr<Device>> ProviderState::DeviceFor(ibv_context* context) {
  if (auto open = devices[context].lock(); open && !open->removed()) return open;
  PENSTOCK_TRY(std::shared_ptr<Device> device, Device::Open(loop, context, registry, slabs));
  device->set_on_removed([weak = weak_from_this(), context] {
    auto self = weak.lock();
    if (!self) return;
    self->devices.erase(context);
    self->channel->GiveUp(context, CmEvent::Kind::kDeviceGone);
  });
  devices[context] = device;
  return device;
}

// ---- which device ----

SetupResult<std::optional<Found>> DeviceOf(const IpAddress& local) {
  rdma_event_channel* channel = ::rdma_create_event_channel();
  if (!channel) return std::unexpected(NoConnectionManager(errno));
  std::optional<Found> found;
  rdma_cm_id* id = nullptr;
  if (::rdma_create_id(channel, &id, nullptr, RDMA_PS_TCP) == 0) {
    Address address(local, 0);
    if (::rdma_bind_addr(id, address.data()) == 0 && id->verbs) found = Found{id->verbs->device->name};
    ::rdma_destroy_id(id);
  }
  ::rdma_destroy_event_channel(channel);
  return found;
}

SetupResult<std::optional<Found>> DeviceToward(const IpAddress& peer) {
  // Connecting a datagram socket looks up the route and sends no packet.
  asio::io_context context;
  asio::ip::udp::socket socket(context);
  const asio::ip::udp::endpoint target(peer, 9);
  asio::error_code error;
  socket.open(target.protocol(), error);
  if (!error) socket.connect(target, error);
  if (error) return std::nullopt;
  const auto local = socket.local_endpoint(error);
  if (error) return std::nullopt;
  return DeviceOf(local.address());
}

// ---- Provider ----

SetupResult<std::unique_ptr<Provider>> Provider::Make(Loop& loop, std::shared_ptr<Registry> registry, Options options) {
  PENSTOCK_TRY(std::vector<Traits> devices, ListDevices());
  std::erase_if(devices, [&](const Traits& each) { return !options.device.empty() && each.name != options.device; });
  if (devices.empty()) return std::unexpected(NoDevice(options.device));
  PENSTOCK_CHECK(TryMemory(devices.front().name));
  auto state = std::make_shared<ProviderState>(loop, std::move(registry), std::move(options));
  state->channel = CmChannel::Make(loop);
  if (!state->channel) return std::unexpected(NoConnectionManager(errno));
  for (const Traits& device : devices) {
    state->remote_invalidation = state->remote_invalidation && RemoteInvalidation(device);
  }
  return std::unique_ptr<Provider>(new Provider(std::move(state)));
}

Provider::~Provider() {
  state_->gone = true;
  state_->channel->GiveUp(nullptr, CmEvent::Kind::kCancelled);
}

BufferPool& Provider::buffers() { return state_->buffers; }
bool Provider::remote_invalidation() const { return state_->remote_invalidation; }

Task<ConnectResult> Provider::Connect(Address peer, ConnectOptions options) {
  return ConnectTo(state_, std::move(peer), std::move(options));
}

SetupResult<std::unique_ptr<Listener>> Provider::Listen(Address local) { return MakeListener(state_, local); }

}  // namespace penstock::rdma::verbs
