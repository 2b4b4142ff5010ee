#include "client/connect.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <cerrno>
#include <stop_token>
#include <utility>
#include <vector>

#include "base/test_loop.h"
#include "rpc/connection_table.h"
#include "rpc/dispatch.h"
#include "rpc/tcp/server.h"
#include "rpc/tls/test_certificates.h"
#include "rpcrdma/private_data.h"

namespace penstock::client {
namespace {

using namespace std::chrono_literals;
using asio::ip::tcp;

// Fails every attempt to connect and remembers the time limits.
class NoNetwork : public rdma::Provider {
 public:
  explicit NoNetwork(Loop& loop) : loop_(loop) {}
  std::string_view name() const override { return "none"; }
  BufferPool& buffers() override { return loop_.buffers(); }
  Task<rdma::ConnectResult> Connect(rdma::Address, rdma::ConnectOptions options) override {
    limits_.push_back(options.time_limit);
    co_return std::unexpected(error);
  }
  SetupResult<std::unique_ptr<rdma::Listener>> Listen(rdma::Address) override {
    return std::unexpected(SetupError{"no network"});
  }

  Duration limit() const { return limits_.back(); }
  const std::vector<Duration>& limits() const { return limits_; }

  rdma::ConnectError error{rdma::ConnectError::Kind::kTimedOut, "", {}};

 private:
  Loop& loop_;
  std::vector<Duration> limits_;
};

// Never connects, until it is asked to stop.
class SilentNetwork final : public NoNetwork {
 public:
  using NoNetwork::NoNetwork;
  Task<rdma::ConnectResult> Connect(rdma::Address, rdma::ConnectOptions options) override {
    connects_ = true;
    OneShot<> stopped;
    const std::stop_callback on_stop(options.stop, [&stopped] { stopped.Set(); });
    co_await stopped;
    co_return std::unexpected(rdma::ConnectError{rdma::ConnectError::Kind::kCancelled, "", {}});
  }
  bool connects() const { return connects_; }

 private:
  bool connects_ = false;
};

class ConnectTest : public testing::Test {
 protected:
  ~ConnectTest() override { workers_.Join(); }

