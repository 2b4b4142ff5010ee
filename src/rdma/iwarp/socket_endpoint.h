// The Endpoint over a TCP socket.
#pragma once

#include <memory>

#include "rdma/iwarp/socket_driver.h"

namespace penstock::rdma::iwarp {

class SocketEndpoint : public Endpoint {
 public:
  SocketEndpoint(std::shared_ptr<SocketDriver> driver, ConnectionInfo info, BufferPool& buffers)
      : driver_(std::move(driver)), info_(std::move(info)), buffers_(buffers) {
    limits_.max_message = Connection::kMaxMessage;
    limits_.max_transfer = Connection::kMaxTransfer;
    limits_.file_data = true;
  }
  ~SocketEndpoint() override { driver_->Abandon(); }

  const ConnectionInfo& info() const override { return info_; }
  const Limits& limits() const override { return limits_; }
  BufferPool& buffers() override { return buffers_; }

  void Start(std::function<void()> on_completions) override { driver_->Start(std::move(on_completions)); }
  void PostReceive(Context context, BufferRef buffer) override {
    connection().PostReceive(context, std::move(buffer));
    if (connection().has_completions()) driver_->Touch();  // it was flushed
  }
  void PostSend(SendRequest request) override {
    connection().PostSend(std::move(request));
    driver_->Touch();
  }
  void PostWrite(WriteRequest request) override {
    connection().PostWrite(std::move(request));
    driver_->Touch();
  }
  void PostRead(ReadRequest request) override {
    connection().PostRead(std::move(request));
    driver_->Touch();
  }
  std::unique_ptr<MemoryRegion> Register(Bytes memory, Access access) override {
    return connection().Register(memory, access);
  }
  void PostInvalidate(Context context, MemoryRegion& region) override {
    connection().PostInvalidate(context, region);
    driver_->Touch();
  }
  void Disconnect() override {
    connection().Disconnect();
    driver_->Touch();
  }
  size_t Poll(std::span<Completion> out) override { return driver_->Poll(out); }

 private:
  Connection& connection() { return driver_->connection(); }

  std::shared_ptr<SocketDriver> driver_;
  ConnectionInfo info_;
  Limits limits_;
  BufferPool& buffers_;
};

}  // namespace penstock::rdma::iwarp
