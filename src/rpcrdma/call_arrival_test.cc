// Tests of what the responder shows and lists of calls that have arrived, but whose chunks are still to be read.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <vector>

#include "rpc/call_order.h"
#include "rpcrdma/responder_test_fixture.h"

namespace penstock::rpcrdma {
namespace {

using Previews = std::vector<TestHandler::Preview>;

class CallArrivalTest : public ResponderTest {
 protected:
  CallArrivalTest() {
    rig_.handler.set_on_call([this](rpc::Xid xid, const rpc::Peer& peer) {
      if (binds_) peer.back_channel->set_bound(true);
      listed_ = peer.order->MayJudge(xid);
    });
  }
  // The first call binds the connection to a session.
  void ConnectAndBind() {
    Connect();
    binds_ = true;
    ExpectGoodHealth();
    binds_ = false;
  }
  // Sends a call with two payloads in Read chunks.
  void SendWithPayloads() {
    const TestCall call{.xid = kXid, .arguments = {96, 40}};
    for (size_t n = 0; n < 2; ++n) memory_[n] = ArgumentOctets(kXid, n, call.arguments[n]);
    ChunkLists chunks;
    chunks.reads.push_back({28, Register(memory_[0], rdma::Access::kRemoteRead)});
    chunks.reads.push_back({32 + 96, Register(memory_[1], rdma::Access::kRemoteRead)});
    Send(MessageOf(Procedure::kMsg, chunks, Stream(call), kXid));
  }

  ByteVector memory_[2];
  bool binds_ = false;
  bool listed_ = false;  // the last call was listed in the order of its connection, and not judged
};

TEST_F(CallArrivalTest, ShowsACallOfABoundConnectionBeforeItsChunksAreRead) {
  ConnectAndBind();
  SendWithPayloads();
  ASSERT_TRUE(rig_.world.RunUntil([&] { return rig_.handler.calls() == 2; }));
  EXPECT_EQ(rig_.handler.previews(), (Previews{{.xid = kXid, .payloads = {96, 40}, .calls_before = 1}}));
  EXPECT_EQ(rig_.handler.faults(), 0u);
  rig_.world.RunFor(std::chrono::seconds(1));
}

TEST_F(CallArrivalTest, ShowsACallWhoseChunksAreNeverRead) {
  rig_.network.faults().leave_reads = true;
  ConnectAndBind();
  SendWithPayloads();
  rig_.world.RunFor(std::chrono::seconds(1));
  EXPECT_EQ(rig_.handler.previews().size(), 1u);
  EXPECT_EQ(rig_.handler.calls(), 1u);
}

TEST_F(CallArrivalTest, ShowsNoCallOfAnotherConnection) {
  Connect();
  ExpectGoodHealth();
  SendWithPayloads();
  ASSERT_TRUE(rig_.world.RunUntil([&] { return rig_.handler.calls() == 2; }));
  EXPECT_EQ(rig_.handler.previews(), Previews());
  EXPECT_TRUE(listed_) << "its execution can be overtaken";
  rig_.world.RunFor(std::chrono::seconds(1));
}

TEST_F(CallArrivalTest, ShowsNoCallWhoseStreamIsStillToBeRead) {
  ConnectAndBind();
  memory_[0] = Stream({.xid = kXid, .filler = 5000});
  ChunkLists chunks;
  chunks.reads.push_back({0, Register(memory_[0], rdma::Access::kRemoteRead)});
  Send(MessageOf(Procedure::kNomsg, chunks, {}, kXid));
  ASSERT_TRUE(rig_.world.RunUntil([&] { return rig_.handler.calls() == 2; }));
  EXPECT_EQ(rig_.handler.previews(), Previews());
  EXPECT_TRUE(listed_);
  rig_.world.RunFor(std::chrono::seconds(1));
}

TEST_F(CallArrivalTest, ShowsNoCallWhoseHeaderAndStreamHaveDifferentXids) {
  rig_.network.faults().leave_reads = true;
  ConnectAndBind();
  memory_[0] = ArgumentOctets(kXid, 0, 96);
  ChunkLists chunks;
  chunks.reads.push_back({28, Register(memory_[0], rdma::Access::kRemoteRead)});
  Send(MessageOf(Procedure::kMsg, chunks, Stream({.xid = kXid + 1, .arguments = {96}}), kXid));
  rig_.world.RunFor(std::chrono::seconds(1));
  EXPECT_EQ(rig_.handler.previews(), Previews());
}

TEST_F(CallArrivalTest, SolicitsAnEventForTheRepliesOfABoundConnection) {
  Connect();
  ExpectGoodHealth();
  EXPECT_FALSE(solicited_);
  binds_ = true;
  ExpectGoodHealth();
  EXPECT_TRUE(solicited_);
}

TEST_F(CallArrivalTest, ListsEachCallOfABoundConnection) {
  ConnectAndBind();
  EXPECT_FALSE(listed_) << "the call that binds it is not listed";
  ExpectGoodHealth();
  EXPECT_TRUE(listed_);
}

}  // namespace
}  // namespace penstock::rpcrdma
