// A provider whose host is a script: each test decides what the host tells, the mistakes included.
#include "library/provider/host_provider.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/loop.h"
#include "base/test_log.h"
#include "base/test_loop.h"
#include "library/provider/adapted_provider.h"
#include "library/provider_object.h"
#include "penstock/provider.h"
#include "penstock/server.h"

namespace penstock::library {
namespace {

using rdma::ConnectError;
using rdma::ConnectResult;
using rdma::DisconnectReason;
using rdma::Operation;
using rdma::Status;
using testing::ElementsAre;
using testing::HasSubstr;

// What the library has asked of an endpoint of the host.
struct ScriptedEndpoint {
  uint64_t connection = 0;
  std::vector<penstock_rdma_receive> receives;
  std::vector<uint64_t> requests;  // Sends, Writes, Reads and invalidations
  std::vector<uint32_t> exposed;
  penstock_rdma_depths depths{};
  bool accepted = false, rejected = false, disconnected = false, closed = false;
};

// The host. It keeps its endpoints after their end, so that a test can look at them.
struct Script {
  std::vector<std::unique_ptr<ScriptedEndpoint>> endpoints;
  uint64_t listener = 0;
  bool listens = false;
  uint32_t next_stag = 1;
  std::vector<std::string> memory;  // "allocate", "release"
  // What the functions do.
  int connect_result = 0, listen_result = 0, send_result = 0;
  bool gives_no_endpoint = false;
  std::string actual_address = "127.0.0.1:4711";
  std::function<void(ScriptedEndpoint&)> on_connect{};
  std::function<void()> on_send{};

  ScriptedEndpoint& last() { return *endpoints.back(); }
};

Script& ScriptOf(void* self) { return *static_cast<Script*>(self); }
ScriptedEndpoint& EndpointOf(void* endpoint) { return *static_cast<ScriptedEndpoint*>(endpoint); }

// The functions of an endpoint have no `self`.
Script* script_of_test = nullptr;

void Take(ScriptedEndpoint& endpoint, const penstock_rdma_terms& terms) {
  endpoint.receives.assign(terms.receives, terms.receives + terms.receive_count);
  endpoint.depths = terms.depths;
}

penstock_provider_ops Functions() {
  penstock_provider_ops ops = PENSTOCK_PROVIDER_OPS_INIT;
  ops.connect = [](void* self, uint64_t connection, const char*, const penstock_rdma_terms* terms, void** endpoint) {
    Script& script = ScriptOf(self);
    if (script.connect_result != 0) return script.connect_result;
    auto made = std::make_unique<ScriptedEndpoint>();
    made->connection = connection;
    Take(*made, *terms);
    if (!script.gives_no_endpoint) *endpoint = made.get();
    script.endpoints.push_back(std::move(made));
    if (script.on_connect) script.on_connect(script.last());
    return 0;
  };
  ops.listen = [](void* self, uint64_t listener, const char*, char* actual, size_t size, void** pointer) {
    Script& script = ScriptOf(self);
    if (script.listen_result != 0) return script.listen_result;
    script.listener = listener;
    script.listens = true;
    std::strncpy(actual, script.actual_address.c_str(), size);
    *pointer = &script;
    return 0;
  };
  ops.stop_listening = [](void* pointer) { ScriptOf(pointer).listens = false; };
  ops.accept = [](void* endpoint, const penstock_rdma_terms* terms) {
    Take(EndpointOf(endpoint), *terms);
    EndpointOf(endpoint).accepted = true;
    return 0;
  };
  ops.reject = [](void* endpoint, const void*, size_t) { EndpointOf(endpoint).rejected = true; };
  ops.post_receive = [](void* endpoint, const penstock_rdma_receive* receive) {
    EndpointOf(endpoint).receives.push_back(*receive);
    return 0;
  };
  ops.send = [](void* endpoint, uint64_t request, const penstock_rdma_piece*, size_t, const uint32_t*, int) {
    EndpointOf(endpoint).requests.push_back(request);
    if (script_of_test->on_send) script_of_test->on_send();
    return script_of_test->send_result;
  };
  ops.write = [](void* endpoint, uint64_t request, const penstock_rdma_piece*, size_t, const penstock_rdma_segment*) {
    EndpointOf(endpoint).requests.push_back(request);
    return 0;
  };
  ops.read = [](void* endpoint, uint64_t request, void*, const penstock_rdma_segment*) {
    EndpointOf(endpoint).requests.push_back(request);
    return 0;
  };
  ops.expose = [](void* endpoint, void*, size_t, penstock_rdma_access, uint32_t* stag, uint64_t* offset) {
    *stag = script_of_test->next_stag++;
    *offset = 0;
    EndpointOf(endpoint).exposed.push_back(*stag);
    return 0;
  };
  ops.invalidate = [](void* endpoint, uint64_t request, uint32_t) {
    EndpointOf(endpoint).requests.push_back(request);
    return 0;
  };
  ops.disconnect = [](void* endpoint) {
    EndpointOf(endpoint).disconnected = true;
    return 0;
  };
  ops.close = [](void* endpoint) {
    EXPECT_FALSE(EndpointOf(endpoint).closed) << "an endpoint is closed twice";
    EndpointOf(endpoint).closed = true;
  };
  return ops;
}

penstock_provider* NewProvider(Script& script, const penstock_provider_ops& ops = Functions()) {
  script_of_test = &script;
  penstock_provider_options options = PENSTOCK_PROVIDER_OPTIONS_INIT;
  options.flags = PENSTOCK_PROVIDER_REMOTE_INVALIDATION;
  penstock_provider* made = nullptr;
  EXPECT_EQ(penstock_provider_new(&ops, &script, &options, &made), 0) << penstock_error_text();
  return made;
}

class HostProviderTest : public testing::Test {
 protected:
  HostProviderTest() : work_(loop_->context().get_executor()) {}
  ~HostProviderTest() override {
    endpoint_.reset();
    provider_.reset();
    TurnFor(*loop_, std::chrono::milliseconds(1));
    work_.reset();
    loop_.reset();
    EXPECT_EQ(penstock_provider_free(host_), 0) << penstock_error_text();
    for (const auto& each : script_.endpoints) EXPECT_TRUE(each->closed || each->rejected || script_.gives_no_endpoint);
  }

