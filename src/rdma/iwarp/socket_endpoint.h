// The Endpoint of software iWARP: it hands requests to the stream of its SocketDriver.
#pragma once

#include <memory>

#include "rdma/iwarp/socket_driver.h"

namespace penstock::rdma::iwarp {

class SocketEndpoint : public Endpoint {
 public:
  SocketEndpoint(std::shared_ptr<SocketDriver> driver, ConnectionInfo info, BufferPool& buffers)
      : driver_(std::move(driver)), info_(std::move(info)), buffers_(buffers) {
    limits_.max_message = RdmapStream::kMaxMessage;
    limits_.max_transfer = RdmapStream::kMaxTransfer;
    limits_.file_data = true;
  }
  ~SocketEndpoint() override { driver_->Abandon(); }

  const ConnectionInfo& info() const override { return info_; }
  const Limits& limits() const override { return limits_; }
  BufferPool& buffers() override { return buffers_; }

  void Start(std::function<void()> on_completions) override { driver_->Start(std::move(on_completions)); }
  void PostReceive(ReceiveRequest request) override {
    stream().PostReceive(request);
    if (stream().has_completions()) driver_->Touch();  // the receive was flushed
  }
  void PostSend(SendRequest request) override {
    const size_t octets = SizeOf(request.gather);
    stream().PostSend(std::move(request));
    driver_->Touch(octets);
  }
  void PostWrite(WriteRequest request) override {
    const size_t octets = SizeOf(request.gather);
    stream().PostWrite(std::move(request));
    driver_->Touch(octets);
  }
  void PostRead(ReadRequest request) override {
    stream().PostRead(std::move(request));
    driver_->Touch();
  }
  std::unique_ptr<MemoryRegion> Register(Bytes memory, Access access) override {
    return stream().Register(memory, access);
  }
  void PostInvalidate(Context context, MemoryRegion& region) override {
    stream().PostInvalidate(context, region);
    driver_->Touch();
  }
  void Disconnect() override {
    stream().Disconnect();
    driver_->Touch();
  }
  size_t Poll(std::span<Completion> out) override { return driver_->Poll(out); }

 private:
  RdmapStream& stream() { return driver_->stream(); }

  std::shared_ptr<SocketDriver> driver_;
  ConnectionInfo info_;
  Limits limits_;
  BufferPool& buffers_;
};

}  // namespace penstock::rdma::iwarp
