#include "rpcrdma/read_queue.h"

#include <gtest/gtest.h>

namespace penstock::rpcrdma {
namespace {

// Counts the Reads that are posted.
class CountingEndpoint final : public rdma::Endpoint {
 public:
  explicit CountingEndpoint(uint16_t ord) { info_.ord = ord; }
  const rdma::ConnectionInfo& info() const override { return info_; }
  const rdma::Limits& limits() const override { return limits_; }
  BufferPool& buffers() override { return buffers_; }
  void Start(std::function<void()>) override {}
  void PostReceive(rdma::ReceiveRequest) override {}
  void PostSend(rdma::SendRequest) override {}
  void PostWrite(rdma::WriteRequest) override {}
  void PostRead(rdma::ReadRequest) override { ++reads; }
  std::unique_ptr<rdma::MemoryRegion> Register(Bytes, rdma::Access) override { return nullptr; }
  void PostInvalidate(rdma::Context, rdma::MemoryRegion&) override {}
  void Disconnect() override {}
  size_t Poll(std::span<rdma::Completion>) override { return 0; }

  int reads = 0;

 private:
  rdma::ConnectionInfo info_{};
  rdma::Limits limits_;
  BufferPool buffers_;
};

void PostFive(ReadQueue& queue) {
  for (int i = 0; i < 5; ++i) queue.Post({});
}

TEST(ReadQueue, PostsAsManyReadsAsTheConnectionAllows) {
  CountingEndpoint endpoint(2);
  ReadQueue queue(endpoint);
  PostFive(queue);
  EXPECT_EQ(endpoint.reads, 2);
  queue.HandleCompletion();
  EXPECT_EQ(endpoint.reads, 3);
}

TEST(ReadQueue, ALowerLimitHoldsForTheNextReads) {
  CountingEndpoint endpoint(4);
  ReadQueue queue(endpoint);
  PostFive(queue);
  EXPECT_EQ(endpoint.reads, 4);
  queue.set_limit(2);
  PostFive(queue);
  for (int i = 0; i < 2; ++i) queue.HandleCompletion();
  EXPECT_EQ(endpoint.reads, 4);
  queue.HandleCompletion();
  EXPECT_EQ(endpoint.reads, 5);
}

TEST(ReadQueue, AHigherLimitDoesNotExceedTheConnection) {
  CountingEndpoint endpoint(3);
  ReadQueue queue(endpoint);
  queue.set_limit(100);
  PostFive(queue);
  EXPECT_EQ(endpoint.reads, 3);
}

}  // namespace
}  // namespace penstock::rpcrdma
