// The listener: it accepts connection requests. One identifier of librdmacm listens for all loops that share the
// listener. The loops take turns: each takes one request in its turn, and moves its identifier to its own channel.
#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <cassert>
#include <cerrno>
#include <mutex>
#include <utility>

#include "base/accept_turns.h"
#include "base/log.h"
#include "base/result.h"
#include "rdma/verbs/connection_setup.h"
#include "rdma/verbs/provider_state.h"
#include "rdma/verbs/set_up_errors.h"

namespace penstock::rdma::verbs {
namespace {

using Kind = ConnectError::Kind;

constexpr int kBacklog = 256;

// The identifier that listens, shared by the listeners of several loops. If its device is removed, it listens again
// when the device is there again. Any thread.
class SharedListener {
 public:
  static SetupResult<std::shared_ptr<SharedListener>> Make(const Address& local) {
    std::shared_ptr<SharedListener> listening(new SharedListener);
    listening->channel_ = ::rdma_create_event_channel();
    if (!listening->channel_) return std::unexpected(NoConnectionManager(errno));
    SetNonBlocking(listening->channel_->fd);
    if (!listening->Listen(local)) {
      const int error = errno;
      return std::unexpected(SetupError{fmt::format("cannot listen on {}:{} for RDMA: {}", local.address().to_string(),
                                                    local.port(), DescribeErrno(error)),
                                        error});
    }
    listening->local_ = AddressOf(::rdma_get_local_addr(listening->id_));
    if (local.address().is_unspecified()) listening->local_.address(local.address());
    return listening;
  }
  ~SharedListener() {
    if (id_) ::rdma_destroy_id(id_);
    if (channel_) ::rdma_destroy_event_channel(channel_);
  }

  int fd() const { return channel_->fd; }
  const Address& local() const { return local_; }
  AcceptTurns& turns() { return *turns_; }

  struct Arrival {
    rdma_cm_id* id = nullptr;
    CmEvent event;
  };
  // Returns the next connection request, or nullopt if none has arrived.
  std::optional<Arrival> Take() {
    rdma_cm_event* event = nullptr;
    while (::rdma_get_cm_event(channel_, &event) == 0) {
      Arrival arrival{event->id, TakeEvent(*event)};
      const bool request = event->event == RDMA_CM_EVENT_CONNECT_REQUEST;
      const bool gone = event->event == RDMA_CM_EVENT_DEVICE_REMOVAL;
      ::rdma_ack_cm_event(event);
      if (request) return arrival;
      if (gone) HandleDeviceGone(nullptr);
    }
    return std::nullopt;
  }
  // This device was removed (null: the device that this listens on). Releases it and stops listening.
  void HandleDeviceGone(ibv_context* context) {
    std::lock_guard lock(mutex_);
    // An identifier that is bound to all addresses has no device, and librdmacm adds new devices to it.
    if (!id_ || !id_->verbs || (context && id_->verbs != context)) return;
    ::rdma_destroy_id(std::exchange(id_, nullptr));
  }
  // Returns the device that has the address. Returns null for all addresses, and while the device is removed.
  ibv_context* context() {
    std::lock_guard lock(mutex_);
    return id_ ? id_->verbs : nullptr;
  }
  // Returns false while the device is removed.
  bool IsListening() {
    std::lock_guard lock(mutex_);
    return id_ != nullptr;
  }
  // Tries to listen again, which succeeds when the device is there again.
  void ListenAgain() {
    std::lock_guard lock(mutex_);
    if (!id_ && Listen(local_)) {
      log::warn("RDMA: listens on {}:{} again", local_.address().to_string(), local_.port());
    }
  }

 private:
  SharedListener() = default;
  bool Listen(Address local) {
    if (::rdma_create_id(channel_, &id_, nullptr, RDMA_PS_TCP) != 0) {
      id_ = nullptr;
      return false;
    }
    int on = 1;
    ::rdma_set_option(id_, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &on, sizeof on);
    if (local.address().is_v6()) ::rdma_set_option(id_, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &on, sizeof on);
    if (::rdma_bind_addr(id_, local.data()) == 0 && ::rdma_listen(id_, kBacklog) == 0) return true;
    const int error = errno;
    ::rdma_destroy_id(std::exchange(id_, nullptr));
    errno = error;
    return false;
  }

