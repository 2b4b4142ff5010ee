#include "base/connect_tcp.h"

#include <gtest/gtest.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <asio/io_context.hpp>
#include <functional>
#include <optional>
#include <thread>
#include <vector>

#include "base/test_loop.h"

namespace penstock {
namespace {

using asio::ip::tcp;

// A listener on loopback, and connections to it.
struct Network {
  Loop loop;
  tcp::acceptor acceptor{loop.context(), {asio::ip::address_v4::loopback(), 0}};
  std::vector<tcp::socket> sockets;
  std::error_code error;

  // Returns the local port of a new connection, or zero on failure.
  uint16_t Connect(LocalPort from) {
    tcp::socket& socket = sockets.emplace_back(loop.context());
    std::optional<std::error_code> result;
    Spawn([](tcp::socket& made, SocketAddress server, LocalPort port, auto& out) -> Task<void> {
      out = co_await ConnectTcp(made, server, {.port = port});
    }(socket, acceptor.local_endpoint(), from, result));
    EXPECT_TRUE(TurnUntil(loop, [&] { return result.has_value(); }));
    error = *result;
    return error ? 0 : socket.local_endpoint().port();
  }
  // Binds a socket to the port. Returns false if that fails.
  bool Take(uint16_t port) {
    tcp::socket& socket = sockets.emplace_back(loop.context(), tcp::v4());
    asio::error_code failure;
    socket.bind({tcp::v4(), port}, failure);
    return !failure;
  }
};

// Returns true if this process may bind to reserved ports. It tries two, because one may be in use.
bool MayReserve() { return Network().Take(1023) || Network().Take(1022); }

TEST(ConnectTcp, UsesAReservedPortIfPermitted) {
  if (!MayReserve()) GTEST_SKIP() << "needs CAP_NET_BIND_SERVICE";
  Network network;
  const uint16_t first = network.Connect(LocalPort::kReserved);
  const uint16_t second = network.Connect(LocalPort::kReserved);
  ASSERT_NE(first, 0) << network.error.message();
  ASSERT_NE(second, 0) << network.error.message();
  EXPECT_LT(first, kFirstUnreservedPort);
  EXPECT_LT(second, kFirstUnreservedPort);
  EXPECT_NE(first, second);
}

TEST(ConnectTcp, UsesAnUnreservedPortByDefault) {
  Network network;
  EXPECT_GE(network.Connect(LocalPort::kAny), kFirstUnreservedPort);
}

TEST(ConnectTcp, UsesAnyPortWithoutPermissionForReservedOnes) {
  const bool is_root = ::geteuid() == 0;
  if (is_root) {
    ASSERT_EQ(::seteuid(65534), 0);
  }
  Network network;
  const bool may = network.Take(1023);  // net.ipv4.ip_unprivileged_port_start
  const uint16_t port = network.Connect(LocalPort::kReserved);
  if (is_root) {
    ASSERT_EQ(::seteuid(0), 0);
  }
  EXPECT_NE(port, 0) << network.error.message();
  if (!may) {
    EXPECT_GE(port, kFirstUnreservedPort);
  }
}

// Runs `function` in a network namespace of its own, where no other program uses a port. Returns false if that is not
// permitted.
bool RunAlone(const std::function<void()>& run) {
  bool is_alone = false;
  std::thread([&] {
    if (::unshare(CLONE_NEWNET) != 0) return;
    const int fd = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct ifreq loopback{.ifr_ifrn = {"lo"}, .ifr_ifru = {}};
    loopback.ifr_flags = IFF_UP;
    is_alone = ::ioctl(fd, SIOCSIFFLAGS, &loopback) == 0;
    ::close(fd);
    if (is_alone) run();
  }).join();
  return is_alone;
}

TEST(ConnectTcp, UsesAnyPortIfAllReservedOnesAreTaken) {
  const bool is_alone = RunAlone([] {
    Network network;
    for (uint16_t port = 1; port < kFirstUnreservedPort; ++port) {
      if (port != 700) {
        EXPECT_TRUE(network.Take(port));
      }
    }
    EXPECT_EQ(network.Connect(LocalPort::kReserved), 700) << "700 is the only free port";
    EXPECT_GE(network.Connect(LocalPort::kReserved), kFirstUnreservedPort) << network.error.message();
  });
  if (!is_alone) GTEST_SKIP() << "needs root: for a network of its own";
}

// The side that closes first keeps its port in TIME_WAIT for a minute.
TEST(ConnectTcp, ReusesPortsInTimeWaitForOtherServers) {
  const bool is_alone = RunAlone([] {
    Network network;
    for (uint16_t port = 1; port < kFirstUnreservedPort; ++port) {
      if (port != 700) {
        EXPECT_TRUE(network.Take(port));
      }
    }
    ASSERT_EQ(network.Connect(LocalPort::kReserved), 700);
    tcp::socket accepted = network.acceptor.accept();
    network.sockets.back().close();
    accepted.close();
    network.acceptor = tcp::acceptor(network.loop.context(), {asio::ip::address_v4::loopback(), 0});
    EXPECT_EQ(network.Connect(LocalPort::kReserved), 700) << network.error.message();
  });
  if (!is_alone) GTEST_SKIP() << "needs root: for a network of its own";
}

TEST(ConnectTcp, ReportsARefusedConnectionForBothKindsOfPorts) {
  Network network;
  const tcp::endpoint server = network.acceptor.local_endpoint();
  network.acceptor.close();
  for (const LocalPort from : {LocalPort::kAny, LocalPort::kReserved}) {
    tcp::socket socket(network.loop.context());
    std::optional<std::error_code> result;
    Spawn([](tcp::socket& made, SocketAddress at, LocalPort port, auto& out) -> Task<void> {
      out = co_await ConnectTcp(made, at, {.port = port});
    }(socket, server, from, result));
    EXPECT_TRUE(TurnUntil(network.loop, [&] { return result.has_value(); }));
    EXPECT_EQ(result->value(), ECONNREFUSED) << result->message();
  }
}

}  // namespace
}  // namespace penstock
