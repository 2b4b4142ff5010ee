// An open device on one loop: where its completions and its misfortunes come in, and the memory that it may reach.
//
// librdmacm opens devices, one context for the whole process; what is here belongs to a loop. Its threads share nothing but
// Registry.
#pragma once

#include <infiniband/verbs.h>

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "base/loop.h"
#include "base/result.h"
#include "rdma/verbs/fd_watch.h"
#include "rdma/verbs/protection_domain.h"
#include "rdma/verbs/removal_watch.h"
#include "rdma/verbs/slabs.h"
#include "rdma/verbs/traits.h"

namespace penstock::rdma::verbs {

SetupResult<Traits> TraitsOf(ibv_context* context);
// All devices there are; those that cannot be opened are named in the error.
SetupResult<std::vector<Traits>> ListDevices();
// Whether memory can be registered with this device at all.
SetupResult<void> TryMemory(std::string_view device);

class Device;

// What happens to devices concerns all loops: whoever hears of it tells them. Any thread.
class Registry {
 public:
  void Add(Device& device);
  // The last of a device that has gone lets go of it for librdmacm, too.
  void Remove(Device& device);
  // Each Device over this context is told, on its loop.
  void TellAll(ibv_context* context, bool removed, const std::string& why);

 private:
  void HandleRemoved(std::string_view file);
  void TellAllLocked(ibv_context* context, bool removed, const std::string& why);

  std::mutex mutex_;
  std::multimap<ibv_context*, Device*> devices_;
  std::set<ibv_context*> unused_;        // that librdmacm may still have open
  std::unique_ptr<RemovalWatch> watch_;  // from the first device on
};

// Told of completions and of the queue pair's end. Outlives its queue pair.
class DeviceUser {
 public:
  virtual ~DeviceUser() = default;
  virtual void HandleCompletionEvent() = 0;
  virtual void HandleAsync(DisconnectReason reason, std::string why) = 0;
};

// What a queue pair's qp_context points to: its asynchronous events are read on any loop.
struct QueuePairContext {
  Loop* loop = nullptr;
  std::weak_ptr<DeviceUser> user;
};

class Device : public std::enable_shared_from_this<Device> {
 public:
  static SetupResult<std::shared_ptr<Device>> Open(Loop& loop, ibv_context* context, std::shared_ptr<Registry> registry,
                                                   const std::shared_ptr<Slabs>& slabs);
  ~Device();

  Loop& loop() { return loop_; }
  ibv_context* context() { return context_; }
  const Traits& traits() const { return traits_; }
  ibv_comp_channel* channel() { return channel_; }
  bool removed() const { return removed_; }
  // For a new connection; the same for all where windows keep them apart.
  std::shared_ptr<ProtectionDomain> DomainForConnection();
  // What the device takes in a request itself; found out by the first queue pair.
  uint32_t max_inline = 256;

  void AddUser(const std::shared_ptr<DeviceUser>& user);
  // Also called for the users of a device that has gone; `on_removed` when it goes, before them.
  void set_on_removed(std::function<void()> on_removed) { on_removed_ = std::move(on_removed); }

  void HandleTrouble(bool removed, const std::string& why);

 private:
  Device(Loop& loop, ibv_context* context, Traits traits, std::shared_ptr<Registry> registry,
         std::shared_ptr<Slabs> slabs)
      : loop_(loop),
        context_(context),
        traits_(std::move(traits)),
        registry_(std::move(registry)),
        slabs_(std::move(slabs)) {}
  void Begin();
  void HandleCompletionEvents();
  void HandleAsyncEvents();

  Loop& loop_;
  ibv_context* const context_;
  const Traits traits_;
  const std::shared_ptr<Registry> registry_;
  const std::shared_ptr<Slabs> slabs_;
  ibv_comp_channel* channel_ = nullptr;
  std::shared_ptr<ProtectionDomain> shared_domain_;
  std::vector<std::weak_ptr<DeviceUser>> users_;
  std::function<void()> on_removed_;
  std::unique_ptr<FdWatch> completions_, async_;
  bool removed_ = false;
};

}  // namespace penstock::rdma::verbs
