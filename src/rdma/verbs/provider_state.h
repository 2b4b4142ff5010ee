// What a provider, its listeners and the coroutines that make its connections share.
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
  bool gone = false;
  // Open as long as somebody uses them: connections, or a listener that has had some.
  std::map<ibv_context*, std::weak_ptr<Device>> devices;

  SetupResult<std::shared_ptr<Device>> DeviceFor(ibv_context* context);
};

SetupResult<std::unique_ptr<Listener>> MakeListener(std::shared_ptr<ProviderState> state, const Address& local);

}  // namespace penstock::rdma::verbs
