// The fixture for tests of a complete requester. The test plays the server with a bare endpoint.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/address.h"
#include "rpcrdma/chunks.h"
#include "rpcrdma/connection.h"
#include "rpcrdma/header.h"
#include "rpcrdma/private_data.h"
#include "rpcrdma/test_messages.h"
#include "rpcrdma/test_rig.h"

namespace penstock::rpcrdma {

// Connects the client of a Rig to a bare endpoint, which the test uses as the server.
class RequesterTest : public testing::Test {
 protected:
  void Connect(PrivateData data = {true, 4096, 4096}) {
    SetupResult<std::unique_ptr<rdma::Listener>> listener =
        rig_.server_provider->Listen({asio::ip::address_v4::any(), 20049});
    ASSERT_TRUE(listener);
    rig_.address = (*listener)->local();
    Spawn(AcceptTask(**listener, data));
    ASSERT_TRUE(rig_.Connect());
    ASSERT_TRUE(rig_.world.RunUntil([&] { return endpoint_ != nullptr; }));
    endpoint_->Start([this] { Drain(); });
  }
  void TearDown() override {
    calls_.clear();
    rig_.client.reset();
    rig_.world.RunFor(std::chrono::seconds(1));
    endpoint_.reset();
    rig_.Finish();
  }

  // Starts a call. Returns its header as the endpoint receives it.
  Header Begin(const TestCall& call, CallResult& result, std::optional<rpc::ReplyShape> shape = {}) {
    calls_.clear();
    Spawn(
        Store(rig_.client->Call(EncodeCall(rig_.client_provider->buffers(), call), shape ? *shape : rig_.ShapeOf(call)),
              result));
    EXPECT_TRUE(rig_.world.RunUntil([&] { return !calls_.empty(); }));
    Header header;
    EXPECT_TRUE(header.Parse(*FixedHeader::Parse(calls_[0]), calls_[0], {}));
    return header;
  }
  void Send(ConstBytes message, std::optional<rdma::Stag> invalidate = {}) {
    endpoint_->PostSend({.context = 0,
                         .gather = {Data(Owned(rig_.server_provider->buffers(), message))},
                         .solicited = false,
                         .invalidate = invalidate});
    rig_.world.RunFor(std::chrono::milliseconds(10));
  }
  void Write(const Segment& to, ConstBytes octets) {
    endpoint_->PostWrite({.context = 0,
                          .gather = {Data(Owned(rig_.server_provider->buffers(), octets))},
                          .remote = {to.stag, static_cast<uint32_t>(octets.size()), to.offset}});
  }

  Rig rig_;
  std::unique_ptr<rdma::Endpoint> endpoint_;
  std::vector<ByteVector> calls_;  // the messages received, in order

 private:
  Task<void> AcceptTask(rdma::Listener& listener, PrivateData data) {
    std::unique_ptr<rdma::ConnectionRequest> request = co_await listener.Next();
    rdma::ConnectOptions options;
    options.private_data = data.Serialize();
    options.receives = Connection::MakeReceives(4096, 64);
    rdma::ConnectResult result = co_await request->Accept(std::move(options));
    endpoint_ = *std::move(result);
  }
  void Drain() {
    TakeMessages(*endpoint_,
                 [this](const rdma::Completion&, ByteVector octets) { calls_.push_back(std::move(octets)); });
  }
};

}  // namespace penstock::rpcrdma
