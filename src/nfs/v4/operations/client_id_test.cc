// SETCLIENTID, SETCLIENTID_CONFIRM and RENEW as COMPOUNDs. state/clients/clients_0_test.cc tests the cases of the
// tables.
#include "nfs/v4/engine/nfs4_test.h"

namespace penstock::nfs::v4 {
namespace {

class ClientIdTest : public Nfs4Test {
 protected:
  SETCLIENTID4res Set(uint64_t verifier = 1, std::string_view address = "192.0.2.1.8.1") {
    SETCLIENTID4args arguments{};
    StoreBig(arguments.client.verifier.data(), verifier);
    arguments.client.id = {AsBytes("client")};
    arguments.callback = {.cb_program = 0x40000000, .cb_location = {.na_r_netid = "tcp", .na_r_addr = address}};
    arguments.callback_ident = 5;
    return Run0(Op(OP_SETCLIENTID, arguments)).Next<SETCLIENTID4res>();
  }
  nfsstat4 Confirm(const SETCLIENTID4resok& set) {
    return Run0(Op(OP_SETCLIENTID_CONFIRM, SETCLIENTID_CONFIRM4args{set.clientid, set.setclientid_confirm})).status;
  }
  nfsstat4 Renew(uint64_t id) { return Run0(Op(OP_RENEW, RENEW4args{id})).status; }
  uint64_t OpenClient(uint64_t verifier = 1) {
    const auto set = Set(verifier).resok4();
    EXPECT_EQ(Confirm(set), NFS4_OK);
    return set.clientid;
  }
  // Returns the callback address, or no value if the server does not call clients at this address.
  std::optional<SocketAddress> CallbackFor(std::string_view address) {
    const auto set = Set(1, address).resok4();
    EXPECT_EQ(Confirm(set), NFS4_OK);
    return server.state.Run(
        [&](StateTables& state) { return state.clients.Find(ClientId(set.clientid))->callback.endpoint; });
  }
};

TEST_F(ClientIdTest, SetsAndConfirmsAClientId) {
  const auto set = Set();
  ASSERT_EQ(set.status(), NFS4_OK);
  EXPECT_EQ(Renew(set.resok4().clientid), NFS4ERR_EXPIRED);
  EXPECT_EQ(Confirm(set.resok4()), NFS4_OK);
  EXPECT_EQ(Confirm(set.resok4()), NFS4_OK);
  EXPECT_EQ(Renew(set.resok4().clientid), NFS4_OK);
}

// RFC 7530 §3.3.3
TEST_F(ClientIdTest, CallsAClientWithKerberosByThePrincipalsOfSetClientId) {
  const TestInitiator machine("host/client");
  server.SetInitiator(machine, rpc::GssService::kIntegrity);
  const auto callback = [&](const SETCLIENTID4resok& set) {
    EXPECT_EQ(Confirm(set), NFS4_OK);
    return server.state.Run([&](StateTables& state) { return state.clients.Find(ClientId(set.clientid))->callback; });
  };
  const CallbackAddress protected_calls = callback(Set(1).resok4());
  EXPECT_TRUE(protected_calls.endpoint);
  EXPECT_EQ(
      protected_calls.security,
      (CallbackSecurity{.service = rpc::GssService::kIntegrity, .client = "host/client", .server = "nfs/server"}));

  const TestInitiator over_ccm("host/client", rpc::kNobody, rpc::GssMechanism::kConjunction);
  server.SetInitiator(over_ccm, rpc::GssService::kIntegrity);
  EXPECT_FALSE(callback(Set(2).resok4()).endpoint) << "the server makes no contexts of this mechanism";
}

TEST_F(ClientIdTest, RejectsAnUnknownConfirmation) {
  auto set = Set().resok4();
  set.setclientid_confirm = {};
  EXPECT_EQ(Confirm(set), NFS4ERR_STALE_CLIENTID);
}

TEST_F(ClientIdTest, RequiresTheSamePrincipalToConfirm) {
  const auto set = Set().resok4();
  server.SetUser(5);
  EXPECT_EQ(Confirm(set), NFS4ERR_CLID_INUSE);
}

TEST_F(ClientIdTest, RejectsUnknownClientsAsStale) {
  EXPECT_EQ(Renew(0), NFS4ERR_STALE_CLIENTID);
  EXPECT_EQ(Renew(4711), NFS4ERR_STALE_CLIENTID);
}

TEST_F(ClientIdTest, RenewDoesNotReportALostCallbackPathToAClientWithoutDelegations) {
  const uint64_t id = OpenClient();
  server.state.Run([&](StateTables& state) { state.clients.SetPath(ClientId(id), PathState::kDown); });
  EXPECT_EQ(Renew(id), NFS4_OK);
}

TEST_F(ClientIdTest, ProbesTheCallbackAddress) {
  const uint64_t id = OpenClient();
  EXPECT_EQ(server.callbacks.probes, std::vector{ClientId(id)});
}

TEST_F(ClientIdTest, AcceptsOnlyACallbackAddressOfTheCallersHost) {
  const SocketAddress home(asio::ip::make_address("192.0.2.1"), 2049);
  EXPECT_EQ(CallbackFor("192.0.2.1.8.1"), home);
  EXPECT_EQ(CallbackFor("192.0.2.2.8.1"), std::nullopt);
  EXPECT_EQ(CallbackFor("nowhere"), std::nullopt);
  server.peer.address = {asio::ip::make_address("::ffff:192.0.2.1"), 700};
  EXPECT_EQ(CallbackFor("192.0.2.1.8.1"), home);
}

}  // namespace
}  // namespace penstock::nfs::v4
