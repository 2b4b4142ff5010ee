// Tests of the limits of a responder: credits, RDMA Reads in progress, queued replies, and memory.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <list>
#include <memory>
#include <vector>

#include "base/address.h"
#include "base/data.h"
#include "rpc/memory_budget.h"
#include "rpcrdma/credits.h"
#include "rpcrdma/responder_test_fixture.h"

namespace penstock::rpcrdma {
namespace {

TEST_F(ResponderTest, DisconnectsAPeerThatExceedsItsCredits) {
  rig_.server_options.responder.credits = 4;
  rig_.handler.set_max_delay(std::chrono::seconds(10));
  Connect();
  for (uint32_t i = 0; i < 4 + ResponderCredits::kSlack + 1; ++i) {
    Send(MessageOf(Procedure::kMsg, {}, Stream({.xid = kXid + i}), kXid + i));
  }
  ASSERT_TRUE(rig_.world.RunUntil([&] { return lost_; }));
  EXPECT_LE(rig_.handler.most_running(), 4 + ResponderCredits::kSlack);
}

// The handler replies at once, but the replies of one MiB each leave more slowly than calls arrive.
TEST_F(ResponderTest, DisconnectsAPeerThatDoesNotReceiveItsReplies) {
  rig_.server_options.responder.credits = 4;
  rig_.server_options.responder.max_queued_octets = size_t{1} << 30;
  Connect({false, 4096, 4096});
  ByteVector sink(1 << 20);
  SendCallsForPayloads(100, sink);
  ASSERT_TRUE(rig_.world.RunUntil([&] { return lost_; }));
  EXPECT_LE(rig_.handler.calls(), 3 * (4 + ResponderCredits::kSlack));
}

// RFC 5040 §5.5 rule 13: a provider executes requests in the order in which they are posted. A Read beyond ORD would
// therefore delay the replies after it.
TEST_F(ResponderTest, RepliesToOtherCallsWhileThePeerLeavesReadsUnanswered) {
  rig_.network.faults().leave_reads = true;
  rig_.server_options.ord = 4;
  Connect();
  ByteVector memory(100);
  ChunkLists chunks;
  const Segment all = Register(memory, rdma::Access::kRemoteRead);
  for (uint32_t i = 0; i < 3; ++i) chunks.reads.push_back({28, {all.stag, 30, all.offset + 30 * i}});
  for (uint32_t i = 0; i < 4; ++i) {
    Send(MessageOf(Procedure::kMsg, chunks, Stream({.xid = kXid + i, .arguments = {90}}), kXid + i));
  }
  rig_.world.RunFor(std::chrono::seconds(1));
  ExpectGoodHealth();
  EXPECT_EQ(rig_.handler.calls(), 1u);
}

TEST_F(ResponderTest, PullsCallsInOrderWithAnOrdOfOne) {
  rig_.server_options.ord = 1;
  rig_.handler.set_in_order(true);
  Connect();
  std::vector<ByteVector> memory(8);
  for (uint32_t i = 0; i < 8; ++i) {
    memory[i] = ArgumentOctets(kXid + i, 0, 3000);
    const Segment all = Register(memory[i], rdma::Access::kRemoteRead);
    ChunkLists chunks;
    for (uint32_t part = 0; part < 3; ++part) chunks.reads.push_back({28, {all.stag, 1000, all.offset + 1000 * part}});
    Send(MessageOf(Procedure::kMsg, chunks, Stream({.xid = kXid + i, .arguments = {3000}}), kXid + i));
  }
  ASSERT_TRUE(rig_.world.RunUntil([&] { return received_.size() == 8; }));
  for (uint32_t i = 0; i < 8; ++i) EXPECT_EQ(rig_.handler.xids()[i], kXid + i);
}

// A lost connection completes both the posted Reads and the waiting ones.
TEST_F(ResponderTest, CallsThatWaitForReadsEndWithTheConnection) {
  rig_.network.faults().leave_reads = true;
  rig_.server_options.ord = 1;
  Connect();
  ByteVector memory(100);
  ChunkLists chunks;
  chunks.reads = {{28, Register(memory, rdma::Access::kRemoteRead)}};
  for (uint32_t i = 0; i < 4; ++i) {
    Send(MessageOf(Procedure::kMsg, chunks, Stream({.xid = kXid + i, .arguments = {100}}), kXid + i));
  }
  rig_.world.RunFor(std::chrono::seconds(1));
  rig_.network.LoseAll();
  ASSERT_TRUE(rig_.world.RunUntil([&] { return lost_ && rig_.server->connections() == 0; }));
  EXPECT_EQ(rig_.handler.calls(), 0u);
}

TEST_F(ResponderTest, CallsWaitWhileTooManyRepliesAreQueued) {
  rig_.server_options.responder.credits = 32;
  rig_.server_options.responder.max_queued_octets = 2 << 20;
  Connect({false, 4096, 4096});
  ByteVector sink(1 << 20);
  SendCallsForPayloads(32, sink);
  size_t most = 0;
  ASSERT_TRUE(rig_.world.RunUntil([&] {
    most = std::max(most, rig_.handler.calls() - received_.size());
    return received_.size() == 32;
  }));
  EXPECT_LE(most, 6u) << "two MiB are queued, one more reply may follow, and some have left and not arrived";
  ExpectGoodHealth();
}

// Sends calls with a payload that the responder pulls, and limits the memory for it.
class ResponderMemoryTest : public ResponderTest {
 protected:
  static constexpr size_t kPayload = 64 << 10;