  const std::shared_ptr<AcceptTurns> turns_ = std::make_shared<AcceptTurns>();
  rdma_event_channel* channel_ = nullptr;
  Address local_;
  std::mutex mutex_;
  rdma_cm_id* id_ = nullptr;  // null while its device is removed; guarded by mutex_
};

class Request : public ConnectionRequest {
 public:
  Request(std::shared_ptr<ProviderState> state, std::unique_ptr<CmId> id, CmEvent event)
      : state_(std::move(state)), id_(std::move(id)), event_(std::move(event)), peer_(id_->peer()) {}
  ~Request() override {
    if (id_) Reject({});
  }

  const Address& peer() const override { return peer_; }
  ConstBytes private_data() const override { return event_.private_data; }
  std::optional<ReadDepths> read_depths() const override { return event_.peer_depths; }

  Task<ConnectResult> Accept(ConnectOptions options) override {
    return AcceptOn(state_, std::move(id_), event_, std::move(options));
  }
  void Reject(std::vector<std::byte> private_data) final {
    if (!id_) return;
    private_data.resize(std::min<size_t>(private_data.size(), 148));
    ::rdma_reject(id_->get(), private_data.data(), static_cast<uint8_t>(private_data.size()));
    id_.reset();
  }

 private:
  // A static function, because the request may be destroyed while the coroutine waits.
  static Task<ConnectResult> AcceptOn(std::shared_ptr<ProviderState> state, std::unique_ptr<CmId> id, CmEvent request,
                                      ConnectOptions options) {
    if (!id || state->gone) co_return Unexpected({Kind::kCancelled, "cancelled", {}});
    rdma_cm_id* raw = id->get();
    auto made = MakeDriver(*state, std::move(id), options);
    if (!made) co_return Unexpected(std::move(made).error());
    const std::shared_ptr<QueuePairDriver> driver = *std::move(made);
    const Traits& traits = driver->traits();
    PENSTOCK_CO_CHECK(CheckPrivateData(traits, CmMessage::kReply, options.private_data));
    const ReadDepths wanted{.ird = options.ird, .ord = options.ord};
    const ReadDepths agreed = AgreedDepths(traits, wanted, request.peer_depths);
    rdma_conn_param parameters = ParametersFor(options.private_data, agreed);
    if (::rdma_accept(raw, &parameters) != 0) co_return Unexpected(ErrorOf(errno));
    const CmEvent event = co_await driver->id().Next(state->loop.Now() + options.time_limit);
    if (!event.is(RDMA_CM_EVENT_ESTABLISHED)) co_return Unexpected(ErrorOf(event));

    ConnectionInfo info;
    info.private_data = std::move(request.private_data);
    info.ird = agreed.ird;
    info.ord = agreed.ord;
    info.peer_depths = request.peer_depths;
    co_return BeginEndpoint(*state, driver, std::move(info));
  }

  const std::shared_ptr<ProviderState> state_;
  std::unique_ptr<CmId> id_;  // null once the request is answered
  const CmEvent event_;
  const Address peer_;
};

// The state of one loop's listener. The handlers on the loop share it with the listener, and may outlive the listener.
struct ListenerState : std::enable_shared_from_this<ListenerState> {
  ListenerState(std::shared_ptr<ProviderState> s, std::shared_ptr<SharedListener> l)
      : provider(std::move(s)), listening(std::move(l)), local(listening->local()) {}

  std::shared_ptr<ProviderState> provider;
  std::shared_ptr<SharedListener> listening;
  const Address local;
  std::unique_ptr<AcceptTurns::Member> turn;     // null when closed
  std::unique_ptr<FdWatch> watch;                // exists while it is this loop's turn
  std::unique_ptr<Timer> again;                  // for CheckDevices()
  std::vector<std::shared_ptr<Device>> devices;  // kept open between connections
  Fifo<std::unique_ptr<Request>> requests;
  OneShot<std::monostate>* waiting = nullptr;

