// Tests of simulated TCP connections, and of the change of one into an RDMA connection.
#include "rdma/sim/stream.h"

#include <gtest/gtest.h>

#include <optional>
#include <stop_token>
#include <string>

#include "base/address.h"

namespace penstock::rdma::sim {
namespace {

using Kind = ConnectError::Kind;

std::vector<std::byte> Octets(std::string_view text) { return {AsBytes(text).begin(), AsBytes(text).end()}; }

// The owner of one end.
struct End final : StreamSocket::Owner {
  void Own(std::unique_ptr<StreamSocket> from) {
    socket = std::move(from);
    socket->set_owner(this);
  }
  void HandleReceived(std::vector<std::byte> octets) override { received += std::string(AsText(octets)) + ";"; }
  void HandleClosed() override { closed = true; }
  ReleasedSocket Release() { return StreamSocket::Release(std::move(socket)); }

  std::string received;
  bool closed = false;
  std::unique_ptr<StreamSocket> socket;
};

class StreamTest : public testing::Test {
 protected:
  ~StreamTest() override {
    at_client_.reset();
    at_server_.reset();
    client_.socket.reset();
    server_.socket.reset();
    world_.Run();
  }

  bool Connect() {
    Spawn([](StreamTest& self) -> Task<> {
      auto socket = co_await StreamSocket::Connect(self.network_, *self.client_provider_, self.address_);
      if (socket) self.client_.Own(std::move(socket));
    }(*this));
    world_.Run();
    return client_.socket && server_.socket;
  }
  // Each side steps up. The server first sends `last`. Stores the results.
  void StepUpClient() { StepUp(*client_provider_, client_.Release(), StepUpRole::kInitiator, "", at_client_); }
  void StepUpServer(std::string_view last = "") {
    StepUp(*server_provider_, server_.Release(), StepUpRole::kResponder, last, at_server_);
  }
  void StepUp(Provider& provider, ReleasedSocket socket, StepUpRole role, std::string_view last,
              std::optional<ConnectResult>& result) {
    ConnectOptions options;
    options.ird = 3;
    options.ord = 2;
    options.time_limit = std::chrono::seconds(5);
    if (role == StepUpRole::kResponder) options.stop = stop_.get_token();
    options.receives = {{1, 64}};
    Spawn([](Task<ConnectResult> task, std::optional<ConnectResult>& out) -> Task<> {
      auto stepped = co_await std::move(task);
      out.emplace(std::move(stepped));
    }(provider.StepUp(std::move(socket), role, Octets(last), std::move(options)), result));
  }
  static std::optional<Kind> ErrorOf(const std::optional<ConnectResult>& result) {
    return result && !*result ? std::optional(result->error().kind) : std::nullopt;
  }

