// The Endpoint over a queue pair, and its memory regions. Both pass all calls to the QueuePairDriver.
#pragma once

#include <memory>

#include "rdma/verbs/queue_pair_driver.h"

namespace penstock::rdma::verbs {

class Region : public MemoryRegion {
 public:
  Region(std::weak_ptr<QueuePairDriver> driver, std::shared_ptr<ExposedRegion> region)
      : driver_(std::move(driver)), region_(std::move(region)) {}
  ~Region() override {
    if (auto driver = driver_.lock()) driver->Close(region_);
  }
  Stag stag() const override { return region_->stag; }
  uint64_t offset() const override { return region_->offset; }
  size_t length() const override { return region_->length; }
  bool valid() const override { return region_->valid; }
  const std::shared_ptr<ExposedRegion>& region() const { return region_; }

  // Each RPC makes a region, so its memory is recycled.
  static void* operator new(size_t size) { return FrameAllocator::Allocate(size); }
  static void operator delete(void* region, size_t size) noexcept { FrameAllocator::Free(region, size); }

 private:
  const std::weak_ptr<QueuePairDriver> driver_;
  const std::shared_ptr<ExposedRegion> region_;
};

class QueuePairEndpoint : public Endpoint {
 public:
  QueuePairEndpoint(std::shared_ptr<QueuePairDriver> driver, ConnectionInfo info, BufferPool& buffers)
      : driver_(std::move(driver)), info_(std::move(info)), limits_(LimitsFor(driver_->traits())), buffers_(buffers) {}
  ~QueuePairEndpoint() override { driver_->Abandon(); }

  const ConnectionInfo& info() const override { return info_; }
  const Limits& limits() const override { return limits_; }
  BufferPool& buffers() override { return buffers_; }

  void Start(std::function<void()> on_completions) override { driver_->Start(std::move(on_completions)); }
  void PostReceive(ReceiveRequest request) override { driver_->PostReceive(request); }
  void PostSend(SendRequest request) override { driver_->PostSend(std::move(request)); }
  void PostWrite(WriteRequest request) override { driver_->PostWrite(std::move(request)); }
  void PostRead(ReadRequest request) override { driver_->PostRead(std::move(request)); }
  std::unique_ptr<MemoryRegion> Register(Bytes memory, Access access) override {
    return std::make_unique<Region>(driver_, driver_->Register(memory, access));
  }
  void PostInvalidate(Context context, MemoryRegion& region) override {
    driver_->PostInvalidate(context, static_cast<Region&>(region).region());
  }
  void Disconnect() override { driver_->Disconnect(); }
  size_t Poll(std::span<Completion> out) override { return driver_->Poll(out); }

 private:
  const std::shared_ptr<QueuePairDriver> driver_;
  const ConnectionInfo info_;
  const Limits limits_;
  BufferPool& buffers_;
};

}  // namespace penstock::rdma::verbs