  SetupResult<void> Begin() {
    // Keep the device of the address open from the start, so that its removal is reported: the kernel waits until we
    // close it.
    if (ibv_context* context = listening->context()) PENSTOCK_CHECK(KeepDevice(context));
    turn = listening->turns().Join(provider->loop, [weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->Watch();
    });
    Watch();
    again = provider->loop.MakeTimer([this] { CheckDevices(); });
    again->ExpireAfter(provider->options.listen_again);
    return {};
  }
  // Releases removed devices, and listens again if possible.
  void CheckDevices() {
    for (const auto& device : devices) {
      if (device->removed()) listening->HandleDeviceGone(device->context());
    }
    std::erase_if(devices, [](const auto& device) { return device->removed(); });
    if (!listening->IsListening()) {
      listening->ListenAgain();
      if (ibv_context* context = listening->context()) KeepDeviceOrWarn(context);
    }
    again->ExpireAfter(provider->options.listen_again);
  }
  // Watches for connection requests if it is this loop's turn.
  void Watch() {
    if (!turn || !turn->HasTurn() || watch) return;
    watch = std::make_unique<FdWatch>(provider->loop, listening->fd(), [this] { TakeAll(); });
  }
  // Takes connection requests until this loop's turn ends or none is left.
  void TakeAll() {
    const auto self = shared_from_this();
    // The coroutine that waits in Next() continues inside Set(), and may close this listener.
    while (const std::shared_ptr<SharedListener> open = listening) {
      if (!turn->HasTurn()) return watch.reset();
      auto arrival = open->Take();
      if (!arrival) break;
      turn->EndTurn();
      std::unique_ptr<CmId> id = CmId::Adopt(provider->channel, arrival->id);
      if (!id) continue;
      const bool wanted =
          provider->options.device.empty() || provider->options.device == id->get()->verbs->device->name;
      if (!wanted || requests.size() >= provider->options.max_pending) {
        ::rdma_reject(id->get(), nullptr, 0);
        continue;
      }
      KeepDeviceOrWarn(id->get()->verbs);
      requests.push_back(std::make_unique<Request>(provider, std::move(id), std::move(arrival->event)));
      if (auto* waiter = std::exchange(waiting, nullptr)) waiter->Set();
    }
  }
  // Keeps the device open until it is removed or the listener is closed.
  SetupResult<void> KeepDevice(ibv_context* context) {
    for (const auto& device : devices) {
      if (device->context() == context) return {};
    }
    PENSTOCK_TRY(std::shared_ptr<Device> device, provider->DeviceFor(context));
    devices.push_back(std::move(device));
    return {};
  }
  void KeepDeviceOrWarn(ibv_context* context) {
    if (auto kept = KeepDevice(context); !kept) log::warn("{}", kept.error().message);
  }
  void Close() {
    if (!listening) return;
    turn.reset();
    watch.reset();
    again.reset();
    requests.clear();
    devices.clear();
    listening.reset();
    if (auto* waiter = std::exchange(waiting, nullptr)) waiter->Set();
  }
};

class VerbsListener : public Listener {
 public:
  static SetupResult<std::unique_ptr<Listener>> Make(std::shared_ptr<ProviderState> provider,
                                                     std::shared_ptr<SharedListener> listening) {
    auto listener =
        std::make_unique<VerbsListener>(std::make_shared<ListenerState>(std::move(provider), std::move(listening)));
    PENSTOCK_CHECK(listener->state_->Begin());
    return std::unique_ptr<Listener>(std::move(listener));
  }
  explicit VerbsListener(std::shared_ptr<ListenerState> state) : state_(std::move(state)) {}
  ~VerbsListener() override { Close(); }

  Address local() const override { return state_->local; }
  Task<std::unique_ptr<ConnectionRequest>> Next() override { return NextOf(state_); }
  void Close() final { state_->Close(); }
  SetupResult<std::unique_ptr<Listener>> Share(rdma::Provider& other) override {
    auto* provider = dynamic_cast<Provider*>(&other);
    if (!provider)
      return std::unexpected(SetupError{"a verbs listener cannot be shared with another kind of provider"});
    if (!state_->listening) return std::unexpected(SetupError{"the listener is closed"});
    return Make(provider->state(), state_->listening);
  }

 private:
  static Task<std::unique_ptr<ConnectionRequest>> NextOf(std::shared_ptr<ListenerState> state) {
    while (state->listening && state->requests.empty()) {
      OneShot<std::monostate> arrived;
      state->waiting = &arrived;
      co_await arrived;
    }
    if (!state->listening) co_return nullptr;
    std::unique_ptr<ConnectionRequest> request = state->requests.pop_front();
    co_return request;
  }

  const std::shared_ptr<ListenerState> state_;
};

}  // namespace

SetupResult<std::unique_ptr<Listener>> MakeListener(std::shared_ptr<ProviderState> state, const Address& local) {
  PENSTOCK_TRY(std::shared_ptr<SharedListener> listening, SharedListener::Make(local));
  return VerbsListener::Make(std::move(state), std::move(listening));
}

}  // namespace penstock::rdma::verbs
