// Tests of connections that step up: a server and a client take them over with limits that they have agreed on before.
// The octets of TCP and MPA have their tests in rdma/iwarp.
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <stop_token>

#include "base/released_socket.h"
#include "rpc/step_up.h"
#include "rpcrdma/test_rig.h"

namespace penstock::rpcrdma {
namespace {

// Makes connections of the simulated network in the place of TCP connections that step up.
class SteppingProvider final : public rdma::Provider {
 public:
  SteppingProvider(rdma::Provider& inner, rdma::Address address) : inner_(inner), address_(std::move(address)) {}

  std::string_view name() const override { return "stepping"; }
  BufferPool& buffers() override { return inner_.buffers(); }
  Task<rdma::ConnectResult> Connect(rdma::Address peer, rdma::ConnectOptions options) override {
    return inner_.Connect(std::move(peer), std::move(options));
  }
  SetupResult<std::unique_ptr<rdma::Listener>> Listen(rdma::Address local) override {
    return inner_.Listen(std::move(local));
  }
  Task<rdma::ConnectResult> StepUp(ReleasedSocket /*socket*/, rdma::StepUpRole role, std::vector<std::byte> last,
                                   rdma::ConnectOptions options) override {
    last_octets = std::move(last);
    receives = options.receives.size();
    receive_size = options.receives[0].size;
    depths = {options.ird, options.ord};
    time_limit = options.time_limit;
    if (role == rdma::StepUpRole::kInitiator) co_return co_await inner_.Connect(address_, std::move(options));
    auto listener = *inner_.Listen(address_);
    const std::stop_token stop = options.stop;
    const std::stop_callback on_stop(stop, [&listener] { listener->Close(); });
    const auto request = co_await listener->Next();
    if (!request) co_return std::unexpected(rdma::ConnectError{rdma::ConnectError::Kind::kCancelled, "", {}});
    co_return co_await request->Accept(std::move(options));
  }

  std::vector<std::byte> last_octets;
  size_t receives = 0, receive_size = 0;
  rdma::ReadDepths depths;
  Duration time_limit{};

 private:
  rdma::Provider& inner_;
  const rdma::Address address_;
};

class Lasting final : public rpc::LastingBackChannel {
 public:
  explicit Lasting(const rpc::Peer& peer) : LastingBackChannel(peer) {}
  Task<Result<rpc::Message, rpc::CallError>> Call(rpc::Message call, rpc::ReplyShape shape) override {
    return next->Call(std::move(call), std::move(shape));
  }
  void CloseConnection(std::string) override {}
  void Continue(std::shared_ptr<rpc::BackChannel> onward) override { next = std::move(onward); }
  void HandleLost() override { lost = true; }
  std::shared_ptr<rpc::BackChannel> next;
  bool lost = false;
};

class StepUpTest : public testing::Test {
 protected:
  StepUpTest() {
    rpc::Peer peer;
    peer.buffers = &rig_.server_provider->buffers();
    lasting_ = std::make_shared<Lasting>(peer);
    rig_.server_options.connections = connections_;
    rig_.StartServer();
  }

  ReleasedSocket Socket() { return {asio::ip::tcp::socket(context_), {}}; }
  void BeginAtServer(const rpc::ConnectionLimits& limits) {
    rpc::ConnectionTable::Admission admission =
        connections_->Admit(asio::ip::make_address("192.0.2.7"), rig_.world.Now());
    rig_.server->StepUp(server_side_, {.socket = Socket(),
                                       .last_octets = {std::byte{1}, std::byte{2}},
                                       .limits = limits,
                                       .number = kNumber,
                                       .place = std::move(admission.place),
                                       .memory = memory_.Open(asio::ip::make_address("192.0.2.7")),
                                       .back_channel = lasting_});
  }
  void StepUpClient(const rpc::ConnectionLimits& limits) {
    std::optional<Result<std::unique_ptr<Client>, rdma::ConnectError>> result;
    Spawn([](Task<Result<std::unique_ptr<Client>, rdma::ConnectError>> stepping, auto& out) -> Task<> {
      auto value = co_await std::move(stepping);
      out.emplace(std::move(value));
    }(rpcrdma::StepUp(client_side_, Socket(), limits, rig_.client_options, rig_.world), result));
    ASSERT_TRUE(rig_.world.RunUntil([&] { return result.has_value(); }));
    ASSERT_TRUE(*result);
    rig_.client = std::move(**result);
  }

