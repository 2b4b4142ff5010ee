#include "server/listeners.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <asio/ip/tcp.hpp>
#include <asio/ip/udp.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "rpcbind/service.h"
#include "server/discovery.h"
#include "server/test_server.h"

namespace penstock::server {
namespace {

using asio::ip::make_address;
using rpc::TransportKind;
using testing::ElementsAre;
using testing::HasSubstr;

SocketAddress At(const char* address, uint16_t port = 0) { return {make_address(address), port}; }

bool HasIpv6() {
  asio::io_context context;
  asio::ip::tcp::acceptor acceptor(context);
  asio::error_code error;
  acceptor.open(asio::ip::tcp::v6(), error);
  if (!error) acceptor.bind({asio::ip::address_v6::loopback(), 0}, error);
  return !error;
}

const rdma::Choice kSoftware{.kind = rdma::Kind::kIwarp, .device = {}};

TEST(Listeners, OpensEveryAddressOfEachTransport) {
  Addresses addresses{.tcp = {At("127.0.0.1"), At("127.0.0.2")}, .rdma = {At("127.0.0.1")}, .mount = {At("127.0.0.2")}};
  if (HasIpv6()) addresses.rdma.push_back(At("::1"));
  const auto opened = OpenListeners(addresses, kSoftware);
  ASSERT_TRUE(opened) << opened.error().message;
  ASSERT_EQ(opened->tcp.size(), 2u);
  EXPECT_EQ(opened->tcp[0].local().address(), make_address("127.0.0.1"));
  EXPECT_EQ(opened->tcp[1].local().address(), make_address("127.0.0.2"));
  ASSERT_EQ(opened->rdma.size(), addresses.rdma.size());
  for (size_t i = 0; i < opened->rdma.size(); ++i) {
    ASSERT_TRUE(opened->rdma[i].socket);
    EXPECT_EQ(opened->rdma[i].socket->local().address(), addresses.rdma[i].address());
  }
  ASSERT_EQ(opened->mount.size(), 1u);
  ASSERT_EQ(opened->mount_udp.size(), 1u);
  EXPECT_EQ(opened->mount[0].local(), opened->mount_udp[0].local());
}

TEST(Listeners, TheSystemChoosesOnePortForAllAddressesOfATransport) {
  const std::vector<SocketAddress> list{At("127.0.0.1"), At("127.0.0.2"), At("127.0.0.3")};
  const auto opened = OpenListeners({.tcp = list, .rdma = list, .mount = list}, kSoftware);
  ASSERT_TRUE(opened) << opened.error().message;
  for (size_t i = 0; i < list.size(); ++i) {
    EXPECT_NE(opened->tcp[i].local().port(), 0);
    EXPECT_EQ(opened->tcp[i].local().port(), opened->tcp[0].local().port());
    EXPECT_EQ(opened->rdma[i].socket->local().port(), opened->rdma[0].socket->local().port());
    EXPECT_EQ(opened->mount[i].local().port(), opened->mount[0].local().port());
  }
}

TEST(Listeners, TheErrorNamesTheTakenAddress) {
  const auto first = OpenListeners({.tcp = {At("127.0.0.2")}, .rdma = {}, .mount = {}}, kSoftware);
  ASSERT_TRUE(first);
  const uint16_t port = first->tcp[0].local().port();
  const std::vector<SocketAddress> list{At("127.0.0.1", port), At("127.0.0.2", port)};
  const std::vector<SocketAddress> none;
  for (const Addresses& each :
       {Addresses{list, none, none}, Addresses{none, list, none}, Addresses{none, none, list}}) {
    const auto second = OpenListeners(each, kSoftware);
    ASSERT_FALSE(second);
    EXPECT_THAT(second.error().message, HasSubstr(fmt::format("127.0.0.2 port {}", port)));
  }
}

TEST(Listeners, BothUnspecifiedAddressesStandSideBySide) {
  if (!HasIpv6()) GTEST_SKIP() << "this host has no IPv6";
  const std::vector<SocketAddress> list{At("0.0.0.0"), At("::")};
  const auto opened = OpenListeners({.tcp = list, .rdma = list, .mount = list}, kSoftware);
  ASSERT_TRUE(opened) << opened.error().message;
  EXPECT_THAT(ReachableAt(opened->tcp[1]), ElementsAre(opened->tcp[1].local())) << "IPv6 only";
}

TEST(Listeners, TheUnspecifiedAddressOfIpv6AloneServesIpv4AsWell) {
  if (!HasIpv6()) GTEST_SKIP() << "this host has no IPv6";
  const auto opened = OpenListeners({.tcp = {At("::")}, .rdma = {}, .mount = {}}, kSoftware);
  ASSERT_TRUE(opened) << opened.error().message;
  const uint16_t port = opened->tcp[0].local().port();
  EXPECT_THAT(ReachableAt(opened->tcp[0]), ElementsAre(At("0.0.0.0", port), At("::", port)));
}

TEST(Listeners, TheAddressesOfAllTransportsAreListedOnce) {
  EXPECT_THAT(HostAddressesOf({.tcp = {At("192.0.2.1", 1), At("::1", 1)},
                               .rdma = {At("192.0.2.1", 2), At("192.0.2.2", 2)},
                               .mount = {At("::1", 3)}}),
              ElementsAre(make_address("192.0.2.1"), make_address("::1"), make_address("192.0.2.2")));
  EXPECT_THAT(HostAddressesOf({.tcp = {At("192.0.2.1", 1), At("::1", 1)}, .rdma = {At("0.0.0.0", 2)}, .mount = {}}),
              ElementsAre(make_address("::1"), make_address("0.0.0.0")));
}

rpcbind::Service Offered(const char* address, uint16_t port, TransportKind transport = TransportKind::kTcp) {
  return {.program = 100003,
          .version = 3,
          .netid = {.transport = transport, .v6 = make_address(address).is_v6()},
          .address = At(address, port)};
}

TEST(OnePerNetwork, OnePortForSeveralAddressesBecomesTheUnspecifiedAddress) {
  EXPECT_THAT(OnePerNetwork({Offered("127.0.0.1", 1), Offered("192.0.2.1", 1), Offered("::1", 1),
                             Offered("192.0.2.1", 2, TransportKind::kRdma)}),
              ElementsAre(Offered("0.0.0.0", 1), Offered("::1", 1), Offered("192.0.2.1", 2, TransportKind::kRdma)));
  EXPECT_THAT(OnePerNetwork({Offered("127.0.0.1", 1), Offered("127.0.0.2", 1)}), ElementsAre(Offered("127.0.0.1", 1)));
}

TEST(OnePerNetwork, OtherHostsGetAnAddressThatTheyCanReach) {
  EXPECT_THAT(OnePerNetwork({Offered("127.0.0.1", 1), Offered("192.0.2.1", 2), Offered("192.0.2.2", 3)}),
              ElementsAre(Offered("192.0.2.1", 2)));
}

class ListeningDescriptorsTest : public testing::Test {
 protected:
  struct Setting {
    unsigned threads;
    size_t addresses;
    bool port_mapper = false;
  };
  TestOptions OptionsOf(const Setting& setting) const {
    TestOptions options;
    options.threads = setting.threads;
    options.rdma = kSoftware;
    options.port_mapper = setting.port_mapper;
    options.port_mapper_port = 0;
    options.state_directory = directory_.path();
    options.listen = {};
    for (size_t i = 0; i < setting.addresses; ++i) {
      const SocketAddress address = At(fmt::format("127.0.0.{}", i + 1).c_str());
      for (auto* const list : {&options.listen.tcp, &options.listen.rdma, &options.listen.mount}) {
        list->push_back(address);
      }
    }
    options.exports.push_back({.path = "/", .directory = directory_.path()});
    return options;
  }
  static long Counted(const TestOptions& options) { return static_cast<long>(ListeningDescriptors(options)); }
  // The sockets that listen, or receive datagrams, in this process, while a server with these options runs.
  static long Listening(const TestOptions& options) {
    const auto server = MakeServer(options);
    EXPECT_TRUE(server) << server.error().message;
    long count = 0;
    for (const auto& each : std::filesystem::directory_iterator("/proc/self/fd")) {
      count += Receives(std::stoi(each.path().filename()));
    }
    return count;
  }
  static bool Receives(int fd) {
    const auto option = [fd](int name) {
      int value = 0;
      socklen_t size = sizeof value;
      return ::getsockopt(fd, SOL_SOCKET, name, &value, &size) == 0 ? value : 0;
    };
    const int domain = option(SO_DOMAIN);
    return (domain == AF_INET || domain == AF_INET6) && (option(SO_ACCEPTCONN) != 0 || option(SO_TYPE) == SOCK_DGRAM);
  }

  const TemporaryDirectory directory_;
};

TEST_F(ListeningDescriptorsTest, AreCountedExactly) {
  for (const Setting& each : {Setting{1, 1}, Setting{1, 3}, Setting{4, 1}, Setting{4, 3}, Setting{4, 3, true}}) {
    const TestOptions options = OptionsOf(each);
    EXPECT_EQ(Counted(options), Listening(options))
        << each.threads << " loops, " << each.addresses << " addresses" << (each.port_mapper ? ", port mapper" : "");
  }
}

TEST_F(ListeningDescriptorsTest, PassedSocketsTakeThePlaceOfAddresses) {
  const TestOptions options = OptionsOf({4, 3});
  PassedSockets passed;
  passed.tcp.emplace_back(-1);
  EXPECT_EQ(ListeningDescriptors(options, passed), ListeningDescriptors(options) - 2 * options.threads);
  passed.mount.emplace_back(-1);
  EXPECT_EQ(ListeningDescriptors(options, passed), ListeningDescriptors(options) - 2 * (2 * options.threads + 2));
}

}  // namespace
}  // namespace penstock::server
