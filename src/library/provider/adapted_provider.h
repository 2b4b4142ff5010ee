// Makes an rdma::Provider of the functions of a host (include/penstock/provider.h). One HostProvider has an
// AdaptedProvider for each loop that uses it.
#pragma once

#include <memory>
#include <string_view>

#include "base/loop.h"
#include "library/provider/host_loop.h"
#include "library/provider/host_provider.h"
#include "rdma/provider.h"

namespace penstock::library {

class AdaptedProvider : public rdma::Provider {
 public:
  AdaptedProvider(Loop& loop, std::shared_ptr<HostProvider> host)
      : loop_(std::make_shared<HostLoop>(loop, std::move(host))) {}
  ~AdaptedProvider() override { loop_->Close(); }

  std::string_view name() const override { return loop_->host().properties().name; }
  BufferPool& buffers() override { return loop_->buffers(); }
  bool remote_invalidation() const override { return loop_->host().properties().remote_invalidation; }
  Task<rdma::ConnectResult> Connect(rdma::Address peer, rdma::ConnectOptions options) override;
  SetupResult<std::unique_ptr<rdma::Listener>> Listen(rdma::Address local) override;

  const std::shared_ptr<HostLoop>& loop() const { return loop_; }

 private:
  const std::shared_ptr<HostLoop> loop_;
};

}  // namespace penstock::library