  static constexpr uint64_t kNumber = 77'000;
  asio::io_context context_;
  rpc::MemoryBudget memory_;
  const std::shared_ptr<rpc::ConnectionTable> connections_ = std::make_shared<rpc::ConnectionTable>();
  Rig rig_;
  const rdma::Address address_{asio::ip::address_v4::any(), 2049};
  SteppingProvider server_side_{*rig_.server_provider, address_};
  SteppingProvider client_side_{*rig_.client_provider, address_};
  std::shared_ptr<Lasting> lasting_;
};

TEST_F(StepUpTest, BothSidesHaveTheLimitsThatTheyBring) {
  const rpc::ConnectionLimits limits{.max_request = 2000, .max_response = 3000, .credits = 7, .padding = 0, .reads = 3};
  BeginAtServer(limits);
  EXPECT_EQ(server_side_.last_octets.size(), 2u);
  EXPECT_EQ(server_side_.receives, ResponderCredits(7).receives_needed());
  EXPECT_GE(server_side_.receive_size, 2000u);
  EXPECT_EQ(server_side_.depths, (rdma::ReadDepths{.ird = 0, .ord = 3}));
  EXPECT_EQ(server_side_.time_limit, std::chrono::seconds(5));
  StepUpClient(limits);
  EXPECT_EQ(client_side_.depths, (rdma::ReadDepths{.ird = 3, .ord = 0}));
  EXPECT_EQ(rig_.client->thresholds().send, 2000u);
  EXPECT_EQ(rig_.client->thresholds().receive, 3000u);
  EXPECT_EQ(rig_.client->requester().credits().requested(), 7u);
  EXPECT_EQ(connections_->connections(), 1u) << "there is no second admission";
  for (uint32_t xid = 1; xid <= 20; ++xid) {
    EXPECT_TRUE(rig_.CallAndCheck({.xid = xid, .filler = 1800, .reply_filler = 2800}));
  }
  EXPECT_EQ(rig_.network.stats().reads, 0u);
  EXPECT_EQ(rig_.network.stats().writes, 0u);
  EXPECT_TRUE(rig_.CallAndCheck({.xid = 21, .arguments = {100'000}, .results = {50'000}}));
  EXPECT_EQ(rig_.client->requester().credits().granted(), 7u);
  rig_.Finish();
}

TEST_F(StepUpTest, TheProgramLearnsThatTheConnectionBeganOverTcp) {
  std::vector<bool> stepped_up;
  rig_.handler.set_on_call([&](rpc::Xid, const rpc::Peer& peer) { stepped_up.push_back(peer.stepped_up); });
  const rpc::ConnectionLimits limits{.max_request = 2000, .max_response = 3000, .credits = 1};
  BeginAtServer(limits);
  StepUpClient(limits);
  EXPECT_TRUE(rig_.CallAndCheck({.xid = 1}));
  rig_.Connect();
  EXPECT_TRUE(rig_.CallAndCheck({.xid = 2}));
  EXPECT_EQ(stepped_up, (std::vector{true, false}));
  rig_.Finish();
}

// draft-talpey-nfsv4-rdma-sess-01 §2.8
TEST_F(StepUpTest, CallsHaveThePadsOfTheLimits) {
  const rpc::ConnectionLimits limits{.max_request = 8192, .max_response = 4096, .credits = 2, .padding = 256};
  BeginAtServer(limits);
  StepUpClient(limits);
  EXPECT_TRUE(rig_.CallAndCheck({.xid = 1, .arguments = {5000}}));
  EXPECT_EQ(rig_.network.stats().reads, 0u);
  ASSERT_EQ(rig_.handler.argument_offsets().size(), 1u);
  EXPECT_EQ(rig_.handler.argument_offsets()[0] % 256, 0u);
  EXPECT_EQ(rig_.server->agreed_limits().most.padding, 0u) << "the server offers padding only if it is told to";
  rig_.Finish();
}

TEST_F(StepUpTest, TheBackChannelGoesOnUntilTheConnectionIsLost) {
  BeginAtServer({.max_request = 1024, .max_response = 1024, .credits = 4});
  EXPECT_FALSE(lasting_->next);
  StepUpClient({.max_request = 1024, .max_response = 1024, .credits = 4});
  ASSERT_TRUE(rig_.world.RunUntil([&] { return lasting_->next != nullptr; }));
  EXPECT_TRUE(rig_.CallAndCheck({.xid = 1}));
  EXPECT_EQ(rig_.handler.back_channel(), lasting_) << "calls name the channel that they named before the change";
  EXPECT_FALSE(lasting_->lost);
  rig_.client.reset();
  EXPECT_TRUE(rig_.world.RunUntil([&] { return lasting_->lost && connections_->connections() == 0; }));
  rig_.Finish();
}

TEST_F(StepUpTest, AServerThatStopsWaitsForNoClient) {
  BeginAtServer({.max_request = 1024, .max_response = 1024, .credits = 4});
  rig_.Finish();
  EXPECT_TRUE(lasting_->lost);
  EXPECT_EQ(connections_->connections(), 0u);
}

TEST_F(StepUpTest, AProviderThatCannotStepUpEndsTheConnection) {
  rpc::ConnectionTable::Admission admission =
      connections_->Admit(asio::ip::make_address("192.0.2.7"), rig_.world.Now());
  rig_.server->StepUp(*rig_.server_provider, {.socket = Socket(),
                                              .last_octets = {},
                                              .limits = {.max_request = 1024, .max_response = 1024, .credits = 1},
                                              .number = kNumber,
                                              .place = std::move(admission.place),
                                              .memory = memory_.Open(asio::ip::make_address("192.0.2.7")),
                                              .back_channel = lasting_});
  EXPECT_TRUE(rig_.world.RunUntil([&] { return lasting_->lost; }));
  EXPECT_EQ(connections_->connections(), 0u);
  rig_.Finish();
}

}  // namespace
}  // namespace penstock::rpcrdma