  Task<void> Open(Url url, rdma::Provider* provider, ChannelOptions options = {}) {
    const auto opened = co_await OpenChannel(loop_, workers_, std::move(url), provider, options);
    error_ = opened ? "" : opened.error().message;
    number_ = opened ? 0 : opened.error().number;
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
  int number_ = 0;  // the errno of the last error
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
  EXPECT_LE(provider_.limit(), 2s);
  EXPECT_GT(provider_.limit(), 0s);
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

TEST_F(ConnectTest, NumbersTheErrorsOfRdmaConnections) {
  using Kind = rdma::ConnectError::Kind;
  for (const auto& [kind, number] :
       {std::pair{Kind::kUnreachable, EHOSTUNREACH}, std::pair{Kind::kRefused, ECONNREFUSED},
        std::pair{Kind::kRejected, ECONNREFUSED}, std::pair{Kind::kTimedOut, ETIMEDOUT},
        std::pair{Kind::kProtocol, EPROTO}, std::pair{Kind::kCancelled, ECANCELED}}) {
    provider_.error.kind = kind;
    const std::string error = OpenRdma("nfs://127.0.0.1/?proto=rdma");
    EXPECT_EQ(number_, number) << error;
  }
}

TEST_F(ConnectTest, RepeatsTheReasonThatAnRdmaServerGivesForARejection) {
  using Refusal = rpc::ConnectionTable::Refusal;
  for (const Refusal refusal : {Refusal::kServerFull, Refusal::kAddressFull}) {
    provider_.error = {rdma::ConnectError::Kind::kRejected, "", rpcrdma::SerializeRejection(refusal)};
    EXPECT_EQ(OpenRdma("nfs://127.0.0.1:7/?proto=rdma"),
              "127.0.0.1 port 7: the server rejected the connection: " + std::string(ToString(refusal)));
  }
}

TEST_F(ConnectTest, AnRdmaConnectionAttemptCanBeCancelled) {
  SilentNetwork silent(loop_);
  Cancellation cancellation;
  Spawn(Open(*Url::Parse("nfs://127.0.0.1/?proto=rdma"), &silent, {.cancellation = &cancellation}));
  ASSERT_TRUE(TurnUntil(loop_, [&] { return silent.connects(); }));
  EXPECT_FALSE(error_);
  cancellation.Cancel();
  ASSERT_TRUE(error_);
  EXPECT_EQ(*error_, "127.0.0.1 port 20049: cancelled");
  Spawn(Open(*Url::Parse("nfs://127.0.0.1/?proto=rdma"), &silent, {.cancellation = &cancellation}));
  EXPECT_EQ(*error_, "127.0.0.1 port 20049: cancelled") << "it was cancelled before";
}

// The listener accepts no connection.
TEST_F(ConnectTest, ATcpConnectionAttemptCanBeCancelled) {
  tcp::acceptor silent(loop_.context(), tcp::endpoint(asio::ip::make_address("127.0.0.1"), 0));
  Cancellation cancellation;
  Url url;
  url.host = "127.0.0.1";
  url.port = silent.local_endpoint().port();
  url.reserved_port = false;
  url.transport_security = TransportSecurity::kOpportunistic;
  url.tls = std::make_shared<TlsClient>(rpc::tls::Files{});
  Spawn(Open(url, nullptr, {.cancellation = &cancellation}));
  TurnFor(loop_, 1ms);
  EXPECT_FALSE(error_) << "the client waits for the answer to the probe for TLS";
  cancellation.Cancel();
  ASSERT_TRUE(TurnUntil(loop_, [this] { return error_.has_value(); }));
  EXPECT_TRUE(error_->ends_with("cancelled")) << *error_;
  EXPECT_EQ(number_, ECANCELED);
}

TEST_F(ConnectTest, NamesTheHostThatItCannotLookUp) {
  Url url;
  url.host = "not a host name";
  Spawn(Open(url, nullptr));
  ASSERT_TRUE(TurnUntil(loop_, [this] { return error_.has_value(); }));
  EXPECT_TRUE(error_->starts_with("not a host name port 2049: ")) << *error_;
  EXPECT_EQ(number_, EHOSTUNREACH);
}

// nfs(5): "Those which end in 6 use IPv6 addresses ... Others use IPv4 addresses."
TEST_F(ConnectTest, UsesAddressesOfTheFamilyThatTheTransportNames) {
  const auto count = [this](Url url, int(&counts)[2], bool& done) -> Task<void> {
    const auto found = co_await FindAddresses(loop_, workers_, url, nullptr);
    if (found) {
      for (const SocketAddress& each : *found) ++counts[each.address().is_v6() ? 1 : 0];
    }
    done = true;
  };
  int counts[2] = {};
  bool done = false;
  Spawn(count(*Url::Parse("nfs://localhost/?proto=tcp"), counts, done));
  ASSERT_TRUE(TurnUntil(loop_, [&] { return done; }));
  EXPECT_GE(counts[0], 1);
  EXPECT_EQ(counts[1], 0);

  EXPECT_EQ(OpenRdma("nfs://127.0.0.1/?proto=rdma6"), "127.0.0.1 port 20049: has no IPv6 address");
  EXPECT_EQ(OpenRdma("nfs://[::1]/?proto=rdma"), "::1 port 20049: timed out") << "an address leaves no choice";
}

TEST_F(ConnectTest, ReportsATcpServerThatRefuses) {
  Url url = *Url::Parse("nfs://127.0.0.1:1/");
  url.port = tcp::acceptor(loop_.context(), tcp::endpoint(asio::ip::address_v4::loopback(), 0)).local_endpoint().port();
  Spawn(Open(url, nullptr));
  ASSERT_TRUE(TurnUntil(loop_, [this] { return error_.has_value(); }));
  EXPECT_EQ(*error_, "127.0.0.1 port " + std::to_string(url.port) + ": Connection refused");
  EXPECT_EQ(number_, ECONNREFUSED);
}

TEST_F(ConnectTest, TriesEveryAddressOfTheHost) {
  tcp::acceptor acceptor(loop_.context(), tcp::endpoint(asio::ip::address_v4::loopback(), 0));
  Url url = *Url::Parse("nfs://localhost:1/");  // on most hosts this name also has the address ::1
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
  Url url = *Url::Parse("nfs://127.0.0.1:1/?proto=tcp&timeout=1");
  url.port = full.local_endpoint().port();
  Spawn(Open(url, nullptr));
  ASSERT_TRUE(TurnUntil(loop_, [this] { return error_.has_value(); }));
  EXPECT_NE(error_->find("timed out"), error_->npos) << *error_;
  EXPECT_EQ(number_, ETIMEDOUT);
  EXPECT_FALSE(late);
}

// As a host that is gone, with another address that works.
TEST_F(ConnectTest, AnAddressThatDoesNotAnswerLeavesTheOthersTheirTime) {
  tcp::acceptor full(loop_.context(), tcp::endpoint(asio::ip::address_v4::loopback(), 0), false);
  ASSERT_EQ(::listen(full.native_handle(), 0), 0);
  tcp::socket queued(loop_.context());
  queued.connect(full.local_endpoint());
  tcp::acceptor good(loop_.context(), tcp::endpoint(asio::ip::address_v4::loopback(), 0));

  std::optional<SocketAddress> reached;
  const ChannelOptions options{
      .time_limit = 1s, .addresses = {full.local_endpoint(), good.local_endpoint()}, .reached = &reached};
  Spawn(Open(*Url::Parse("nfs://unknown.invalid/?proto=tcp"), nullptr, options));
  ASSERT_TRUE(TurnUntil(loop_, [this] { return error_.has_value(); }));
  EXPECT_EQ(*error_, "");
  EXPECT_EQ(reached, SocketAddress(good.local_endpoint()));
  TurnFor(loop_, Duration::zero());
}

TEST_F(ConnectTest, TheAddressesOfAHostShareTheTimeLimit) {
  const SocketAddress address(asio::ip::address_v4::loopback(), 1);
  OpenRdma("nfs://127.0.0.1/?proto=rdma", {.time_limit = 8s, .addresses = {address, address, address, address}});
  EXPECT_LE(provider_.limit(), 8s) << "the last one has what the others have left";
  EXPECT_GE(provider_.limits().front(), 1s);
  EXPECT_LE(provider_.limits().front(), 2s);
}

// ---- TLS ----

// A server with the program of NFS that answers NULL calls only, with or without TLS. `port` 0: the system chooses.
class TlsServer {
 public:
  TlsServer(Loop& loop, std::shared_ptr<rpc::tls::Credentials> credentials, uint16_t port,
            IpAddress address = asio::ip::address_v4::loopback())
      : listener_(*rpc::tcp::Listener::Open({address, port})),
        loop_(loop),
        server_(loop, dispatcher_, {.tls = std::move(credentials)}) {
    EXPECT_TRUE(server_.Start(listener_));
  }
  ~TlsServer() {
    bool stopped = false;
    Spawn([](rpc::tcp::Server& server, bool& done) -> Task<void> {
      co_await server.Stop(1s);
      done = true;
    }(server_, stopped));
    EXPECT_TRUE(TurnUntil(loop_, [&] { return stopped; }));
  }
  uint16_t port() const { return listener_.local().port(); }

 private:
  rpc::Dispatcher dispatcher_;
  rpc::tcp::Listener listener_;
  Loop& loop_;
  rpc::tcp::Server server_;
};

class TlsConnectTest : public ConnectTest {
 protected:
  TlsConnectTest() : files_(certificates_.Issue("server", {.names = "DNS:localhost,IP:127.0.0.1"})) {
    files_.authorities.clear();
    url_.host = "127.0.0.1";
    url_.transport_security = TransportSecurity::kOpportunistic;
    url_.tls = std::make_shared<TlsClient>(rpc::tls::Files{{}, {}, certificates_.authority()});
  }
  std::string Connect() {
    error_.reset();
    Spawn(Open(url_, nullptr));
    EXPECT_TRUE(TurnUntil(loop_, [this] { return error_.has_value(); }));
    TurnFor(loop_, 1ms);
    return *error_;
  }
  std::shared_ptr<rpc::tls::Credentials> WithTls() { return *rpc::tls::Credentials::Load(files_); }

  rpc::tls::testing::TestCertificates certificates_;
  rpc::tls::Files files_;
  Url url_;
};

TEST_F(TlsConnectTest, AnOpportunisticClientTakesPlainTextFromAServerThatNeverHadTls) {
  TlsServer plain(loop_, nullptr, 0);
  url_.port = plain.port();
  EXPECT_EQ(Connect(), "");
  EXPECT_EQ(Connect(), "");
}

// RFC 9289 §6.1.1
TEST_F(TlsConnectTest, AnOpportunisticClientRequiresTlsOfAServerThatHadIt) {
  auto server = std::make_unique<TlsServer>(loop_, WithTls(), 0);
  const uint16_t port = url_.port = server->port();
  EXPECT_EQ(Connect(), "");
  server.reset();
  server = std::make_unique<TlsServer>(loop_, nullptr, port);
  const Url copy = url_;  // copies of a URL share the memory
  url_ = copy;
  EXPECT_NE(Connect().find("the server has no TLS at this port"), std::string::npos);
  EXPECT_EQ(number_, EACCES);
  // Another server is another matter.
  TlsServer other(loop_, nullptr, 0);
  url_.port = other.port();
  EXPECT_EQ(Connect(), "");
}

TEST_F(TlsConnectTest, AnOpportunisticClientRequiresTlsAfterAFailedHandshake) {
  files_ = certificates_.Issue("other", {.names = "DNS:other.example"});
  auto server = std::make_unique<TlsServer>(loop_, WithTls(), 0);
  const uint16_t port = url_.port = server->port();
  EXPECT_NE(Connect().find("TLS handshake"), std::string::npos);
  EXPECT_EQ(number_, EACCES);
  server.reset();
  server = std::make_unique<TlsServer>(loop_, nullptr, port);
  EXPECT_NE(Connect().find("the server has no TLS at this port"), std::string::npos);
}

TEST_F(TlsConnectTest, AFailedHandshakeIsNotHiddenByAnotherAddress) {
  asio::io_context context;
  asio::ip::tcp::resolver resolver(context);
  asio::error_code error;
  std::vector<IpAddress> addresses;
  for (const auto& entry : resolver.resolve("localhost", "", error)) {
    const IpAddress address = entry.endpoint().address();
    if (std::ranges::find(addresses, address) == addresses.end()) addresses.push_back(address);
  }
  if (error || addresses.size() < 2) GTEST_SKIP() << "localhost has only one address here";
  files_ = certificates_.Issue("other", {.names = "DNS:other.example"});
  TlsServer first(loop_, WithTls(), 0, addresses[0]);
  files_ = certificates_.Issue("right", {.names = "DNS:localhost"});
  TlsServer second(loop_, WithTls(), first.port(), addresses[1]);
  url_.host = "localhost";
  url_.port = first.port();
  EXPECT_NE(Connect().find("TLS handshake"), std::string::npos);
}

TEST_F(TlsConnectTest, ReportsFilesThatCannotBeRead) {
  TlsServer server(loop_, WithTls(), 0);
  url_.port = server.port();
  url_.tls = std::make_shared<TlsClient>(rpc::tls::Files{{}, {}, "/nonexistent.pem"});
  EXPECT_NE(Connect().find("/nonexistent.pem"), std::string::npos);
  EXPECT_EQ(number_, EINVAL);
}

TEST_F(TlsConnectTest, TellsAServerThatClosesFromOneThatDoesNotAnswer) {
  tcp::acceptor acceptor(loop_.context(), tcp::endpoint(asio::ip::address_v4::loopback(), 0));
  url_.port = acceptor.local_endpoint().port();
  url_.recovery.timeout = 1;
  EXPECT_NE(Connect().find("in time"), std::string::npos);
  EXPECT_EQ(number_, ETIMEDOUT);
  acceptor.async_accept([](const asio::error_code&, tcp::socket) {});  // the one that has given up
  acceptor.async_accept([](const asio::error_code&, tcp::socket) {});
  EXPECT_NE(Connect().find("closed the connection"), std::string::npos);
  EXPECT_EQ(number_, ECONNRESET);
}

TEST_F(TlsConnectTest, MutualAuthenticationNeedsACertificate) {
  TlsServer server(loop_, WithTls(), 0);
  url_.port = server.port();
  url_.transport_security = TransportSecurity::kMutualTls;
  EXPECT_NE(Connect().find("xprtsec=mtls needs a certificate of this client"), std::string::npos);
  EXPECT_EQ(number_, EINVAL);
}

}  // namespace
}  // namespace penstock::client