  explicit ResponderMemoryTest(size_t octets = 16 * kPayload, rdma::sim::Options options = {})
      : ResponderTest(options) {
    memory_ = std::make_shared<rpc::MemoryBudget>(rpc::MemoryBudget::Limits{.octets = octets, .own_octets = 0});
    rig_.server_options.memory = memory_;
    rig_.server_options.responder.credits = 32;
  }
  void SendCall(uint32_t xid) {
    payloads_.push_back(ArgumentOctets(xid, 0, kPayload));
    ChunkLists chunks;
    chunks.reads = {{28, Register(payloads_.back(), rdma::Access::kRemoteRead)}};
    Send(MessageOf(Procedure::kMsg, chunks, Stream({.xid = xid, .arguments = {kPayload}}), xid));
  }

  std::shared_ptr<rpc::MemoryBudget> memory_;
  std::list<ByteVector> payloads_;
};

TEST_F(ResponderMemoryTest, PullsNoMoreThanTheMemoryBudgetAllows) {
  rig_.handler.set_delay(std::chrono::milliseconds(10));
  Connect();
  for (uint32_t i = 0; i < 32; ++i) SendCall(kXid + i);
  size_t most = 0;
  ASSERT_TRUE(rig_.world.RunUntil([&] {
    most = std::max(most, memory_->shared_octets());
    return received_.size() == 32;
  }));
  EXPECT_LE(most, 4 * kPayload + 32 * 1024) << "one host gets a quarter of the budget, and replies take some memory";
  EXPECT_GE(most, 2 * kPayload);
  EXPECT_LE(rig_.handler.most_running(), 4u);
  rig_.world.RunFor(std::chrono::seconds(1));
  EXPECT_EQ(memory_->shared_octets(), 0u);
}

// The other account may belong to a connection on another loop.
TEST_F(ResponderMemoryTest, ContinuesWhenAnotherAccountReleasesMemory) {
  Connect();
  auto other = memory_->Open(asio::ip::make_address("10.9.9.9"));
  other->Update(16 * kPayload);
  SendCall(kXid);
  rig_.world.RunFor(std::chrono::seconds(1));
  EXPECT_TRUE(received_.empty());
  EXPECT_EQ(rig_.network.stats().reads, 0u);
  ExpectGoodHealth();
  other->Update(0);
  ASSERT_TRUE(rig_.world.RunUntil([&] { return received_.size() == 1; }));
}

TEST_F(ResponderMemoryTest, ALostConnectionStopsWaitingForMemory) {
  Connect();
  auto other = memory_->Open(asio::ip::make_address("10.9.9.9"));
  other->Update(16 * kPayload);
  SendCall(kXid);
  SendCall(kXid + 1);
  rig_.world.RunFor(std::chrono::seconds(1));
  rig_.network.LoseAll();
  ASSERT_TRUE(rig_.world.RunUntil([&] { return lost_ && rig_.server->connections() == 0; }));
  EXPECT_EQ(memory_->shared_octets(), 16 * kPayload);
  other->Update(0);
  EXPECT_EQ(memory_->shared_octets(), 0u);
}

// The small stream of the reply takes a buffer of 512 octets.
TEST_F(ResponderMemoryTest, CountsAllMemoryBehindReplies) {
  Connect();
  ByteVector sink(kPayload);
  ChunkLists chunks;
  chunks.writes.AddChunk();
  chunks.writes.Add(Register(sink, rdma::Access::kRemoteWrite));
  size_t most = 0;
  Send(MessageOf(Procedure::kMsg, chunks, Stream({.xid = kXid, .results = {kPayload - 100}}), kXid));
  ASSERT_TRUE(rig_.world.RunUntil([&] {
    most = std::max(most, memory_->shared_octets());
    return received_.size() == 1;
  }));
  EXPECT_GE(most, kPayload + 512);
  EXPECT_LE(most, kPayload + 1024);
  rig_.world.RunFor(std::chrono::seconds(1));
  EXPECT_EQ(memory_->shared_octets(), 0u);
}

class MessageMemoryTest : public ResponderTest {
 protected:
  static constexpr PrivateData kLong{true, 20480, 20480};
  static constexpr size_t kBuffer = 32768;  // for 20480 octets

