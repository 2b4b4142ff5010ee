#include "rpcbind/remote_program.h"

#include <gtest/gtest.h>

#include <asio/ip/tcp.hpp>
#include <optional>
#include <string>

#include "base/test_loop.h"
#include "rpc/client.h"
#include "rpc/test_program.h"
#include "rpcbind/test_host.h"

namespace penstock::rpcbind {
namespace {

using namespace std::chrono_literals;
using asio::ip::make_address;
using rpc::TransportKind;
using rpc::testing::kTestProgram;

class RemoteProgramTest : public ::testing::TestWithParam<TransportKind> {
 protected:
  void StartHost(const char* address) { host.emplace(loop, address); }
  ~RemoteProgramTest() override {
    host.reset();
    EXPECT_TRUE(TurnUntil(loop, [&] { return loop.buffers().outstanding() == 0; }));
    TurnFor(loop, 0ms);  // closed channels end
  }

  RemoteOptions Options() const { return {.limit = kTestPatience, .port_mapper_port = host->port}; }
  template <class T>
  T Run(Task<T> task) {
    std::optional<T> result;
    Spawn([](Task<T> running, std::optional<T>& out) -> Task<void> { out.emplace(co_await std::move(running)); }(
                                                         std::move(task), result));
    EXPECT_TRUE(TurnUntil(loop, [&] { return result.has_value(); }));
    return *std::move(result);
  }
  using Found = Result<SocketAddress, RemoteError>;
  // Starts to look for the program until `done` is true, and then cancels it. Returns the outcome.
  template <class Done>
  Found FindAndCancel(const RemoteOptions& asked, const IpAddress& at, const Done& done) {
    RemoteOptions options = asked;
    Cancellation cancellation;
    options.cancellation = &cancellation;
    std::optional<Found> found;
    Spawn([](Task<Found> running, std::optional<Found>& out) -> Task<void> {
      out.emplace(co_await std::move(running));
    }(FindRemote(loop, {at, kTestProgram, 3, GetParam()}, options), found));
    EXPECT_TRUE(TurnUntil(loop, done));
    EXPECT_FALSE(found);
    cancellation.Cancel();
    EXPECT_TRUE(TurnUntil(loop, [&] { return found.has_value(); }));
    return *found;
  }

  Loop loop;
  std::optional<TestHost> host;
};

TEST_P(RemoteProgramTest, FindsAndCallsAProgram) {
  StartHost("127.0.0.1");
  auto channel = Run(OpenRemote(loop, {host->address, kTestProgram, 3, GetParam()}, Options()));
  ASSERT_TRUE(channel);
  rpc::Client client(**channel, loop.buffers(), rpc::Xid(1));
  const auto echo = Run(client.Call<rpc::testing::Echo>("hello"));
  ASSERT_TRUE(echo);
  EXPECT_EQ(echo->results, "hello");
}

TEST_P(RemoteProgramTest, FindsAProgramOverIpv6) {
  StartHost("::1");
  const auto found = Run(FindRemote(loop, {host->address, kTestProgram, 3, GetParam()}, Options()));
  EXPECT_EQ(found, SocketAddress(host->address, host->port));
}

TEST_P(RemoteProgramTest, TheAddressIsThatOfTheHost) {
  StartHost("::1");
  for (Service& each : host->services) each.address.address(make_address("2001:db8::1"));
  const auto found = Run(FindRemote(loop, {host->address, kTestProgram, 3, GetParam()}, Options()));
  EXPECT_EQ(found, SocketAddress(host->address, host->port));
}

TEST_P(RemoteProgramTest, TellsThatAProgramIsNotRegistered) {
  StartHost("127.0.0.1");
  const auto found = Run(OpenRemote(loop, {host->address, kTestProgram + 1, 3, GetParam()}, Options()));
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error(), RemoteError::kNotRegistered);
}

TEST_P(RemoteProgramTest, TellsThatNoPortMapperAnswers) {
  StartHost("127.0.0.1");
  RemoteOptions options = Options();
  {
    const auto closed = rpc::tcp::Listener::Open({host->address, 0});
    options.port_mapper_port = closed->local().port();
  }
  const auto found = Run(FindRemote(loop, {host->address, kTestProgram, 3, GetParam()}, options));
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error(), RemoteError::kUnreachable);
}

// The limit of the search is that of a failing test.
TEST_P(RemoteProgramTest, CancelEndsTheSearchAtASilentPortMapper) {
  SilentHost silent(loop, "127.0.0.1");
  const Found found = FindAndCancel({.limit = 2 * kTestPatience, .port_mapper_port = silent.port()}, silent.address,
                                    [&] { return silent.calls() > 0; });
  EXPECT_EQ(found, std::unexpected(RemoteError::kUnreachable));
}

TEST_P(RemoteProgramTest, CancelEndsTheSetUpOfAConnection) {
  if (GetParam() == TransportKind::kUdp) GTEST_SKIP() << "has no connections";
  FullListener full(loop, "127.0.0.1");
  TurnFor(loop, 10ms);
  const TimePoint began = loop.Now();
  const Found found = FindAndCancel({.limit = 2 * kTestPatience, .port_mapper_port = full.port()}, full.address,
                                    [&] { return loop.Now() - began > 20ms; });
  EXPECT_EQ(found, std::unexpected(RemoteError::kUnreachable));
}

TEST_P(RemoteProgramTest, NothingIsSentAfterCancel) {
  SilentHost silent(loop, "127.0.0.1");
  Cancellation cancellation;
  cancellation.Cancel();
  const auto found = Run(FindRemote(loop, {silent.address, kTestProgram, 3, GetParam()},
                                    {.port_mapper_port = silent.port(), .cancellation = &cancellation}));
  EXPECT_EQ(found, std::unexpected(RemoteError::kUnreachable));
  EXPECT_EQ(silent.calls(), 0u);
}

INSTANTIATE_TEST_SUITE_P(All, RemoteProgramTest, ::testing::Values(TransportKind::kTcp, TransportKind::kUdp),
                         [](const auto& each) { return each.param == TransportKind::kTcp ? "Tcp" : "Udp"; });

}  // namespace
}  // namespace penstock::rpcbind
