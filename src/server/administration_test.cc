// What an operator sees and does while clients work, through the client library, over real sockets.
#include "server/administration.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <set>

#include "rdma/trace/trace_reader_test_support.h"
#include "server/test_server.h"

namespace penstock::server {
namespace {

using nfs::v4::ShownClient;
using nfs::v4::ShownState;
using nfs::v4::StateKind;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

class AdministrationTest : public ServerTest {
 protected:
  // Runs `use` with a mount, and a file that it has open and whose first ten octets it has locked.
  using UseOfFile = std::function<Task<client::Result<void>>(client::Mount&, client::File&)>;
  std::optional<client::Error> WithLockedFile(UseOfFile use) {
    return WithMount([use](client::Mount& mount, Workers&) -> Task<client::Result<void>> {
      PENSTOCK_CO_TRY(const client::Node top, co_await Find(mount, ""));
      PENSTOCK_CO_TRY(const auto file, co_await mount.CreateFile(top.handle, "file", 0644));
      PENSTOCK_CO_CHECK(co_await file->Lock("owner", {0, 10}, client::LockKind::kExclusive));
      PENSTOCK_CO_CHECK(co_await use(mount, *file));
      co_await file->Close();
      co_return client::Result<void>();
    });
  }
  Administration Admin() { return Administration(*server_); }
  std::vector<ShownState> States(StateKind kind, std::optional<std::set<nfs::v4::ClientId>> clients = {}) {
    std::vector<ShownState> all;
    Admin().VisitStates({kind, std::move(clients)}, [&](ShownState each) {
      all.push_back(std::move(each));
      return true;
    });
    return all;
  }
};

TEST_P(AdministrationTest, ShowsAClientWithItsConnectionOpensAndLocks) {
  StartServer();
  const auto error = WithLockedFile([this](client::Mount&, client::File&) -> Task<client::Result<void>> {
    const auto connections = Admin().Connections();
    const auto clients = Admin().ClientsWithCounts();
    EXPECT_THAT(clients, SizeIs(1));
    const ShownClient& client = clients.at(0);
    EXPECT_TRUE(client.confirmed);
    EXPECT_FALSE(client.lease_is_over);
    EXPECT_EQ(client.opens, 1u);
    EXPECT_EQ(client.locks, 1u);
    EXPECT_EQ(ForPeople(*client.principal), "uid " + std::to_string(::getuid()));
    if (version() == Version::k40) {
      EXPECT_EQ(client.version, "4.0");
      EXPECT_EQ(client.address->to_string(), "127.0.0.1");
    } else {
      EXPECT_THAT(Admin().Sessions(), SizeIs(1));
      const bool rdma = protocol() != Protocol::kTcp;
      const auto is_of_client = [&](const auto& each) {
        return std::ranges::find(client.connections, each.number) != client.connections.end() &&
               each.peer.address().to_string() == "127.0.0.1" &&
               each.transport == (rdma ? rpc::TransportKind::kRdma : rpc::TransportKind::kTcp) &&
               each.stepped_up == (protocol() == Protocol::kStepUp);
      };
      EXPECT_TRUE(std::ranges::any_of(connections, is_of_client));
    }
    const auto opens = States(StateKind::kOpen);
    const auto locks = States(StateKind::kLocks, std::set{client.id});
    EXPECT_THAT(opens, SizeIs(1));
    const auto path = Admin().PathOf(opens.at(0).file);
    EXPECT_EQ(path.text, "/tree/file");
    EXPECT_TRUE(path.is_known);
    EXPECT_TRUE(opens.at(0).share.writes());
    EXPECT_THAT(locks, SizeIs(1));
    EXPECT_THAT(locks.at(0).ranges, testing::ElementsAre(nfs::v4::LockedRange{{0, 9}, true}));
    EXPECT_THAT(States(StateKind::kLocks, std::set{nfs::v4::ClientId(4711)}), IsEmpty());
    co_return client::Result<void>();
  });
  EXPECT_FALSE(error) << error->message;
  StopServer();
}

TEST_P(AdministrationTest, AnEvictedClientLosesItsLockAndAnotherOneGetsIt) {
  StartServer();
  const auto error = WithLockedFile([this](client::Mount& mount, client::File& file) -> Task<client::Result<void>> {
    const auto clients = Admin().Clients();
    EXPECT_THAT(clients, SizeIs(1));
    const auto evicted = Admin().Evict(clients.at(0).id);
    EXPECT_TRUE(evicted.value_or(false)) << (evicted ? "it was not there" : evicted.error().message);
    EXPECT_THAT(States(StateKind::kLocks), IsEmpty());
    Workers workers(2);
    const auto other = co_await WithAnotherMount(mount, workers, [](client::Mount& theirs, Workers&) {
      return [](client::Mount& with) -> Task<client::Result<void>> {
        PENSTOCK_CO_TRY(const client::Node node, co_await Find(with, "file"));
        PENSTOCK_CO_TRY(const auto same, co_await with.OpenFile(node, "file", client::Access::kBoth));
        PENSTOCK_CO_CHECK(co_await same->Lock("other", {0, 10}, client::LockKind::kExclusive));
        co_return co_await same->Close();
      }(theirs);
    });
    workers.Join();
    EXPECT_TRUE(other) << other.error().message;
    // An error, and never a success without the lock.
    EXPECT_FALSE(co_await file.Write(0, AsBytes("mine")));
    co_return client::Result<void>();
  });
  EXPECT_FALSE(error) << error->message;
  EXPECT_EQ(Admin().Evict(nfs::v4::ClientId(4711)).value_or(true), false) << "there is none";
  StopServer();
}

TEST_P(AdministrationTest, RevokedLocksAreGoneAndTheOpenStays) {
  StartServer();
  const auto error = WithLockedFile([this](client::Mount&, client::File&) -> Task<client::Result<void>> {
    const auto locks = States(StateKind::kLocks);
    EXPECT_THAT(locks, SizeIs(1));
    EXPECT_TRUE(Admin().Revoke(locks.at(0).id));
    EXPECT_FALSE(Admin().Revoke(locks.at(0).id)) << "it is gone";
    EXPECT_THAT(States(StateKind::kLocks), IsEmpty());
    EXPECT_THAT(States(StateKind::kOpen), SizeIs(1));
    co_return client::Result<void>();
  });
  EXPECT_FALSE(error) << error->message;
  StopServer();
}

TEST_P(AdministrationTest, AGracePeriodRefusesNewOpensUntilItIsEnded) {
  StartServer();
  const auto error = WithMount([this](client::Mount& mount, Workers&) -> Task<client::Result<void>> {
    PENSTOCK_CO_TRY(const client::Node top, co_await Find(mount, ""));
    EXPECT_FALSE(Admin().EndGrace()) << "there is none";
    Admin().BeginGrace(std::chrono::hours(1));
    EXPECT_TRUE(Admin().GetStatus().in_grace);
    EXPECT_TRUE(Admin().EndGrace());
    // The client repeats the open until the period has ended.
    PENSTOCK_CO_TRY(const auto file, co_await mount.CreateFile(top.handle, "file", 0644));
    EXPECT_FALSE(Admin().GetStatus().in_grace);
    co_return co_await file->Close();
  });
  EXPECT_FALSE(error) << error->message;
  StopServer();
}

TEST_P(AdministrationTest, RecordsTheConnectionsThatBeginWhileATraceIsWritten) {
  if (protocol() != Protocol::kRdma) GTEST_SKIP() << "only RDMA connections are recorded";
  StartServer();
  const auto use = [](client::Mount& mount, Workers&) -> Task<client::Result<void>> {
    PENSTOCK_CO_TRY(const client::Node top, co_await Find(mount, ""));
    co_return client::Result<void>();
  };
  const std::filesystem::path all = directory_.path() / "all.pcapng", others = directory_.path() / "others.pcapng";
  EXPECT_FALSE(Admin().StopRecording());
  EXPECT_FALSE(WithMount(use));
  ASSERT_TRUE(Admin().StartRecording(all, {}));
  EXPECT_FALSE(Admin().StartRecording(others, {})) << "one trace at a time";
  EXPECT_TRUE(Admin().GetStatus().recording);
  EXPECT_FALSE(WithMount(use));
  EXPECT_EQ(Admin().StopRecording(), 0u);
  ASSERT_TRUE(Admin().StartRecording(others, asio::ip::make_address("192.0.2.1")));
  EXPECT_FALSE(WithMount(use));
  EXPECT_EQ(Admin().StopRecording(), 0u);
  StopServer();
  EXPECT_THAT(rdma::trace::Connections(rdma::trace::ReadCapture(all.native())), Not(IsEmpty()));
  EXPECT_THAT(rdma::trace::Connections(rdma::trace::ReadCapture(others.native())), IsEmpty());
}

TEST_P(AdministrationTest, ADrainingServerIsNotReadyAndTakesNoNewClients) {
  StartServer();
  Admin().SetDraining(true);
  EXPECT_TRUE(Admin().GetStatus().draining);
  EXPECT_EQ(Admin().GetStatus().not_ready, "draining: the server takes no new clients");
  asio::io_context context;
  asio::ip::tcp::socket socket(context);
  socket.connect(asio::ip::tcp::endpoint(asio::ip::address_v4::loopback(), server_->addresses().tcp.front().port()));
  std::array<char, 1> octet{};
  asio::error_code closed;
  socket.read_some(asio::buffer(octet), closed);
  EXPECT_TRUE(closed) << "the server has closed the connection";
  Admin().SetDraining(false);
  EXPECT_EQ(Admin().GetStatus().not_ready, "");
  EXPECT_FALSE(WithMount([](client::Mount& mount, Workers&) -> Task<client::Result<void>> {
    PENSTOCK_CO_TRY(const client::Node top, co_await Find(mount, ""));
    co_return client::Result<void>();
  }));
  StopServer();
}

TEST_P(AdministrationTest, AnswersUntilTheEndOfAServerWhoseCallsHaveEnded) {
  StartServer();
  std::vector<nfs::v4::ClientId> clients;
  EXPECT_FALSE(WithMount([&](client::Mount& mount, Workers&) -> Task<client::Result<void>> {
    PENSTOCK_CO_TRY(const client::Node top, co_await Find(mount, ""));
    for (const ShownClient& each : Admin().Clients()) clients.push_back(each.id);
    co_return client::Result<void>();
  }));
  server_->Drain();
  EXPECT_THAT(Admin().GetStatus().not_ready, testing::StartsWith("draining: the server stops"));
  EXPECT_THAT(Admin().Connections(), IsEmpty());
  for (const nfs::v4::ClientId each : clients) Admin().Evict(each).value_or(false);
  EXPECT_THAT(Admin().Sessions(), IsEmpty());
  StopServer();
}

INSTANTIATE_TEST_SUITE_P(
    All, AdministrationTest,
    testing::Values(std::tuple(Protocol::kTcp, Version::k40), std::tuple(Protocol::kRdma, Version::k41),
                    std::tuple(Protocol::kStepUp, Version::kSess01), std::tuple(Protocol::kTcp, Version::k42)),
    [](const auto& each) { return NameOf(std::get<0>(each.param)) + NameOf(std::get<1>(each.param)); });

}  // namespace
}  // namespace penstock::server