  template <class Done>
  void RunUntil(const Done& done) {
    ASSERT_TRUE(TurnUntil(*loop_, done));
  }
  void Settle() { TurnFor(*loop_, std::chrono::milliseconds(2)); }

  // Begins to connect. The result comes in connected_.
  void BeginConnect(rdma::ConnectOptions options = {}) {
    connected_.reset();
    const auto connect = [](HostProviderTest& test, rdma::ConnectOptions with) -> Task<void> {
      rdma::Address to(asio::ip::address_v4::loopback(), 4711);
      ConnectResult result = co_await test.provider_->Connect(to, std::move(with));
      test.connected_.emplace(std::move(result));
    };
    Spawn(connect(*this, std::move(options)));
  }
  static penstock_rdma_peer Peer() {
    penstock_rdma_peer peer = PENSTOCK_RDMA_PEER_INIT;
    peer.local = "127.0.0.1:1000";
    peer.peer = "127.0.0.1:4711";
    return peer;
  }
  // Connects endpoint_ to the script, with two receives of 512 octets, whose contexts are 1 and 2.
  void Connect() {
    rdma::ConnectOptions options;
    options.ord = 2;
    for (const rdma::Context context : {1, 2}) {
      options.receives.push_back({context, 512});
    }
    BeginConnect(std::move(options));
    const penstock_rdma_peer peer = Peer();
    ASSERT_EQ(penstock_provider_connected(host_, script_.last().connection, &peer), 0);
    RunUntil([&] { return connected_.has_value(); });
    ASSERT_TRUE(*connected_) << connected_->error().detail;
    endpoint_ = **std::move(connected_);
    endpoint_->Start([this] {
      std::array<rdma::Completion, 16> batch;
      size_t count = 0;
      do {
        count = endpoint_->Poll(batch);
        for (size_t i = 0; i < count; ++i) completions_.push_back(std::move(batch[i]));
      } while (count == batch.size());
    });
  }
  void PostSend(rdma::Context context) { endpoint_->PostSend({.context = context, .gather = {}, .invalidate = {}}); }
  // Waits for the end of the connection, and checks that the log blames the host.
  void ExpectFault(const std::string& why) {
    RunUntil([&] { return !completions_.empty() && completions_.back().operation == Operation::kDisconnected; });
    EXPECT_EQ(completions_.back().reason, DisconnectReason::kFault);
    EXPECT_THAT(completions_.back().detail, HasSubstr(why));
    EXPECT_THAT(log_.text(), HasSubstr(why));
    EXPECT_TRUE(script_.last().closed);
    EXPECT_EQ(penstock_provider_completed(host_, script_.last().connection, 4), -ENOENT) << "the number is unknown";
  }
  std::vector<rdma::Context> Successes() const {
    std::vector<rdma::Context> contexts;
    for (const rdma::Completion& each : completions_) {
      const bool is_request = each.operation != Operation::kDisconnected;
      if (is_request && each.status == Status::kSuccess) contexts.push_back(each.context);
    }
    return contexts;
  }

