// The state that a provider shares with its listeners and with the coroutines that set up its connections. It lives as
// long as any of them.
#pragma once

#include <map>
#include <memory>

#include "rdma/verbs/cm.h"
#include "rdma/verbs/device.h"
#include "rdma/verbs/provider.h"

namespace penstock::rdma::verbs {

struct ProviderState : std::enable_shared_from_this<ProviderState> {
  ProviderState(Loop& l, std::shared_ptr<Registry> r, Options o)
      : loop(l), registry(std::move(r)), options(std::move(o)) {}

  Loop& loop;
  const std::shared_ptr<Registry> registry;
  const Options options;
  const std::shared_ptr<Slabs> slabs = std::make_shared<Slabs>();
  BufferPool buffers{slabs};
  std::shared_ptr<CmChannel> channel;
  bool remote_invalidation = true;
  bool gone = false;  // the provider is destroyed
  // Open as long as a connection uses them, or a listener that has had connections over them.
  std::map<ibv_context*, std::weak_ptr<Device>> devices;

  // Returns the open device of this context, or opens it.
  SetupResult<std::shared_ptr<Device>> DeviceFor(ibv_context* context);
};

SetupResult<std::unique_ptr<Listener>> MakeListener(std::shared_ptr<ProviderState> state, const Address& local);

}  // namespace penstock::rdma::verbs
