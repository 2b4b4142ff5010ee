// RDMA adapters, and the kernel's software ones: libibverbs and librdmacm.
#pragma once

#include <memory>
#include <string>

#include "base/address.h"
#include "base/loop.h"
#include "rdma/provider.h"
#include "rdma/verbs/device.h"

namespace penstock::rdma::verbs {

struct Options {
  std::string device;                                  // this one alone; empty: whichever has the address
  Duration resolve_timeout = std::chrono::seconds(2);  // for an address, and again for a route
  // Peers that are not yet answered. More are rejected.
  size_t max_pending = 256;
  // A listener whose device has gone looks for it so often.
  Duration listen_again = std::chrono::seconds(1);
};

// The device that has the address of an interface of ours, or by which we would reach a peer. Null where there is none.
struct Found {
  std::string device;
};
SetupResult<std::optional<Found>> DeviceOf(const IpAddress& local);
SetupResult<std::optional<Found>> DeviceToward(const IpAddress& peer);

struct ProviderState;

class Provider : public rdma::Provider {
 public:
  // `registry`: the same for all providers of the process. The error is for people: no device, no permission, too little
  // memory that may be locked.
  static SetupResult<std::unique_ptr<Provider>> Make(Loop& loop, std::shared_ptr<Registry> registry,
                                                     Options options = {});
  // Gives up what is being set up; the waiting ends with kCancelled when the loop runs next.
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