  CapturedLog log_;
  Script script_;
  penstock_provider* host_ = NewProvider(script_);
  std::unique_ptr<Loop> loop_ = std::make_unique<Loop>();
  asio::executor_work_guard<asio::io_context::executor_type> work_;
  std::unique_ptr<AdaptedProvider> provider_ = std::make_unique<AdaptedProvider>(*loop_, host_->host);
  std::optional<ConnectResult> connected_;
  std::unique_ptr<rdma::Endpoint> endpoint_;
  std::vector<rdma::Completion> completions_;
};

// ---- mistakes

TEST_F(HostProviderTest, ARequestThatCompletesTwiceEndsTheConnection) {
  Connect();
  PostSend(10);
  const ScriptedEndpoint& endpoint = script_.last();
  EXPECT_EQ(penstock_provider_completed(host_, endpoint.connection, endpoint.requests[0]), 0);
  EXPECT_EQ(penstock_provider_completed(host_, endpoint.connection, endpoint.requests[0]), 0);
  ExpectFault("tells of a request that is not posted");
  EXPECT_THAT(Successes(), ElementsAre(10));
}

TEST_F(HostProviderTest, AMessageThatIsReceivedTwiceEndsTheConnection) {
  Connect();
  const ScriptedEndpoint& endpoint = script_.last();
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(penstock_provider_received(host_, endpoint.connection, endpoint.receives[0].request, 100, nullptr, 0), 0);
  }
  ExpectFault("tells of a receive that is not posted");
  EXPECT_THAT(Successes(), ElementsAre(1));
}

TEST_F(HostProviderTest, ALengthBeyondTheBufferEndsTheConnection) {
  Connect();
  const ScriptedEndpoint& endpoint = script_.last();
  const penstock_rdma_receive& receive = endpoint.receives[0];
  for (const size_t length : {receive.size + 1, SIZE_MAX}) {
    EXPECT_EQ(penstock_provider_received(host_, endpoint.connection, receive.request, length, nullptr, 0), 0);
  }
  ExpectFault("tells a length beyond the end of the buffer");
  EXPECT_THAT(Successes(), ElementsAre());
  ASSERT_EQ(completions_.size(), 3u) << "both receives return their buffers";
  EXPECT_TRUE(completions_[0].buffer && completions_[1].buffer);
}

TEST_F(HostProviderTest, UnknownRequestsEndTheConnection) {
  for (const uint64_t request : {uint64_t{0}, uint64_t{1}, uint64_t{2}, uint64_t{3}, uint64_t{4}, UINT64_MAX}) {
    completions_.clear();
    Connect();
    EXPECT_EQ(penstock_provider_completed(host_, script_.last().connection, request), 0);
    ExpectFault("penstock_provider_completed() tells of a request that is not posted");
    endpoint_.reset();
  }
}

TEST_F(HostProviderTest, AReceiveThatIsToldAsAnotherRequestEndsTheConnection) {
  Connect();
  EXPECT_EQ(penstock_provider_completed(host_, script_.last().connection, script_.last().receives[0].request), 0);
  ExpectFault("tells of a request that is not posted");
}

TEST_F(HostProviderTest, AnUnknownInvalidatedStagEndsTheConnection) {
  Connect();
  const uint32_t stag = 77;
  const ScriptedEndpoint& endpoint = script_.last();
  EXPECT_EQ(penstock_provider_received(host_, endpoint.connection, endpoint.receives[0].request, 1, &stag, 0), 0);
  ExpectFault("tells an unknown stag");
  EXPECT_THAT(Successes(), ElementsAre());
}

TEST_F(HostProviderTest, AStagThatIsGivenTwiceEndsTheConnection) {
  Connect();
  std::array<std::byte, 8> memory{};
  const auto first = endpoint_->Register(memory, rdma::Access::kRemoteRead);
  EXPECT_TRUE(first->valid());
  --script_.next_stag;
  const auto second = endpoint_->Register(memory, rdma::Access::kRemoteRead);
  EXPECT_FALSE(second->valid());
  EXPECT_FALSE(first->valid());
  ExpectFault("has given the stag of other memory");
}

TEST_F(HostProviderTest, AConnectionThatIsConnectedTwiceEnds) {
  Connect();
  const penstock_rdma_peer peer = Peer();
  EXPECT_EQ(penstock_provider_connected(host_, script_.last().connection, &peer), 0);
  ExpectFault("tells of a connection that is not being made");
}

TEST_F(HostProviderTest, AMessageBeforeTheConnectionIsOpenEndsIt) {
  BeginConnect();
  EXPECT_EQ(penstock_provider_received(host_, script_.last().connection, 4, 1, nullptr, 0), 0);
  RunUntil([&] { return connected_.has_value(); });
  ASSERT_FALSE(*connected_);
  EXPECT_EQ(connected_->error().kind, ConnectError::Kind::kProtocol);
  EXPECT_TRUE(script_.last().closed);
}

TEST_F(HostProviderTest, AFunctionThatFailsEndsTheConnection) {
  for (const int result : {-EIO, 5, -100'000}) {
    completions_.clear();
    Connect();
    script_.send_result = result;
    PostSend(10);
    RunUntil([&] { return completions_.size() == 4; });
    EXPECT_EQ(completions_[2].context, 10u);
    EXPECT_EQ(completions_[2].status, Status::kLocalError);
    EXPECT_EQ(completions_[3].reason, DisconnectReason::kFault);
    EXPECT_TRUE(script_.last().closed);
    endpoint_.reset();
  }
  EXPECT_THAT(log_.text(), HasSubstr("send has returned 5, which is neither zero nor a negative errno"));
}

TEST_F(HostProviderTest, AFunctionThatThrowsEndsTheConnection) {
  Connect();
  script_.on_send = [] { throw std::runtime_error("out of cheese"); };
  PostSend(10);
  RunUntil([&] { return completions_.size() == 4; });
  EXPECT_EQ(completions_[2].status, Status::kLocalError);
  EXPECT_THAT(log_.text(), HasSubstr("send has thrown an exception: out of cheese"));
}

TEST_F(HostProviderTest, StatementsAboutEndedConnectionsAreErrors) {
  Connect();
  PostSend(10);
  const ScriptedEndpoint& endpoint = script_.last();
  endpoint_.reset();
  EXPECT_TRUE(endpoint.closed);
  const penstock_rdma_peer peer = Peer();
  EXPECT_EQ(penstock_provider_connected(host_, endpoint.connection, &peer), -ENOENT);
  EXPECT_EQ(penstock_provider_received(host_, endpoint.connection, endpoint.receives[0].request, 1, nullptr, 0),
            -ENOENT);
  EXPECT_EQ(penstock_provider_completed(host_, endpoint.connection, endpoint.requests[0]), -ENOENT);
  EXPECT_EQ(penstock_provider_ended(host_, endpoint.connection, nullptr), -ENOENT);
  EXPECT_EQ(penstock_provider_completed(host_, UINT64_MAX, 4), -ENOENT);
  Settle();
}

TEST_F(HostProviderTest, StatementsOnTheirWayToAnEndedConnectionAreDropped) {
  Connect();
  PostSend(10);
  const ScriptedEndpoint& endpoint = script_.last();
  EXPECT_EQ(penstock_provider_completed(host_, endpoint.connection, endpoint.requests[0]), 0);
  EXPECT_EQ(penstock_provider_ended(host_, endpoint.connection, nullptr), 0);
  EXPECT_EQ(penstock_provider_ended(host_, endpoint.connection, nullptr), 0);
  EXPECT_EQ(penstock_provider_completed(host_, endpoint.connection, endpoint.requests[0]), 0);
  RunUntil([&] { return completions_.size() == 4; });
  EXPECT_EQ(completions_.back().reason, DisconnectReason::kPeerReset);
  EXPECT_THAT(Successes(), ElementsAre(10));
  Settle();
  EXPECT_EQ(completions_.size(), 4u);
}

TEST_F(HostProviderTest, WrongArgumentsAreErrors) {
  BeginConnect();
  const uint64_t connection = script_.last().connection;
  penstock_rdma_peer peer = Peer();
  const auto tell = [&] { return penstock_provider_connected(host_, connection, &peer); };
  peer.peer = "somewhere";
  EXPECT_EQ(tell(), -EINVAL);
  peer.peer = nullptr;
  EXPECT_EQ(tell(), -EINVAL);
  peer = Peer();
  peer.private_size = 2000;
  EXPECT_EQ(tell(), -EINVAL);
  peer.private_size = 1;
  EXPECT_EQ(tell(), -EINVAL) << "there are no octets";
  peer = Peer();
  peer.size = 0;
  EXPECT_EQ(tell(), -EINVAL);
  penstock_rdma_end end = PENSTOCK_RDMA_END_INIT;
  const unsigned unknown = 99;
  std::memcpy(&end.reason, &unknown, sizeof unknown);
  EXPECT_EQ(penstock_provider_ended(host_, connection, &end), -EINVAL);
  EXPECT_EQ(penstock_provider_completed(nullptr, connection, 4), -EINVAL);
  Settle();
  EXPECT_FALSE(connected_) << "the connection is still being made";
  provider_.reset();
  EXPECT_TRUE(connected_);
}

// ---- connecting

TEST_F(HostProviderTest, ConnectReportsTheHostsErrno) {
  for (const auto& [result, kind] :
       {std::pair(-ECONNREFUSED, ConnectError::Kind::kRefused), std::pair(-ENETDOWN, ConnectError::Kind::kUnreachable),
        std::pair(7, ConnectError::Kind::kUnreachable)}) {
    script_.connect_result = result;
    BeginConnect();
    ASSERT_TRUE(connected_);
    ASSERT_FALSE(*connected_);
    EXPECT_EQ(connected_->error().kind, kind);
    EXPECT_FALSE(connected_->error().detail.empty());
  }
}

TEST_F(HostProviderTest, ConnectReportsTheReasonOfTheHost) {
  BeginConnect();
  penstock_rdma_end end = PENSTOCK_RDMA_END_INIT;
  end.reason = PENSTOCK_RDMA_REJECTED;
  end.detail = "not\ntoday";
  end.private_data = "xyz";
  end.private_size = 3;
  EXPECT_EQ(penstock_provider_ended(host_, script_.last().connection, &end), 0);
  RunUntil([&] { return connected_.has_value(); });
  ASSERT_FALSE(*connected_);
  EXPECT_EQ(connected_->error().kind, ConnectError::Kind::kRejected);
  EXPECT_EQ(connected_->error().detail, "not today") << "one line";
  EXPECT_EQ(connected_->error().private_data.size(), 3u);
  EXPECT_TRUE(script_.last().closed);
}

TEST_F(HostProviderTest, AHostThatDoesNotAnswerIsGivenUp) {
  rdma::ConnectOptions options;
  options.time_limit = std::chrono::milliseconds(5);
  BeginConnect(std::move(options));
  RunUntil([&] { return connected_.has_value(); });
  ASSERT_FALSE(*connected_);
  EXPECT_EQ(connected_->error().kind, ConnectError::Kind::kTimedOut);
  EXPECT_TRUE(script_.last().closed);
}

TEST_F(HostProviderTest, AHostWithoutAnEndpointOrAPeerIsRefused) {
  BeginConnect();
  EXPECT_EQ(penstock_provider_connected(host_, script_.last().connection, nullptr), 0);
  RunUntil([&] { return connected_.has_value(); });
  EXPECT_FALSE(*connected_);
  script_.gives_no_endpoint = true;
  BeginConnect();
  ASSERT_TRUE(connected_);
  EXPECT_FALSE(*connected_);
}

TEST_F(HostProviderTest, TheHostMayTellFromInsideOfItsFunctions) {
  script_.on_connect = [this](ScriptedEndpoint& endpoint) {
    const penstock_rdma_peer peer = Peer();
    EXPECT_EQ(penstock_provider_connected(host_, endpoint.connection, &peer), 0);
  };
  script_.on_send = [this] {
    EXPECT_EQ(penstock_provider_completed(host_, script_.last().connection, script_.last().requests.back()), 0);
  };
  BeginConnect();
  RunUntil([&] { return connected_.has_value(); });
  ASSERT_TRUE(*connected_);
  endpoint_ = **std::move(connected_);
  size_t calls = 0;
  endpoint_->Start([&] { ++calls; });
  PostSend(1);
  EXPECT_EQ(calls, 0u) << "never from inside of a call";
  RunUntil([&] { return calls == 1; });
}

// ---- requests

TEST_F(HostProviderTest, SendsCompleteInTheOrderOfPosting) {
  Connect();
  for (const rdma::Context context : {10, 11, 12}) PostSend(context);
  const std::vector<uint64_t> requests = script_.last().requests;
  ASSERT_EQ(requests.size(), 3u);
  EXPECT_EQ(penstock_provider_completed(host_, script_.last().connection, requests[2]), 0);
  EXPECT_EQ(penstock_provider_completed(host_, script_.last().connection, requests[1]), 0);
  Settle();
  EXPECT_THAT(Successes(), ElementsAre());
  EXPECT_EQ(penstock_provider_completed(host_, script_.last().connection, requests[0]), 0);
  RunUntil([&] { return completions_.size() == 3; });
  EXPECT_THAT(Successes(), ElementsAre(10, 11, 12));
}

TEST_F(HostProviderTest, TheHostNeverHasMoreReadsThanTheDepthAllows) {
  Connect();  // with an ORD of 2
  std::array<std::byte, 8> memory{};
  for (const rdma::Context context : {10, 11, 12, 13}) {
    endpoint_->PostRead(
        {.context = context, .local = memory, .owner = {}, .remote = {.stag = {}, .length = memory.size()}});
  }
  const ScriptedEndpoint& endpoint = script_.last();
  EXPECT_EQ(endpoint.requests.size(), 2u);
  EXPECT_EQ(penstock_provider_completed(host_, endpoint.connection, endpoint.requests[1]), 0);
  RunUntil([&] { return endpoint.requests.size() == 3; });
  EXPECT_THAT(Successes(), ElementsAre(11));
}

TEST_F(HostProviderTest, ARefusedRequestCompletesWithItsStatus) {
  Connect();
  PostSend(10);
  PostSend(11);
  penstock_rdma_end end = PENSTOCK_RDMA_END_INIT;
  end.reason = PENSTOCK_RDMA_TERMINATED;
  end.request = script_.last().requests[1];
  EXPECT_EQ(penstock_provider_ended(host_, script_.last().connection, &end), 0);
  RunUntil([&] { return completions_.size() == 5; });
  EXPECT_EQ(completions_[2].status, Status::kFlushed);
  EXPECT_EQ(completions_[3].status, Status::kRemoteAccess);
  EXPECT_EQ(completions_[4].reason, DisconnectReason::kPeerTerminated);
}

TEST_F(HostProviderTest, RequestsDoNotReachTheHostAfterDisconnect) {
  Connect();
  endpoint_->Disconnect();
  EXPECT_TRUE(script_.last().disconnected);
  PostSend(10);
  endpoint_->PostReceive({3, 512});
  std::array<std::byte, 8> memory{};
  EXPECT_FALSE(endpoint_->Register(memory, rdma::Access::kRemoteRead)->valid());
  EXPECT_THAT(script_.last().exposed, ElementsAre());
  EXPECT_THAT(script_.last().requests, ElementsAre());
  EXPECT_EQ(script_.last().receives.size(), 2u);
  penstock_rdma_end end = PENSTOCK_RDMA_END_INIT;
  end.reason = PENSTOCK_RDMA_CLOSED;
  EXPECT_EQ(penstock_provider_ended(host_, script_.last().connection, &end), 0);
  RunUntil([&] { return completions_.size() == 5; });
  EXPECT_EQ(completions_.back().reason, DisconnectReason::kLocal);
}

TEST_F(HostProviderTest, AHostThatDoesNotCloseAConnectionIsNotWaitedForLong) {
  ProviderProperties properties = host_->host->properties();
  properties.disconnect_limit = std::chrono::milliseconds(5);
  const auto impatient = std::make_shared<HostProvider>(Functions(), &script_, properties);
  AdaptedProvider provider(*loop_, impatient);
  std::optional<ConnectResult> connected;
  const auto connect = [](AdaptedProvider& by, std::optional<ConnectResult>& to) -> Task<void> {
    rdma::Address address(asio::ip::address_v4::loopback(), 4711);
    ConnectResult result = co_await by.Connect(address, {});
    to.emplace(std::move(result));
  };
  Spawn(connect(provider, connected));
  auto peer = std::make_unique<PeerFacts>();
  EXPECT_EQ(impatient->Tell({.connection = script_.last().connection, .what = Event::Connected{std::move(peer)}}), 0);
  RunUntil([&] { return connected.has_value(); });
  ASSERT_TRUE(*connected);
  const std::unique_ptr<rdma::Endpoint> endpoint = **std::move(connected);
  bool notified = false;
  endpoint->Start([&] { notified = true; });
  endpoint->Disconnect();
  RunUntil([&] { return notified; });
  EXPECT_TRUE(script_.last().closed);
}

TEST_F(HostProviderTest, ADroppedRegionIsInvalidated) {
  Connect();
  std::array<std::byte, 8> memory{};
  auto region = endpoint_->Register(memory, rdma::Access::kRemoteWrite);
  region.reset();
  const ScriptedEndpoint& endpoint = script_.last();
  ASSERT_EQ(endpoint.requests.size(), 1u);
  EXPECT_EQ(penstock_provider_completed(host_, endpoint.connection, endpoint.requests[0]), 0);
  Settle();
  EXPECT_TRUE(completions_.empty()) << "nobody waits for it";
  --script_.next_stag;
  region = endpoint_->Register(memory, rdma::Access::kRemoteWrite);
  EXPECT_TRUE(region->valid()) << "the stag is free for other memory";
}

// ---- listening

TEST_F(HostProviderTest, ListenChecksWhatTheHostGives) {
  const rdma::Address address(asio::ip::address_v4::loopback(), 0);
  script_.listen_result = -EADDRINUSE;
  const auto refused = provider_->Listen(address);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().number, EADDRINUSE);
  script_.listen_result = 0;
  for (const std::string& actual : {std::string(), std::string("127.0.0.1:0"), std::string(200, 'x')}) {
    script_.actual_address = actual;
    EXPECT_FALSE(provider_->Listen(address)) << actual;
    EXPECT_FALSE(script_.listens) << "the listener is freed";
  }
}

TEST_F(HostProviderTest, PeersThatNobodyAcceptsAreRejected) {
  const auto listener = provider_->Listen(rdma::Address(asio::ip::address_v4::loopback(), 0));
  ASSERT_TRUE(listener);
  const penstock_rdma_peer peer = Peer();
  const auto ask = [&] {
    script_.endpoints.push_back(std::make_unique<ScriptedEndpoint>());
    return penstock_provider_requested(host_, script_.listener, &script_.last(), &peer, &script_.last().connection);
  };
  ASSERT_EQ(ask(), 0);  // waits in the listener
  Settle();
  ASSERT_EQ(ask(), 0);  // is on its way to the loop
  (*listener)->Close();
  EXPECT_FALSE(script_.listens);
  Settle();
  EXPECT_TRUE(script_.endpoints[0]->rejected);
  EXPECT_TRUE(script_.endpoints[1]->rejected);
  EXPECT_EQ(ask(), -ENOENT);
  script_.endpoints.pop_back();
}

TEST_F(HostProviderTest, APeerOnItsWayToADestroyedProviderIsRejected) {
  auto listener = provider_->Listen(rdma::Address(asio::ip::address_v4::loopback(), 0));
  ASSERT_TRUE(listener);
  const penstock_rdma_peer peer = Peer();
  script_.endpoints.push_back(std::make_unique<ScriptedEndpoint>());
  ASSERT_EQ(penstock_provider_requested(host_, script_.listener, &script_.last(), &peer, &script_.last().connection),
            0);
  listener->reset();
  provider_.reset();
  EXPECT_TRUE(script_.last().rejected);
}

TEST_F(HostProviderTest, TooManyWaitingPeersAreRefused) {
  const auto listener = provider_->Listen(rdma::Address(asio::ip::address_v4::loopback(), 0));
  ASSERT_TRUE(listener);
  const penstock_rdma_peer peer = Peer();
  int result = 0;
  size_t asked = 0;
  for (; result == 0 && asked < 10'000; ++asked) {
    script_.endpoints.push_back(std::make_unique<ScriptedEndpoint>());
    result = penstock_provider_requested(host_, script_.listener, &script_.last(), &peer, &script_.last().connection);
  }
  EXPECT_EQ(result, -EAGAIN);
  EXPECT_GT(asked, 1000u);
  script_.endpoints.pop_back();
  Settle();
}

TEST_F(HostProviderTest, APeerThatGivesUpIsNotAccepted) {
  const auto listener = provider_->Listen(rdma::Address(asio::ip::address_v4::loopback(), 0));
  ASSERT_TRUE(listener);
  std::unique_ptr<rdma::ConnectionRequest> request;
  const auto next = [](rdma::Listener& from, std::unique_ptr<rdma::ConnectionRequest>& to) -> Task<void> {
    to = co_await from.Next();
  };
  Spawn(next(**listener, request));
  const penstock_rdma_peer peer = Peer();
  script_.endpoints.push_back(std::make_unique<ScriptedEndpoint>());
  ASSERT_EQ(penstock_provider_requested(host_, script_.listener, &script_.last(), &peer, &script_.last().connection),
            0);
  RunUntil([&] { return request != nullptr; });
  EXPECT_EQ(penstock_provider_ended(host_, script_.last().connection, nullptr), 0);
  Settle();
  EXPECT_TRUE(script_.last().closed);
  std::optional<ConnectResult> accepted;
  const auto accept = [](rdma::ConnectionRequest& of, std::optional<ConnectResult>& to) -> Task<void> {
    ConnectResult result = co_await of.Accept({});
    to.emplace(std::move(result));
  };
  Spawn(accept(*request, accepted));
  ASSERT_TRUE(accepted);
  EXPECT_FALSE(*accepted);
  EXPECT_FALSE(script_.last().accepted);
}

// ---- threads, memory, settings

TEST_F(HostProviderTest, AnyThreadMayTellAtAnyTime) {
  Connect();
  const uint64_t connection = script_.last().connection;
  std::jthread other([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      (void)penstock_provider_ended(host_, connection, nullptr);
      (void)penstock_provider_completed(host_, connection, 4);
    }
  });
  RunUntil([&] { return completions_.size() == 3; });
  endpoint_.reset();
  provider_.reset();
  Settle();
  other.request_stop();
}

