// The provider over RDMA devices, by libibverbs and librdmacm: InfiniBand, RoCE and iWARP adapters, and the Linux
// kernel's software devices.
#pragma once

#include <memory>
#include <string>

#include "base/address.h"
#include "base/loop.h"
#include "rdma/provider.h"
#include "rdma/verbs/device.h"

namespace penstock::rdma::verbs {

struct Options {
  std::string device;                                  // use only this one; if empty, any device
  Duration resolve_timeout = std::chrono::seconds(2);  // for an address, and again for a route
  // Connection requests that wait for an answer. Further requests are rejected.
  size_t max_pending = 256;
  // A listener whose device was removed looks for it again at this interval.
  Duration listen_again = std::chrono::seconds(1);
};

// DeviceOf() finds the device that has an address of this machine, DeviceToward() the device that leads to a peer. Both
// return nullopt if no device does.
struct Found {
  std::string device;
};
SetupResult<std::optional<Found>> DeviceOf(const IpAddress& local);
SetupResult<std::optional<Found>> DeviceToward(const IpAddress& peer);

struct ProviderState;

class Provider : public rdma::Provider {
 public:
  // `registry` is the same for all providers of the process. Fails with a message for the user: no device, no
  // permission, or a limit on locked memory that is too low.
  static SetupResult<std::unique_ptr<Provider>> Make(Loop& loop, std::shared_ptr<Registry> registry,
                                                     Options options = {});
  // Cancels connections that are being set up. Their callers get kCancelled in the next turn of the loop.
  ~Provider() override;

  std::string_view name() const override { return "verbs"; }
  BufferPool& buffers() override;
  bool remote_invalidation() const override;
  Task<ConnectResult> Connect(Address peer, ConnectOptions options) override;
  SetupResult<std::unique_ptr<Listener>> Listen(Address local) override;

  const std::shared_ptr<ProviderState>& state() { return state_; }

 private:
  explicit Provider(std::shared_ptr<ProviderState> state) : state_(std::move(state)) {}
  std::shared_ptr<ProviderState> state_;
};

}  // namespace penstock::rdma::verbs
