#include "nfs/exports.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fs/memory/file_system.h"

namespace penstock::nfs {
namespace {

class ExportsTest : public testing::Test {
 protected:
  SetupResult<void> Add(std::string_view path, ExportOptions options = {},
                        const std::vector<ClientSpec>& clients = {}) {
    return exports_.Add(path, std::make_shared<fs::memory::FileSystem>(), std::move(options), clients);
  }
  std::string Resolve(std::string_view path) {
    const ExportTable::Place place = exports_.table().Resolve(path);
    return place.found ? place.found->path() + " + " + std::string(place.rest) : "nowhere";
  }

  Exports exports_;
};

rpc::Peer Client(const char* address, uint16_t port = 700) {
  rpc::Peer peer;
  peer.address = {asio::ip::make_address(address), port};
  return peer;
}

TEST_F(ExportsTest, FindsAnExportByTheIdInItsHandles) {
  ASSERT_TRUE(Add("/data"));
  ASSERT_TRUE(Add("/home"));
  for (const auto& each : exports_.table().all()) {
    EXPECT_EQ(exports_.table().Find(each->root().export_id), each.get());
  }
  EXPECT_EQ(exports_.table().Find(ExportId(12345)), nullptr);
}

TEST_F(ExportsTest, IdDependsOnlyOnThePath) {
  ASSERT_TRUE(Add("/data"));
  EXPECT_EQ(exports_.table().all()[0]->id(), ExportId(0x49f653fe));
  Exports other;
  ASSERT_TRUE(other.Add("/home", std::make_shared<fs::memory::FileSystem>(), {}));
  ASSERT_TRUE(other.Add("//data/", std::make_shared<fs::memory::FileSystem>(), {}));
  EXPECT_NE(other.table().Find(exports_.table().all()[0]->id()), nullptr);
}

TEST_F(ExportsTest, RejectsASecondExportOfAPath) {
  ASSERT_TRUE(Add("/data"));
  EXPECT_EQ(Add("/data/").error().message, "\"/data\" is exported twice");
  EXPECT_FALSE(Add("data"));
}

TEST_F(ExportsTest, ResolvesAPathToTheDeepestExport) {
  ASSERT_TRUE(Add("/"));
  ASSERT_TRUE(Add("/data"));
  ASSERT_TRUE(Add("/data/deep"));
  EXPECT_EQ(Resolve("/"), "/ + ");
  EXPECT_EQ(Resolve("/other/file"), "/ + other/file");
  EXPECT_EQ(Resolve("/data"), "/data + ");
  EXPECT_EQ(Resolve("//data//"), "/data + ");
  EXPECT_EQ(Resolve("/./data/."), "/data + ");
  EXPECT_EQ(Resolve("/data/./deep/./sub"), "/data/deep + sub");
  EXPECT_EQ(Resolve("/data/.deep"), "/data + .deep");
  EXPECT_EQ(Resolve("/data/sub"), "/data + sub");
  EXPECT_EQ(Resolve("/data/deep/sub"), "/data/deep + sub");
  EXPECT_EQ(Resolve("/data/deeper"), "/data + deeper");
}

TEST_F(ExportsTest, ComparesWholeComponents) {
  ASSERT_TRUE(Add("/data"));
  EXPECT_EQ(Resolve("/database"), "nowhere");
  EXPECT_EQ(Resolve("/dat"), "nowhere");
  EXPECT_EQ(Resolve("/"), "nowhere");
  EXPECT_EQ(Resolve("data"), "nowhere");
  EXPECT_EQ(Resolve(""), "nowhere");
}

TEST_F(ExportsTest, AdmitsAllHostsByDefault) {
  ASSERT_TRUE(Add("/data"));
  EXPECT_TRUE(exports_.table().all()[0]->Admits(Client("203.0.113.1", 50000)));
}

TEST_F(ExportsTest, AdmitsTheConfiguredNetworks) {
  ASSERT_TRUE(Add("/data", {}, {ClientSpec(*Network::Parse("10.0.0.0/8")), ClientSpec(*Network::Parse("::1"))}));
  const Export& data = *exports_.table().all()[0];
  EXPECT_TRUE(data.Admits(Client("10.1.2.3")));
  EXPECT_TRUE(data.Admits(Client("::ffff:10.1.2.3")));
  EXPECT_TRUE(data.Admits(Client("::1")));
  EXPECT_FALSE(data.Admits(Client("192.0.2.1")));
}

TEST(NetworkTest, KnowsWhetherItHasAllHosts) {
  EXPECT_TRUE(Network::Parse("0.0.0.0/0")->HasAllHosts());
  EXPECT_TRUE(Network::Parse("::/0")->HasAllHosts());
  EXPECT_FALSE(Network::Parse("0.0.0.0")->HasAllHosts());
  EXPECT_FALSE(Network::Parse("10.0.0.0/8")->HasAllHosts());
}

TEST_F(ExportsTest, RequiresPrivilegedPortsWithSecure) {
  ASSERT_TRUE(Add("/data", {.privileged_ports = true}));
  const Export& data = *exports_.table().all()[0];
  EXPECT_TRUE(data.Admits(Client("192.0.2.1", 1023)));
  EXPECT_FALSE(data.Admits(Client("192.0.2.1", 1024)));
}

// exports(5): requests with RPCSEC_GSS may come from any port.
TEST_F(ExportsTest, SecureAllowsKerberosFromAnyPort) {
  ASSERT_TRUE(Add("/data", {.privileged_ports = true, .security = {SecurityFlavor::kSys, SecurityFlavor::kKrb5i}}));
  ASSERT_TRUE(Add("/sys", {.privileged_ports = true}));
  const Export& data = *exports_.table().Resolve("/data").found;
  EXPECT_EQ(data.FlavorsFor(Client("192.0.2.1", 50000)), SecurityFlavors{SecurityFlavor::kKrb5i});
  EXPECT_EQ(data.FlavorsFor(Client("192.0.2.1", 700)), (SecurityFlavors{SecurityFlavor::kSys, SecurityFlavor::kKrb5i}));
  EXPECT_FALSE(exports_.table().Resolve("/sys").found->Admits(Client("192.0.2.1", 50000)));
}

TEST_F(ExportsTest, TheMostExactGroupOfAClientGivesItsOptions) {
  ExportTable table;
  const auto with = [](uint32_t anonuid) {
    ExportOptions options;
    options.anonuid = anonuid;
    return options;
  };
  ASSERT_TRUE(table.Add("/data", std::make_shared<fs::memory::FileSystem>(),
                        {{*ClientSpec::Parse("*"), with(1)},
                         {*ClientSpec::Parse("192.0.0.0/16"), with(2)},
                         {*ClientSpec::Parse("192.0.2.0/24"), with(3)},
                         {*ClientSpec::Parse("192.0.2.1"), with(4)}}));
  const Export& data = *table.all()[0];
  const auto uid_of = [&](const char* address) { return data.OptionsFor(Client(address))->anonuid; };
  EXPECT_EQ(uid_of("192.0.2.1"), 4u);
  EXPECT_EQ(uid_of("192.0.2.2"), 2u) << "of two networks, the first one";
  EXPECT_EQ(uid_of("198.51.100.1"), 1u);
}

// Linux's client uses any port for RDMA, even if it uses a privileged one for TCP.
TEST_F(ExportsTest, AdmitsAnyPortOverRdma) {
  ASSERT_TRUE(Add("/data", {.privileged_ports = true}, {ClientSpec(*Network::Parse("192.0.2.0/24"))}));
  rpc::Peer peer = Client("192.0.2.1", 50000);
  peer.transport = rpc::TransportKind::kRdma;
  EXPECT_TRUE(exports_.table().all()[0]->Admits(peer));
  peer.address = {asio::ip::make_address("203.0.113.1"), 700};
  EXPECT_FALSE(exports_.table().all()[0]->Admits(peer)) << "the address is checked";
}

// A client must not get around `secure` by turning its TCP connection into an RDMA connection.
TEST_F(ExportsTest, ChecksThePortOfAConnectionThatHasSteppedUp) {
  ASSERT_TRUE(Add("/data", {.privileged_ports = true}));
  const Export& data = *exports_.table().all()[0];
  rpc::Peer peer = Client("192.0.2.1", 50000);
  peer.transport = rpc::TransportKind::kRdma;
  peer.stepped_up = true;
  EXPECT_FALSE(data.Admits(peer));
  peer.address = Client("192.0.2.1", 1023).address;
  EXPECT_TRUE(data.Admits(peer));
}

}  // namespace
}  // namespace penstock::nfs