TEST(HostProviderMemoryTest, BuffersAreMemoryOfTheHost) {
  Script script;
  penstock_provider_ops ops = Functions();
  ops.allocate = [](void* self, size_t size, size_t alignment) {
    ScriptOf(self).memory.emplace_back("allocate");
    return std::aligned_alloc(alignment, size);
  };
  ops.release = [](void* self, void* memory, size_t) {
    ScriptOf(self).memory.emplace_back("release");
    std::free(memory);
  };
  penstock_provider* const host = NewProvider(script, ops);
  BufferRef buffer;
  {
    Loop loop;
    AdaptedProvider provider(loop, host->host);
    buffer = provider.buffers().Allocate(4096);
  }
  EXPECT_THAT(script.memory, ElementsAre("allocate"));
  EXPECT_EQ(penstock_provider_free(host), -EBUSY) << "a buffer is in use";
  buffer.Reset();
  EXPECT_THAT(script.memory, ElementsAre("allocate", "release"));
  EXPECT_EQ(penstock_provider_free(host), 0);
}

TEST(HostProviderMemoryTest, WhatTheHostTellsCallsNoFunctionOfTheHost) {
  Script script;
  static thread_local bool tells = false;
  penstock_provider_ops ops = Functions();
  ops.allocate = [](void*, size_t size, size_t alignment) { return std::aligned_alloc(alignment, size); };
  ops.release = [](void*, void* memory, size_t) {
    EXPECT_FALSE(tells) << "the host may hold its locks";
    std::free(memory);
  };
  penstock_provider* const host = NewProvider(script, ops);
  std::atomic<uint64_t> connection = 0;
  {
    // More threads than processors: some of them stand still inside of the function while the provider ends.
    std::vector<std::jthread> tellers;
    for (int i = 0; i < 8; ++i) {
      tellers.emplace_back([&](const std::stop_token& stop) {
        while (!stop.stop_requested()) {
          tells = true;
          const int told = penstock_provider_completed(host, connection, 4);
          tells = false;
          if (told < 0) std::this_thread::yield();
        }
      });
    }
    for (int i = 0; i < 50; ++i) {
      Loop loop;
      AdaptedProvider provider(loop, host->host);
      provider.buffers().set_kept_octets(1 << 20);
      provider.buffers().Allocate(4096).Reset();
      const auto connect = [](AdaptedProvider& by) -> Task<void> {
        rdma::Address to(asio::ip::address_v4::loopback(), 4711);
        EXPECT_FALSE(co_await by.Connect(to, {}));
      };
      Spawn(connect(provider));
      connection = script.last().connection;
      std::this_thread::sleep_for(std::chrono::microseconds(500));
    }
  }
  EXPECT_EQ(penstock_provider_free(host), 0) << penstock_error_text();
}

