#include "rpcbind/remote_program.h"

#include <gtest/gtest.h>

#include <asio/ip/tcp.hpp>
#include <optional>
#include <string>

#include "base/test_loop.h"
#include "rpc/client.h"
#include "rpc/dispatch.h"
#include "rpc/tcp/server.h"
#include "rpc/test_program.h"
#include "rpc/udp/server.h"
#include "rpcbind/port_mapper.h"

namespace penstock::rpcbind {
namespace {

using namespace std::chrono_literals;
using asio::ip::make_address;
using rpc::TransportKind;
using rpc::testing::kTestProgram;

// A host with a port mapper and a program, at one port over both transports.
class RemoteProgramTest : public ::testing::TestWithParam<TransportKind> {
 protected:
  void StartHost(const char* address) {
    host = make_address(address);
    auto listener = rpc::tcp::Listener::Open({host, 0});
    ASSERT_TRUE(listener) << listener.error().message;
    tcp_listener.emplace(*std::move(listener));
    port = tcp_listener->local().port();
    for (const auto transport : {TransportKind::kTcp, TransportKind::kUdp}) {
      services.push_back({.program = kTestProgram,
                          .version = 3,
                          .netid = {.transport = transport, .v6 = host.is_v6()},
                          .address = SocketAddress(host, port)});
    }
    dispatcher.Add(version2);
    dispatcher.Add(version4);
    dispatcher.Add(program);
    auto datagrams = rpc::udp::Listener::Open({host, port});
    ASSERT_TRUE(datagrams) << datagrams.error().message;
    ASSERT_TRUE(tcp.Start(*tcp_listener));
    ASSERT_TRUE(udp.Start(*std::move(datagrams)));
  }
  ~RemoteProgramTest() override {
    unsigned stopped = 0;
    Spawn(Count(tcp.Stop(1s), stopped));
    Spawn(Count(udp.Stop(), stopped));
    EXPECT_TRUE(TurnUntil(loop, [&] { return stopped == 2; }));
    EXPECT_TRUE(TurnUntil(loop, [&] { return loop.buffers().outstanding() == 0; }));
  }
  static Task<void> Count(Task<void> task, unsigned& done) {
    co_await std::move(task);
    ++done;
  }

  RemoteOptions Options() const { return {.limit = kTestPatience, .port_mapper_port = port}; }
  template <class T>
  T Run(Task<T> task) {
    std::optional<T> result;
    Spawn([](Task<T> running, std::optional<T>& out) -> Task<void> { out.emplace(co_await std::move(running)); }(
                                                         std::move(task), result));
    EXPECT_TRUE(TurnUntil(loop, [&] { return result.has_value(); }));
    return *std::move(result);
  }

  Loop loop;
  IpAddress host;
  uint16_t port = 0;
  std::vector<Service> services;
  PortMapper2 version2{services};
  PortMapper4 version4{services, "superuser", [] { return 0u; }};
  rpc::testing::TestProgram program;
  rpc::Dispatcher dispatcher;
  std::optional<rpc::tcp::Listener> tcp_listener;
  rpc::tcp::Server tcp{loop, dispatcher};
  rpc::udp::Server udp{loop, dispatcher};
};

TEST_P(RemoteProgramTest, FindsAndCallsAProgram) {
  StartHost("127.0.0.1");
  auto channel = Run(OpenRemote(loop, {host, kTestProgram, 3, GetParam()}, Options()));
  ASSERT_TRUE(channel);
  rpc::Client client(**channel, loop.buffers(), rpc::Xid(1));
  const auto echo = Run(client.Call<rpc::testing::Echo>("hello"));
  ASSERT_TRUE(echo);
  EXPECT_EQ(echo->results, "hello");
}

TEST_P(RemoteProgramTest, FindsAProgramOverIpv6) {
  StartHost("::1");
  const auto found = Run(FindRemote(loop, {host, kTestProgram, 3, GetParam()}, Options()));
  EXPECT_EQ(found, SocketAddress(host, port));
}

TEST_P(RemoteProgramTest, TheAddressIsThatOfTheHost) {
  StartHost("::1");
  for (Service& each : services) each.address.address(make_address("2001:db8::1"));
  const auto found = Run(FindRemote(loop, {host, kTestProgram, 3, GetParam()}, Options()));
  EXPECT_EQ(found, SocketAddress(host, port));
}

TEST_P(RemoteProgramTest, TellsThatAProgramIsNotRegistered) {
  StartHost("127.0.0.1");
  const auto found = Run(OpenRemote(loop, {host, kTestProgram + 1, 3, GetParam()}, Options()));
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error(), RemoteError::kNotRegistered);
}

TEST_P(RemoteProgramTest, TellsThatNoPortMapperAnswers) {
  StartHost("127.0.0.1");
  RemoteOptions options = Options();
  {
    const auto closed = rpc::tcp::Listener::Open({host, 0});
    options.port_mapper_port = closed->local().port();
  }
  const auto found = Run(FindRemote(loop, {host, kTestProgram, 3, GetParam()}, options));
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error(), RemoteError::kUnreachable);
}

INSTANTIATE_TEST_SUITE_P(All, RemoteProgramTest, ::testing::Values(TransportKind::kTcp, TransportKind::kUdp),
                         [](const auto& each) { return each.param == TransportKind::kTcp ? "Tcp" : "Udp"; });

}  // namespace
}  // namespace penstock::rpcbind