  MessageMemoryTest() {
    rig_.server_options.private_data = kLong;
    rig_.server_options.messages = messages_;
  }
  uint32_t Announced() const { return PrivateData::Parse(endpoint_->info().private_data).receive_size; }

  const size_t receives_ = rig_.server_options.responder.first_receives();
  const std::shared_ptr<rpc::MemoryBudget> messages_ =
      std::make_shared<rpc::MemoryBudget>(rpc::MemoryBudget::Limits{.octets = receives_ * kBuffer, .own_octets = 0});
};

TEST_F(MessageMemoryTest, AConnectionReservesTheMemoryOfLongMessagesWhileItLasts) {
  Connect(kLong);
  EXPECT_EQ(Announced(), 20480u);
  EXPECT_EQ(messages_->shared_octets(), receives_ * kBuffer);
  ExpectGoodHealth();
  endpoint_.reset();
  ASSERT_TRUE(rig_.world.RunUntil([&] { return rig_.server->connections() == 0; }));
  EXPECT_EQ(messages_->shared_octets(), 0u);
}

TEST_F(MessageMemoryTest, WithoutMemoryForLongMessagesAConnectionHasUsualOnes) {
  Connect(kLong);
  std::unique_ptr<rdma::Endpoint> first = std::move(endpoint_);
  Reconnect(kLong);
  EXPECT_EQ(Announced(), 4096u);
  ExpectGoodHealth();
  first.reset();
  ASSERT_TRUE(rig_.world.RunUntil([&] { return rig_.server->connections() == 1; }));
  endpoint_.reset();
  Reconnect(kLong);
  EXPECT_EQ(Announced(), 20480u);
}

TEST_F(MessageMemoryTest, APeerThatSendsUsualMessagesReservesNothing) {
  Connect({true, 4096, 20480});
  EXPECT_EQ(Announced(), 4096u);
  EXPECT_EQ(messages_->shared_octets(), 0u);
}

// Uses a provider that cannot send from files.
class LoadingResponderTest : public ResponderMemoryTest {
 protected:
  static rdma::sim::Options WithoutFiles() {
    rdma::sim::Options options;
    options.limits.file_data = false;
    return options;
  }
  LoadingResponderTest() : ResponderMemoryTest(size_t{1} << 30, WithoutFiles()) {}
};

TEST_F(LoadingResponderTest, LoadsNoMoreFileDataThanThePeerReceives) {
  constexpr size_t kSize = 1 << 20;
  auto file = std::make_shared<FileDescriptor>(::memfd_create("test", 0));
  ASSERT_EQ(::ftruncate(file->get(), kSize), 0);
  rig_.handler.set_file(file, kSize);
  rig_.handler.set_delay(std::chrono::milliseconds(1));  // execute all calls before the first reply is queued
  rig_.server_options.responder.max_queued_octets = 2 * kSize;
  Connect({false, 4096, 4096});
  ByteVector sink(kSize);
  ChunkLists chunks;
  chunks.writes.AddChunk();
  chunks.writes.Add(Register(sink, rdma::Access::kRemoteWrite));
  for (uint32_t i = 0; i < 16; ++i) Send(MessageOf(Procedure::kMsg, chunks, Stream({.xid = kXid + i}), kXid + i));
  size_t most = 0;
  ASSERT_TRUE(rig_.world.RunUntil([&] {
    most = std::max(most, memory_->shared_octets());
    return received_.size() == 16;
  }));
  EXPECT_LE(most, 4 * kSize);
}

}  // namespace
}  // namespace penstock::rpcrdma