TEST(HostProviderSettingsTest, NewRejectsWrongSettings) {
  Script script;
  const penstock_provider_ops all = Functions();
  penstock_provider* made = nullptr;
  penstock_provider_ops ops = all;
  ops.invalidate = nullptr;
  EXPECT_EQ(penstock_provider_new(&ops, &script, nullptr, &made), -EINVAL);
  ops = all;
  ops.allocate = [](void*, size_t, size_t) -> void* { return nullptr; };
  EXPECT_EQ(penstock_provider_new(&ops, &script, nullptr, &made), -EINVAL);
  ops = all;
  ops.size = 0;
  EXPECT_EQ(penstock_provider_new(&ops, &script, nullptr, &made), -EINVAL);
  for (const auto change : {+[](penstock_provider_options& options) { options.flags = 2; },
                            +[](penstock_provider_options& options) { options.max_message = 4095; },
                            +[](penstock_provider_options& options) { options.max_transfer = 1; },
                            +[](penstock_provider_options& options) { options.max_private_data = 55; },
                            +[](penstock_provider_options& options) { options.max_private_data = 1025; }}) {
    penstock_provider_options options = PENSTOCK_PROVIDER_OPTIONS_INIT;
    change(options);
    EXPECT_EQ(penstock_provider_new(&all, &script, &options, &made), -EINVAL) << penstock_error_text();
  }
  EXPECT_EQ(made, nullptr);
  EXPECT_EQ(penstock_provider_free(nullptr), 0);
}