  World world_{7};
  Network network_{world_, {.latency = std::chrono::microseconds(5), .jitter = std::chrono::microseconds(50)}};
  const std::unique_ptr<Provider> server_provider_ = network_.MakeProvider();
  const std::unique_ptr<Provider> client_provider_ = network_.MakeProvider();
  const Address address_{asio::ip::make_address("10.0.0.1"), 2049};
  End client_, server_;
  std::optional<StreamListener> listener_{std::in_place, network_, Address(asio::ip::address_v4::any(), 2049),
                                          [this](auto socket) { server_.Own(std::move(socket)); }};
  std::optional<ConnectResult> at_client_, at_server_;
  std::stop_source stop_;
};

TEST_F(StreamTest, CarriesMessagesInTheirOrderBothWays) {
  ASSERT_TRUE(Connect());
  std::string sent;
  for (int i = 0; i < 30; ++i) {
    client_.socket->Send(Octets(std::to_string(i)));
    sent += std::to_string(i) + ";";
  }
  server_.socket->Send(Octets("answer"));
  world_.Run();
  EXPECT_EQ(server_.received, sent);
  EXPECT_EQ(client_.received, "answer;");
  EXPECT_EQ(server_.socket->peer(), client_.socket->local());
}

TEST_F(StreamTest, MessagesWaitForAnOwner) {
  ASSERT_TRUE(Connect());
  client_.socket->set_owner(nullptr);
  server_.socket->Send(Octets("one"));
  server_.socket->Send(Octets("two"));
  world_.Run();
  EXPECT_EQ(client_.received, "");
  client_.socket->set_owner(&client_);
  world_.Run();
  EXPECT_EQ(client_.received, "one;two;");
}

TEST_F(StreamTest, ConnectFailsWithoutAListenerAndAsPlanned) {
  network_.faults().connects.push_back(Kind::kRefused);
  EXPECT_FALSE(Connect());
  listener_.reset();
  EXPECT_FALSE(Connect());
}

TEST_F(StreamTest, TheOtherEndLearnsOfAClose) {
  ASSERT_TRUE(Connect());
  client_.socket->Send(Octets("last"));
  client_.socket->Close();
  world_.Run();
  EXPECT_EQ(server_.received, "last;");
  EXPECT_TRUE(server_.closed && server_.socket->closed());
  EXPECT_FALSE(client_.closed) << "it has closed the connection itself";
}

TEST_F(StreamTest, BothEndsLearnOfALoss) {
  ASSERT_TRUE(Connect());
  client_.socket->Send(Octets("lost"));
  network_.LoseAll();
  world_.Run();
  EXPECT_EQ(server_.received, "");
  EXPECT_TRUE(client_.closed && server_.closed);
}

TEST_F(StreamTest, TheConnectionsOfOneHostAreLost) {
  ASSERT_TRUE(Connect());
  network_.LoseAllOf(*network_.MakeProvider());
  world_.Run();
  EXPECT_FALSE(client_.closed || server_.closed);
  network_.LoseAllOf(*client_provider_);
  world_.Run();
  EXPECT_TRUE(client_.closed && server_.closed);
}

TEST_F(StreamTest, APlannedStepLosesTheConnection) {
  ASSERT_TRUE(Connect());
  network_.faults().lose_at = network_.steps() + 2;
  client_.socket->Send(Octets("one"));
  client_.socket->Send(Octets("two"));
  world_.Run();
  EXPECT_EQ(server_.received, "one;");
  EXPECT_TRUE(client_.closed && server_.closed);
}

TEST_F(StreamTest, StepsUpAfterTheLastOctets) {
  ASSERT_TRUE(Connect());
  StepUpServer("granted");
  world_.RunFor(std::chrono::milliseconds(1));
  EXPECT_EQ(client_.received, "granted;");
  EXPECT_FALSE(at_server_) << "it waits for the client";
  StepUpClient();
  world_.Run();
  ASSERT_TRUE(at_client_ && *at_client_ && at_server_ && *at_server_);
  const ConnectionInfo& client = (**at_client_)->info();
  const ConnectionInfo& server = (**at_server_)->info();
  EXPECT_EQ(client.peer, address_);
  EXPECT_EQ(server.peer, client.local);
  EXPECT_EQ(client.ird, 2u);
  EXPECT_EQ(client.ord, 2u);
  EXPECT_EQ(network_.stats().connections, 1u);
  EXPECT_EQ(network_.violations(), std::vector<std::string>());
}

TEST_F(StreamTest, EndsWhereverItIsLostWhileItStepsUp) {
  // The last octets, the MPA Request, and its answer.
  for (const uint64_t step : {1, 2, 3}) {
    ASSERT_TRUE(Connect());
    at_client_.reset();
    at_server_.reset();
    client_.received.clear();
    network_.faults().lose_at = network_.steps() + step;
    StepUpServer("granted");
    world_.RunUntil([&] { return !client_.received.empty() || client_.closed || !world_.events_pending(); });
    if (step == 1) {
      world_.Run();
      EXPECT_EQ(ErrorOf(at_server_), Kind::kUnreachable);
      EXPECT_TRUE(client_.closed);
      client_.closed = false;
      continue;
    }
    StepUpClient();
    world_.Run();
    EXPECT_EQ(ErrorOf(at_client_), Kind::kUnreachable) << step;
    ASSERT_TRUE(at_server_);
    // The server may have its connection already. Then it learns of the loss there.
    EXPECT_TRUE(step == 3 || !*at_server_) << step;
    network_.faults() = {};
  }
}

TEST_F(StreamTest, RefusesOtherOctetsThanTheMpaRequest) {
  ASSERT_TRUE(Connect());
  StepUpServer();
  client_.socket->Send(Octets("a call"));
  world_.Run();
  EXPECT_EQ(ErrorOf(at_server_), Kind::kProtocol);
  EXPECT_TRUE(client_.closed);
}

TEST_F(StreamTest, RefusesAnMpaRequestThatNobodyExpects) {
  ASSERT_TRUE(Connect());
  StepUpClient();
  world_.Run();
  EXPECT_EQ(ErrorOf(at_client_), Kind::kUnreachable);
}

TEST_F(StreamTest, WaitsForTheMpaRequestNoLongerThanItsLimit) {
  ASSERT_TRUE(Connect());
  StepUpServer();
  world_.Run();
  EXPECT_EQ(ErrorOf(at_server_), Kind::kTimedOut);
  EXPECT_TRUE(client_.closed);
}

TEST_F(StreamTest, TheWaitForTheMpaRequestCanBeStopped) {
  ASSERT_TRUE(Connect());
  StepUpServer();
  stop_.request_stop();
  EXPECT_EQ(ErrorOf(at_server_), Kind::kCancelled);
}

}  // namespace
}  // namespace penstock::rdma::sim
