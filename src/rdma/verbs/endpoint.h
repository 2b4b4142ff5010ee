// The Endpoint over a queue pair.
#pragma once

#include <memory>

#include "rdma/verbs/connection.h"

namespace penstock::rdma::verbs {

class Region : public MemoryRegion {
 public:
  Region(std::weak_ptr<Connection> connection, std::shared_ptr<Exposed> exposed)
      : connection_(std::move(connection)), exposed_(std::move(exposed)) {}
  ~Region() override {
    if (auto connection = connection_.lock()) connection->Close(exposed_);
  }
  Stag stag() const override { return exposed_->stag; }
  uint64_t offset() const override { return exposed_->offset; }
  size_t length() const override { return exposed_->length; }
  bool valid() const override { return exposed_->valid; }
  const std::shared_ptr<Exposed>& exposed() const { return exposed_; }

  // One per call of an RPC: recycled.
  static void* operator new(size_t size) { return FrameAllocator::Allocate(size); }
  static void operator delete(void* region, size_t size) noexcept { FrameAllocator::Free(region, size); }

 private:
  const std::weak_ptr<Connection> connection_;
  const std::shared_ptr<Exposed> exposed_;
};

class QueuePairEndpoint : public Endpoint {
 public:
  QueuePairEndpoint(std::shared_ptr<Connection> connection, ConnectionInfo info, BufferPool& buffers)
      : connection_(std::move(connection)),
        info_(std::move(info)),
        limits_(LimitsFor(connection_->traits())),
        buffers_(buffers) {}
  ~QueuePairEndpoint() override { connection_->Abandon(); }

  const ConnectionInfo& info() const override { return info_; }
  const Limits& limits() const override { return limits_; }
  BufferPool& buffers() override { return buffers_; }

  void Start(std::function<void()> on_completions) override { connection_->Start(std::move(on_completions)); }
  void PostReceive(Context context, BufferRef buffer) override { connection_->PostReceive(context, std::move(buffer)); }
  void PostSend(SendRequest request) override { connection_->PostSend(std::move(request)); }
  void PostWrite(WriteRequest request) override { connection_->PostWrite(std::move(request)); }
  void PostRead(ReadRequest request) override { connection_->PostRead(std::move(request)); }
  std::unique_ptr<MemoryRegion> Register(Bytes memory, Access access) override {
    return std::make_unique<Region>(connection_, connection_->Register(memory, access));
  }
  void PostInvalidate(Context context, MemoryRegion& region) override {
    connection_->PostInvalidate(context, static_cast<Region&>(region).exposed());
  }
  void Disconnect() override { connection_->Disconnect(); }
  size_t Poll(std::span<Completion> out) override { return connection_->Poll(out); }

 private:
  const std::shared_ptr<Connection> connection_;
  const ConnectionInfo info_;
  const Limits limits_;
  BufferPool& buffers_;
};

}  // namespace penstock::rdma::verbs
