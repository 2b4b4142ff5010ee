// The endpoint of a traced connection. It records the requests that its owner posts and their completions, and passes
// all calls to the endpoint of the traced provider.
#pragma once

#include <memory>
#include <unordered_map>

#include "rdma/trace/recorder.h"

namespace penstock::rdma::trace {

class Endpoint : public rdma::Endpoint {
 public:
  // `inner` gives the addresses in `set_up`.
  Endpoint(std::unique_ptr<rdma::Endpoint> inner, const Sink& sink, SetUp set_up);
  ~Endpoint() override;

  const ConnectionInfo& info() const override { return inner_->info(); }
  const Limits& limits() const override { return inner_->limits(); }
  BufferPool& buffers() override { return inner_->buffers(); }
  void Start(std::function<void()> on_completions) override { inner_->Start(std::move(on_completions)); }
  void PostReceive(ReceiveRequest request) override { inner_->PostReceive(request); }
  void PostSend(SendRequest request) override;
  void PostWrite(WriteRequest request) override;
  void PostRead(ReadRequest request) override;
  std::unique_ptr<MemoryRegion> Register(Bytes memory, Access access) override {
    return inner_->Register(memory, access);
  }
  void PostInvalidate(Context context, MemoryRegion& region) override { inner_->PostInvalidate(context, region); }
  void Disconnect() override;
  size_t Poll(std::span<rdma::Completion> out) override;

 private:
  struct Read {
    Context context = 0;  // the context that the owner gave
    Bytes local;
    BufferRef owner;
    Stag sink;
    bool recorded = false;
  };
  void Record(rdma::Completion& completion);
  void FinishRead(rdma::Completion& completion);
  // Returns true if the provider will send this gather: it is within `limit`, and the connection is open as far as we
  // know.
  bool WillLeave(const Gather& gather, uint32_t limit) const;

  std::unique_ptr<rdma::Endpoint> inner_;
  Recorder recorder_;
  std::unordered_map<Context, Read> reads_;  // the key is the context in the inner endpoint
  Context last_read_ = 0;
  bool closing_ = false;  // the provider sends no more requests
  bool ended_ = false;
};

}  // namespace penstock::rdma::trace
