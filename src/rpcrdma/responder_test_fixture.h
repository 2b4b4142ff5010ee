// The fixture for tests of a complete responder. The test plays the client with a bare endpoint.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "rpcrdma/chunks.h"
#include "rpcrdma/connection.h"
#include "rpcrdma/header.h"
#include "rpcrdma/private_data.h"
#include "rpcrdma/test_messages.h"
#include "rpcrdma/test_rig.h"

namespace penstock::rpcrdma {

// Connects a bare endpoint, which the test uses as the client, to the server of a Rig.
class ResponderTest : public testing::Test {
 protected:
  explicit ResponderTest(rdma::sim::Options options = {}) : rig_(1, options) {}
  void Connect(PrivateData data = {true, 4096, 4096}) {
    rig_.StartServer();
    Reconnect(data);
  }
  void Reconnect(PrivateData data = {true, 4096, 4096}) {
    rdma::ConnectOptions options;
    options.private_data = data.Serialize();
    options.receives = Connection::MakeReceives(4096, 64);
    Spawn(ConnectTask(std::move(options)));
    ASSERT_TRUE(rig_.world.RunUntil([&] { return endpoint_ != nullptr; }));
    endpoint_->Start([this] { Drain(); });
  }
  void TearDown() override {
    regions_.clear();
    received_.clear();
    endpoint_.reset();
    rig_.Finish();
  }

  void Send(ConstBytes message) {
    endpoint_->PostSend({.context = 0,
                         .gather = {Data(Owned(rig_.client_provider->buffers(), message))},
                         .solicited = false,
                         .invalidate = {}});
  }
  // Sends `message`. Returns the messages that arrive within a second.
  std::vector<ByteVector> Answers(ConstBytes message) {
    received_.clear();
    Send(message);
    rig_.world.RunFor(std::chrono::seconds(1));
    return std::move(received_);
  }
  Segment Register(Bytes memory, rdma::Access access) {
    regions_.push_back(endpoint_->Register(memory, access));
    return regions_.back()->Segment(0, memory.size());
  }

  // The stream of a call to TestHandler, without payloads.
  ByteVector Stream(const TestCall& call) {
    rpc::Message message = EncodeCall(rig_.client_provider->buffers(), call);
    return {message.stream.bytes().begin(), message.stream.bytes().end()};
  }
  // Sends `count` calls. Each asks for one payload of the size of `sink`, to be written to `sink` by RDMA Write.
  void SendCallsForPayloads(uint32_t count, ByteVector& sink) {
    ChunkLists chunks;
    chunks.writes.AddChunk();
    chunks.writes.Add(Register(sink, rdma::Access::kRemoteWrite));
    for (uint32_t i = 0; i < count; ++i) {
      Send(MessageOf(Procedure::kMsg, chunks, Stream({.xid = kXid + i, .results = {sink.size()}}), kXid + i));
    }
  }

  void ExpectChunkError(ConstBytes message) { ExpectAnswer(message, Words({kXid, 1, 10, kError, 2})); }
  void ExpectAnswer(ConstBytes message, const ByteVector& answer) {
    EXPECT_EQ(Answers(message), std::vector<ByteVector>{answer});
    EXPECT_FALSE(lost_);
  }
  void ExpectSilence(ConstBytes message) {
    EXPECT_EQ(Answers(message), std::vector<ByteVector>());
    EXPECT_FALSE(lost_);
  }
  // Checks that the server still replies to a plain call.
  void ExpectGoodHealth() {
    std::vector<ByteVector> answers = Answers(MessageOf(Procedure::kMsg, {}, Stream({.xid = 0x77}), 0x77));
    ASSERT_EQ(answers.size(), 1u);
    EXPECT_EQ(answers[0], Words({0x77, 1, 10, kMsg, 0, 0, 0, 0x77, 1, 0, 0}));
  }

  Rig rig_;
  std::unique_ptr<rdma::Endpoint> endpoint_;
  std::vector<std::unique_ptr<rdma::MemoryRegion>> regions_;
  std::vector<ByteVector> received_;
  // The properties of the last Send that arrived.
  std::optional<rdma::Stag> invalidated_;
  bool solicited_ = false;
  bool lost_ = false;

 private:
  Task<void> ConnectTask(rdma::ConnectOptions options) {
    rdma::ConnectResult result = co_await rig_.client_provider->Connect(rig_.address, std::move(options));
    endpoint_ = *std::move(result);
  }
  void Drain() {
    const bool lost = TakeMessages(*endpoint_, [this](const rdma::Completion& completion, ByteVector octets) {
      received_.push_back(std::move(octets));
      invalidated_ = completion.invalidated;
      solicited_ = completion.solicited;
    });
    if (lost) lost_ = true;
  }
};

}  // namespace penstock::rpcrdma
