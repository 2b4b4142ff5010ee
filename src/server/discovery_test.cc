// The small programs beside NFS on a whole server: over UDP, and by the server's own port mapper.
#include "server/discovery.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "protocol/mount.h"
#include "protocol/nfs3.h"
#include "protocol/rpcb.h"
#include "protocol/rquota.h"
#include "rpc/client.h"
#include "rpc/udp/channel.h"
#include "rpcbind/remote_program.h"
#include "server/test_server.h"

namespace penstock::server {
namespace {

using rpc::TransportKind;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

class DiscoveryTest : public ServerTest {
 protected:
  void StartPortMapper() {
    TestOptions options = ServerOptions();
    options.port_mapper = true;
    options.port_mapper_port = port_mapper_port_.get();
    StartServer(options);
  }
  // Runs `use` on a loop of its own.
  static void OnLoop(const std::function<Task<void>(Loop&)>& use) {
    Loop loop;
    Spawn([](Loop& on, const std::function<Task<void>(Loop&)>& what) -> Task<void> {
      co_await what(on);
      co_await Sleep(on, Duration::zero());  // closed channels end
      on.Finish();
    }(loop, use));
    loop.Run();
  }
  SocketAddress At(uint16_t port) const { return {asio::ip::address_v4::loopback(), port}; }
  rpcbind::RemoteOptions RemoteOptions() const {
    return {.limit = kPatience, .port_mapper_port = port_mapper_port_.get()};
  }

  static constexpr std::chrono::seconds kPatience{50};
  static inline const rpc::ClientCredential kRoot{
      rpc::SystemIdentity{.machine = "client", .uid = 0, .gid = 0, .groups = {}}};
  const KeptPort port_mapper_port_;
};

TEST_P(DiscoveryTest, MountAndRquotaAnswerOverUdpAndNfsDoesNot) {
  StartServer();
  OnLoop([this](Loop& loop) -> Task<void> {
    const auto channel = rpc::udp::Channel::Open(loop, At(mount_port_.get()), {.call_limit = kPatience});
    EXPECT_TRUE(channel);
    if (!channel) co_return;
    rpc::Client client(**channel, loop.buffers(), rpc::Xid(1), kRoot);
    const auto mounted = co_await client.Call<mount3::MOUNTPROC3_MNT>("/tree");
    EXPECT_TRUE(mounted);
    if (mounted) {
      EXPECT_EQ(mounted->results.fhs_status(), mount3::MNT3_OK);
    }
    const auto exports = co_await client.Call<mount3::MOUNTPROC3_EXPORT>({});
    EXPECT_TRUE(exports);
    if (exports) {
      EXPECT_EQ(exports->results.size(), 1u);
    }
    const rquota::ext_getquota_args asked{"/tree", 0, 0};
    const auto quota = co_await client.Call<rquota::EXT_RQUOTAPROC_GETQUOTA>(asked);
    EXPECT_TRUE(quota);
    const auto nfs = co_await client.Call<nfs3::NFSPROC3_NULL>({});
    EXPECT_FALSE(nfs);
    if (!nfs) {
      EXPECT_EQ(nfs.error().kind, rpc::Error::Kind::kProgramUnavailable);
    }
  });
}

TEST_P(DiscoveryTest, TheMountPortMustBeFreeForUdp) {
  const auto other = rpc::udp::Listener::Open(At(mount_port_.get()));
  ASSERT_TRUE(other);
  const auto made = MakeServer(ServerOptions());
  ASSERT_FALSE(made);
  EXPECT_THAT(made.error().message, HasSubstr(std::to_string(mount_port_.get()) + " with UDP"));
}

TEST_P(DiscoveryTest, ThePortMapperLeadsToThePrograms) {
  StartPortMapper();
  OnLoop([this](Loop& loop) -> Task<void> {
    const IpAddress host = asio::ip::address_v4::loopback();
    const Addresses& at = server_->addresses();
    const auto port = [&](uint32_t program, uint32_t version, TransportKind transport) -> Task<uint16_t> {
      const rpcbind::RemoteProgram wanted{host, program, version, transport};
      const auto found = co_await rpcbind::FindRemote(loop, wanted, RemoteOptions());
      co_return found ? found->port() : uint16_t{0};
    };
    EXPECT_EQ(co_await port(100003, 3, TransportKind::kTcp), at.tcp.front().port());
    EXPECT_EQ(co_await port(100003, 4, TransportKind::kTcp), at.tcp.front().port());
    EXPECT_EQ(co_await port(100003, 3, TransportKind::kUdp), 0);
    EXPECT_EQ(co_await port(100005, 3, TransportKind::kTcp), at.mount.front().port());
    EXPECT_EQ(co_await port(100005, 3, TransportKind::kUdp), at.mount.front().port());
    EXPECT_EQ(co_await port(100011, 2, TransportKind::kUdp), at.mount.front().port());
  });
}

TEST_P(DiscoveryTest, ThePortMapperListsEachNetwork) {
  StartPortMapper();
  OnLoop([this](Loop& loop) -> Task<void> {
    const auto channel = co_await rpcbind::OpenRemoteAt(loop, At(port_mapper_port_.get()), TransportKind::kTcp);
    EXPECT_TRUE(channel);
    if (!channel) co_return;
    rpc::Client client(**channel, loop.buffers(), rpc::Xid(1));
    const auto list = co_await client.Call<pmap::RPCB4PROC_DUMP>({});
    EXPECT_TRUE(list);
    if (!list) co_return;
    std::vector<std::pair<std::string, std::string>> nfs;
    for (const auto& each : list->results) {
      if (each.rpcb_map.r_prog != 100003 || each.rpcb_map.r_vers != 3) continue;
      nfs.emplace_back(each.rpcb_map.r_netid, each.rpcb_map.r_addr);
    }
    const Addresses& at = server_->addresses();
    const std::pair<std::string, std::string> tcp("tcp", rpc::UniversalAddress(At(at.tcp.front().port())));
    const std::pair<std::string, std::string> rdma("rdma", rpc::UniversalAddress(At(at.rdma.front().port())));
    EXPECT_THAT(nfs, UnorderedElementsAre(tcp, rdma));
  });
}

TEST_P(DiscoveryTest, ThePortOfThePortMapperMayBeTaken) {
  const auto other = rpc::udp::Listener::Open(At(port_mapper_port_.get()));
  TestOptions options = ServerOptions();
  options.port_mapper = true;
  options.port_mapper_port = port_mapper_port_.get();
  const auto made = MakeServer(options);
  ASSERT_FALSE(made);
  EXPECT_THAT(made.error().message, HasSubstr("--portmap: cannot listen on 127.0.0.1 port"));
  EXPECT_THAT(made.error().message, HasSubstr("leave out --portmap"));
}

INSTANTIATE_TEST_SUITE_P(Small, DiscoveryTest, testing::Values(std::tuple(Protocol::kTcp, Version::k3)),
                         [](const auto&) { return std::string("Programs"); });

}  // namespace
}  // namespace penstock::server
