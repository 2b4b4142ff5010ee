#include "rdma/verbs/device.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "base/data.h"
#include "base/log.h"
#include "base/result.h"
#include "rdma/verbs/set_up_errors.h"

namespace penstock::rdma::verbs {
namespace {

// TraitsOf() looks at the first port only. The limits of the other ports are the same.
constexpr uint8_t kPort = 1;
// drivers/infiniband/sw/rxe/rxe_param.h
constexpr uint32_t kVendorOfSoftwareRoce = 0xFFFFFF;

// Closes a removed device for librdmacm, which has no function for that and keeps devices open for ever. The kernel
// removes a device only when no process has it open. Later librdmacm closes /dev/null in place of the device's files.
void CloseUnderneath(ibv_context* context) {
  const FileDescriptor null_device(::open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!null_device) return;
  ::dup3(null_device.get(), context->async_fd, O_CLOEXEC);
  ::dup3(null_device.get(), context->cmd_fd, O_CLOEXEC);
}

// Opens each device, calls `visit` and closes the device again. Visits no device if the kernel does not support RDMA
// (it lacks the system call or the netlink family).
SetupResult<void> ForEachDevice(const std::function<SetupResult<void>(ibv_context*)>& visit) {
  int count = 0;
  const std::unique_ptr<ibv_device*, decltype(&::ibv_free_device_list)> list(::ibv_get_device_list(&count),
                                                                             &::ibv_free_device_list);
  for (int i = 0; list && i < count; ++i) {
    ibv_device* device = list.get()[i];
    const std::unique_ptr<ibv_context, decltype(&::ibv_close_device)> context(::ibv_open_device(device),
                                                                              &::ibv_close_device);
    if (!context) return std::unexpected(CannotOpen(device->dev_name, device->name, errno));
    PENSTOCK_CHECK(visit(context.get()));
  }
  return {};
}

// Allocates and registers a first slab, so that a limit on locked memory that is too low shows at once.
SetupResult<void> RegisterFirst(ProtectionDomain& domain, Slabs& slabs, std::string_view device) {
  if (!domain.pd()) return std::unexpected(CannotUse(device, errno));
  slabs.Free(slabs.Allocate(4096, 4096), 4096);
  if (!domain.Find(slabs.slab(0).first(1))) return std::unexpected(CannotRegister(device, errno));
  return {};
}

bool IsRemoved(ibv_context* context) { return ::access(context->device->dev_path, F_OK) != 0; }

}  // namespace

SetupResult<Traits> TraitsOf(ibv_context* context) {
  ibv_device_attr device{};
  ibv_port_attr port{};
  if (const int error = ::ibv_query_device(context, &device)) {
    return std::unexpected(SetupError{fmt::format("{}: {}", context->device->name, DescribeErrno(error))});
  }
  if (const int error = ::ibv_query_port(context, kPort, &port)) {
    return std::unexpected(SetupError{fmt::format("{}: {}", context->device->name, DescribeErrno(error))});
  }
  Traits traits;
  traits.name = context->device->name;
  if (context->device->transport_type == IBV_TRANSPORT_IWARP) {
    traits.transport = Transport::kIwarp;
  } else {
    traits.transport = port.link_layer == IBV_LINK_LAYER_ETHERNET ? Transport::kRoce : Transport::kInfiniBand;
  }
  traits.max_work_requests = static_cast<uint32_t>(std::max(device.max_qp_wr, 2));
  traits.max_sge = static_cast<uint32_t>(std::clamp(device.max_sge, 1, 32));
  traits.max_completions = static_cast<uint32_t>(std::max(device.max_cqe, 4));
  traits.max_windows = static_cast<uint32_t>(std::max(device.max_mw, 0));
  traits.windows_type_2 =
      (device.device_cap_flags & (IBV_DEVICE_MEM_WINDOW_TYPE_2A | IBV_DEVICE_MEM_WINDOW_TYPE_2B)) != 0;
  traits.software_roce = device.vendor_id == kVendorOfSoftwareRoce && traits.transport == Transport::kRoce;
  traits.max_message = port.max_msg_sz;
  // librdmacm carries each of them in one octet.
  traits.max_ird = static_cast<uint16_t>(std::clamp(device.max_qp_rd_atom, 0, 255));
  traits.max_ord = static_cast<uint16_t>(std::clamp(device.max_qp_init_rd_atom, 0, 255));
  traits.port_active = port.state == IBV_PORT_ACTIVE;
  return traits;
}

SetupResult<std::vector<Traits>> ListDevices() {
  std::vector<Traits> devices;
  PENSTOCK_CHECK(ForEachDevice([&](ibv_context* context) -> SetupResult<void> {
    PENSTOCK_TRY(Traits traits, TraitsOf(context));
    devices.push_back(std::move(traits));
    return {};
  }));
  return devices;
}

SetupResult<void> TryMemory(std::string_view device) {
  return ForEachDevice([&](ibv_context* context) -> SetupResult<void> {
    if (context->device->name != device) return {};
    const auto slabs = std::make_shared<Slabs>();
    ProtectionDomain domain(context, Exposure::kRegistration, slabs);
    return RegisterFirst(domain, *slabs, context->device->name);
  });
}

// ---- Registry ----

void Registry::Add(Device& device) {
  std::lock_guard lock(mutex_);
  devices_.emplace(device.context(), &device);
  unused_.erase(device.context());
  if (!watch_) watch_ = std::make_unique<RemovalWatch>([this](std::string_view file) { HandleRemoved(file); });
}

void Registry::Remove(Device& device) {
  std::lock_guard lock(mutex_);
  auto [begin, end] = devices_.equal_range(device.context());
  const auto found = std::find_if(begin, end, [&](const auto& entry) { return entry.second == &device; });
  if (found != end) devices_.erase(found);
  if (devices_.contains(device.context())) return;
  // The peer may have ended all connections before the removal was reported to this loop.
  if (device.removed() || IsRemoved(device.context())) {
    CloseUnderneath(device.context());
  } else {
    unused_.insert(device.context());
  }
}

void Registry::TellAll(ibv_context* context, bool removed, const std::string& why) {
  std::lock_guard lock(mutex_);
  TellAllLocked(context, removed, why);
}

void Registry::TellAllLocked(ibv_context* context, bool removed, const std::string& why) {
  auto [begin, end] = devices_.equal_range(context);
  for (auto entry = begin; entry != end; ++entry) {
    Device& device = *entry->second;
    device.loop().Post([weak = device.weak_from_this(), removed, why] {
      if (auto live = weak.lock()) live->HandleTrouble(removed, why);
    });
  }
}

// Runs on the watch's thread.
void Registry::HandleRemoved(std::string_view file) {
  std::lock_guard lock(mutex_);
  for (auto entry = devices_.begin(); entry != devices_.end(); entry = devices_.upper_bound(entry->first)) {
    const ibv_device& device = *entry->first->device;
    if (file == device.dev_name) TellAllLocked(entry->first, true, fmt::format("{} was removed", device.name));
  }
  // These devices have no connection here, so the removal is reported to no loop.
  std::erase_if(unused_, [&](ibv_context* context) {
    if (file != context->device->dev_name) return false;
    CloseUnderneath(context);
    return true;
  });
}

// ---- Device ----

SetupResult<std::shared_ptr<Device>> Device::Open(Loop& loop, ibv_context* context, std::shared_ptr<Registry> registry,
                                                  const std::shared_ptr<Slabs>& slabs) {
  PENSTOCK_TRY(Traits traits, TraitsOf(context));
  std::shared_ptr<Device> device(new Device(loop, context, std::move(traits), std::move(registry), slabs));
  device->channel_ = ::ibv_create_comp_channel(context);
  if (!device->channel_) return std::unexpected(CannotUse(context->device->name, errno));
  device->shared_domain_ = std::make_shared<ProtectionDomain>(context, ExposureFor(device->traits_), slabs);
  PENSTOCK_CHECK(RegisterFirst(*device->shared_domain_, *slabs, context->device->name));
  if (ExposureFor(device->traits_) == Exposure::kRegistration) device->shared_domain_.reset();
  device->Begin();
  return device;
}

void Device::Begin() {
  SetNonBlocking(channel_->fd);
  SetNonBlocking(context_->async_fd);
  completions_ = std::make_unique<FdWatch>(loop_, channel_->fd, [this] { HandleCompletionEvents(); });
  async_ = std::make_unique<FdWatch>(loop_, context_->async_fd, [this] { HandleAsyncEvents(); });
  registry_->Add(*this);
}

Device::~Device() {
  completions_.reset();
  async_.reset();
  shared_domain_.reset();
  if (channel_) ::ibv_destroy_comp_channel(channel_);
  registry_->Remove(*this);
}

std::shared_ptr<ProtectionDomain> Device::DomainForConnection() {
  if (shared_domain_) return shared_domain_;
  return std::make_shared<ProtectionDomain>(context_, ExposureFor(traits_), slabs_);
}

void Device::AddUser(const std::shared_ptr<DeviceUser>& user) {
  std::erase_if(users_, [](const auto& each) { return each.expired(); });
  users_.push_back(user);
}

void Device::HandleCompletionEvents() {
  const std::shared_ptr<Device> self = shared_from_this();  // the last connection that owns this may end here
  ibv_cq* queue = nullptr;
  void* context = nullptr;
  while (!removed_ && ::ibv_get_cq_event(channel_, &queue, &context) == 0) {
    const std::shared_ptr<DeviceUser> user = static_cast<QueuePairContext*>(context)->user.lock();
    // Acknowledge the event before it is handled: libibverbs destroys a queue only when its events are acknowledged.
    ::ibv_ack_cq_events(queue, 1);
    if (user) user->HandleCompletionEvent();
  }
}

void Device::HandleAsyncEvents() {
  const std::shared_ptr<Device> self = shared_from_this();
  ibv_async_event event{};
  while (!removed_ && ::ibv_get_async_event(context_, &event) == 0) {
    QueuePairContext pair;
    DisconnectReason reason = DisconnectReason::kProtocolError;
    switch (event.event_type) {
      case IBV_EVENT_QP_FATAL:
        reason = DisconnectReason::kFault;
        [[fallthrough]];
      case IBV_EVENT_QP_REQ_ERR:
      case IBV_EVENT_QP_ACCESS_ERR:
        // The context lives until the event is acknowledged.
        pair = *static_cast<QueuePairContext*>(event.element.qp->qp_context);
        break;
      case IBV_EVENT_CQ_ERR:
        reason = DisconnectReason::kFault;
        pair = *static_cast<QueuePairContext*>(event.element.cq->cq_context);
        break;
      case IBV_EVENT_PORT_ERR:
        log::warn("{}: port {} is down", traits_.name, event.element.port_num);
        registry_->TellAll(context_, false, fmt::format("the port of {} is down", traits_.name));
        break;
      case IBV_EVENT_DEVICE_FATAL:
        registry_->TellAll(context_, true, fmt::format("{} has failed", traits_.name));
        break;
      default:
        break;
    }
    std::string why = ::ibv_event_type_str(event.event_type);
    ::ibv_ack_async_event(&event);
    if (!pair.loop) continue;
    pair.loop->Post([weak = pair.user, reason, why] {
      if (auto user = weak.lock()) user->HandleAsync(reason, why);
    });
  }
}

void Device::HandleTrouble(bool removed, const std::string& why) {
  if (removed_) return;
  const std::shared_ptr<Device> self = shared_from_this();
  if (removed) {
    log::warn("{}", why);
    removed_ = true;
    if (on_removed_) on_removed_();
  }
  for (const auto& weak : std::exchange(users_, removed ? std::vector<std::weak_ptr<DeviceUser>>() : users_)) {
    if (auto user = weak.lock()) user->HandleAsync(DisconnectReason::kFault, why);
  }
}

}  // namespace penstock::rdma::verbs
