// An open RDMA device on one loop. It reads the device's completion events and asynchronous events, and gives them to
// the queue pairs of that loop.
//
// librdmacm opens each device once for the whole process (ibv_context). A Device belongs to one loop. The loops share
// only the Registry.
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

// Asks the device for its abilities and limits.
SetupResult<Traits> TraitsOf(ibv_context* context);
// Lists all devices. If a device cannot be opened, the error names it.
SetupResult<std::vector<Traits>> ListDevices();
// Fails if this device cannot register memory.
SetupResult<void> TryMemory(std::string_view device);

class Device;

// The devices that the loops of this process have open. A failure or removal of a device concerns all loops, but it may
// be reported to only one of them: the registry tells the others. Any thread.
class Registry {
 public:
  void Add(Device& device);
  // If this was the last Device of a removed device, also closes the device for librdmacm.
  void Remove(Device& device);
  // Calls HandleTrouble() of each Device over this context, on its loop.
  void TellAll(ibv_context* context, bool removed, const std::string& why);

 private:
  void HandleRemoved(std::string_view file);
  void TellAllLocked(ibv_context* context, bool removed, const std::string& why);

  std::mutex mutex_;
  std::multimap<ibv_context*, Device*> devices_;
  std::set<ibv_context*> unused_;        // without a Device; librdmacm may still have them open
  std::unique_ptr<RemovalWatch> watch_;  // made for the first device
};

// The owner of a queue pair: the device reports its completions and its failure. Outlives its queue pair.
class DeviceUser {
 public:
  virtual ~DeviceUser() = default;
  // The completion queue has completions.
  virtual void HandleCompletionEvent() = 0;
  // The queue pair or the device has failed.
  virtual void HandleAsync(DisconnectReason reason, std::string why) = 0;
};

// The qp_context of a queue pair points to this. Any loop may read the asynchronous events of a queue pair, so the
// context says to which loop and user they go.
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
  // Returns the protection domain for a new connection. All connections share one domain if windows keep them apart.
  std::shared_ptr<ProtectionDomain> DomainForConnection();
  // The device copies messages up to this size into the request itself. The first queue pair lowers it to what the
  // device accepts.
  uint32_t max_inline = 256;

  // From now on the device reports its failure to `user`.
  void AddUser(const std::shared_ptr<DeviceUser>& user);
  // Sets the function that is called when the device is removed, before the device tells its users.
  void set_on_removed(std::function<void()> on_removed) { on_removed_ = std::move(on_removed); }

  // The device, or its port, has failed or was removed: tells all users.
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
