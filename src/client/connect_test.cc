#include "client/connect.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>

#include "base/test_loop.h"
#include "rpc/connection_table.h"
#include "rpcrdma/private_data.h"

namespace penstock::client {
namespace {

using namespace std::chrono_literals;
using asio::ip::tcp;

// Fails every attempt to connect and remembers the time limit of the last one.
class NoNetwork : public rdma::Provider {
 public:
  explicit NoNetwork(Loop& loop) : loop_(loop) {}
  std::string_view name() const override { return "none"; }
  BufferPool& buffers() override { return loop_.buffers(); }
  Task<rdma::ConnectResult> Connect(rdma::Address, rdma::ConnectOptions options) override {
    limit_ = options.time_limit;
    co_return std::unexpected(error);
  }
  SetupResult<std::unique_ptr<rdma::Listener>> Listen(rdma::Address) override {
    return std::unexpected(SetupError{"no network"});
  }

  Duration limit() const { return limit_; }

  rdma::ConnectError error{rdma::ConnectError::Kind::kTimedOut, "", {}};

 private:
  Loop& loop_;
  Duration limit_ = Duration::zero();
};

class ConnectTest : public testing::Test {
 protected:
  ~ConnectTest() override { workers_.Join(); }

  Task<void> Open(Url url, rdma::Provider* provider, ChannelOptions options = {}) {
    const auto opened = co_await OpenChannel(loop_, workers_, std::move(url), provider, options);
    error_ = opened ? "" : opened.error();
  }
  // Opens a channel, which must fail, and returns the error.
  std::string OpenRdma(const char* url, ChannelOptions options = {}) {
    Spawn(Open(*Url::Parse(url), &provider_, options));
    EXPECT_TRUE(TurnUntil(loop_, [this] { return error_.has_value(); }));
    return *std::exchange(error_, std::nullopt);
  }

  Loop loop_;
  Workers workers_{4};
  NoNetwork provider_{loop_};
  std::optional<std::string> error_;
};

TEST_F(ConnectTest, WaitsForAnRdmaServerAsLongAsTheUrlAllows) {
  EXPECT_EQ(OpenRdma("nfs://127.0.0.1/?proto=rdma&timeout=25"), "127.0.0.1 port 20049: timed out");
  EXPECT_EQ(provider_.limit(), 25s);
  OpenRdma("nfs://127.0.0.1/?proto=rdma&timeout=3");
  EXPECT_EQ(provider_.limit(), 3s);
}

// An attempt may take as long as the reply to a call. After that time, another attempt may succeed sooner.
TEST_F(ConnectTest, LimitsOneRdmaConnectionAttemptToAMinute) {
  OpenRdma("nfs://127.0.0.1/?proto=rdma");
  EXPECT_EQ(provider_.limit(), 60s);
}

TEST_F(ConnectTest, LimitsAConnectionAttemptToTheTimeLimitOfTheCaller) {
  OpenRdma("nfs://127.0.0.1/?proto=rdma&timeout=25", {.time_limit = 2s});
  EXPECT_EQ(provider_.limit(), 2s);
}

TEST_F(ConnectTest, ExplainsWhyAnRdmaConnectionFails) {
  using Kind = rdma::ConnectError::Kind;
  const auto error_of = [this](Kind kind, std::string detail) {
    provider_.error = {kind, std::move(detail), {}};
    return OpenRdma("nfs://127.0.0.1:7/?proto=rdma");
  };
  EXPECT_EQ(error_of(Kind::kUnreachable, ""), "127.0.0.1 port 7: cannot be reached");
  EXPECT_EQ(error_of(Kind::kUnreachable, "no route"), "127.0.0.1 port 7: cannot be reached (no route)");
  EXPECT_EQ(error_of(Kind::kRefused, "left out"), "127.0.0.1 port 7: connection refused");
  EXPECT_EQ(error_of(Kind::kRejected, "left out"),
            "127.0.0.1 port 7: the server rejected the connection: it may be full, or it may not serve this host");
  EXPECT_EQ(error_of(Kind::kTimedOut, ""), "127.0.0.1 port 7: timed out");
  EXPECT_EQ(error_of(Kind::kProtocol, "bad key"),
            "127.0.0.1 port 7: violates the RDMA protocol, or this is no port for RDMA (bad key)");
  EXPECT_EQ(error_of(Kind::kCancelled, ""), "127.0.0.1 port 7: cancelled");
}

TEST_F(ConnectTest, RepeatsTheReasonThatAnRdmaServerGivesForARejection) {
  using Refusal = rpc::ConnectionTable::Refusal;
  for (const Refusal refusal : {Refusal::kServerFull, Refusal::kAddressFull}) {
    provider_.error = {rdma::ConnectError::Kind::kRejected, "", rpcrdma::SerializeRejection(refusal)};
    EXPECT_EQ(OpenRdma("nfs://127.0.0.1:7/?proto=rdma"),
              "127.0.0.1 port 7: the server rejected the connection: " + std::string(ToString(refusal)));
  }
}

TEST_F(ConnectTest, NamesTheHostThatItCannotLookUp) {
  Url url;
  url.host = "not a host name";
  Spawn(Open(url, nullptr));
  ASSERT_TRUE(TurnUntil(loop_, [this] { return error_.has_value(); }));
  EXPECT_TRUE(error_->starts_with("not a host name port 2049: ")) << *error_;
}

TEST_F(ConnectTest, ReportsATcpServerThatRefuses) {
  Url url = *Url::Parse("nfs://127.0.0.1/");
  url.port = tcp::acceptor(loop_.context(), tcp::endpoint(asio::ip::address_v4::loopback(), 0)).local_endpoint().port();
  Spawn(Open(url, nullptr));
  ASSERT_TRUE(TurnUntil(loop_, [this] { return error_.has_value(); }));
  EXPECT_EQ(*error_, "127.0.0.1 port " + std::to_string(url.port) + ": Connection refused");
}

TEST_F(ConnectTest, TriesEveryAddressOfTheHost) {
  tcp::acceptor acceptor(loop_.context(), tcp::endpoint(asio::ip::address_v4::loopback(), 0));
  Url url = *Url::Parse("nfs://localhost/");  // on most hosts this name also has the address ::1
  url.port = acceptor.local_endpoint().port();
  Spawn(Open(url, nullptr));
  ASSERT_TRUE(TurnUntil(loop_, [this] { return error_.has_value(); }));
  EXPECT_EQ(*error_, "");
  TurnFor(loop_, Duration::zero());
}

// The queue of the listener is full, so the kernel does not answer further connection requests.
TEST_F(ConnectTest, LimitsATcpConnectionAttemptToTheTimeoutOfTheUrl) {
  tcp::acceptor full(loop_.context(), tcp::endpoint(asio::ip::address_v4::loopback(), 0), false);
  ASSERT_EQ(::listen(full.native_handle(), 0), 0);
  tcp::socket queued(loop_.context());
  queued.connect(full.local_endpoint());

  bool late = false;
  const auto limit = loop_.MakeTimer([&] { late = true; });
  limit->ExpireAfter(9s);
  Url url = *Url::Parse("nfs://127.0.0.1/?proto=tcp&timeout=1");
  url.port = full.local_endpoint().port();
  Spawn(Open(url, nullptr));
  ASSERT_TRUE(TurnUntil(loop_, [this] { return error_.has_value(); }));
  EXPECT_NE(error_->find("timed out"), error_->npos) << *error_;
  EXPECT_FALSE(late);
}

}  // namespace
}  // namespace penstock::client