TEST(HostProviderSettingsTest, RuntimesAndServersHoldTheProvider) {
  Script script;
  penstock_provider* const host = NewProvider(script);
  penstock_runtime_options options = PENSTOCK_RUNTIME_OPTIONS_INIT;
  options.provider = host;
  options.rdma = "iwarp";
  penstock_runtime* runtime = nullptr;
  EXPECT_EQ(penstock_runtime_new(&options, &runtime), -EINVAL) << "rdma and provider contradict each other";
  options.rdma = nullptr;
  ASSERT_EQ(penstock_runtime_new(&options, &runtime), 0) << penstock_error_text();
  EXPECT_EQ(penstock_provider_free(host), -EBUSY);

  penstock_mount* mount = nullptr;
  EXPECT_EQ(penstock_mount_open(runtime, "nfs://127.0.0.1/?proto=stepup&vers=4.1", nullptr, &mount, nullptr), -EINVAL);
  EXPECT_EQ(penstock_runtime_free(runtime), 0);

  penstock_server_options settings = PENSTOCK_SERVER_OPTIONS_INIT;
  settings.state_directory = "/nowhere";
  settings.provider = host;
  settings.rdma_device = "mlx5_0";
  penstock_server* server = nullptr;
  EXPECT_EQ(penstock_server_new(&settings, &server), -EINVAL);
  settings.rdma_device = nullptr;
  ASSERT_EQ(penstock_server_new(&settings, &server), 0) << penstock_error_text();
  EXPECT_EQ(penstock_provider_free(host), -EBUSY);
  penstock_server_free(server);
  EXPECT_EQ(penstock_provider_free(host), 0) << penstock_error_text();
}

}  // namespace
}  // namespace penstock::library
