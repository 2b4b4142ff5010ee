// Tests SP4_MACH_CRED (RFC 8881 §2.10.8.3) and the principals of RPCSEC_GSS.
#include "nfs/v4/state/clients/state_protection.h"

#include "nfs/v4/dialect/test_dialects.h"
#include "nfs/v4/state/clients/test_clients.h"

namespace penstock::nfs::v4 {
namespace {

using namespace nfs4;  // NOLINT: the protocol's own names, RFC 8881

Principal Initiator(std::string name) { return {.flavor = rpc::AuthFlavor::RPCSEC_GSS, .name = std::move(name)}; }
Sender Sealed(const Principal& principal) { return {principal, true}; }

const Principal kMachine = Initiator("nfs/client.example.org@EXAMPLE.ORG");
const Principal kAlice = Initiator("alice@EXAMPLE.ORG");

// The operations that Linux (6.1) asks for.
state_protect_ops4 LinuxWishes() {
  return {
      .spo_must_enforce = OperationSet{OP_BIND_CONN_TO_SESSION, OP_EXCHANGE_ID, OP_CREATE_SESSION, OP_DESTROY_SESSION,
                                       OP_DESTROY_CLIENTID}
                              .ToBitmap(),
      .spo_must_allow = OperationSet{OP_CLOSE, OP_OPEN_DOWNGRADE, OP_LOCKU, OP_DELEGRETURN, OP_LAYOUTRETURN, OP_SECINFO,
                                     OP_SECINFO_NO_NAME, OP_TEST_STATEID, OP_FREE_STATEID, OP_WRITE, OP_COMMIT}
                            .ToBitmap()};
}

// ---- the lists of operations ----

TEST(StateProtection, AlwaysEnforcesOperationsOnClientsAndSessions) {
  const OperationSet always{OP_BIND_CONN_TO_SESSION, OP_EXCHANGE_ID, OP_CREATE_SESSION, OP_DESTROY_SESSION,
                            OP_DESTROY_CLIENTID};
  EXPECT_EQ(StateProtection::ByMachine(LinuxWishes()).enforced, always);
  EXPECT_EQ(StateProtection::ByMachine({}).enforced, always);
}

TEST(StateProtection, EnforcesRequestedOperationsThatNeedNoFilehandle) {
  const OperationSet wishes{OP_DELEGPURGE, OP_BACKCHANNEL_CTL, OP_CLOSE, OP_READ};
  const StateProtection made = StateProtection::ByMachine({.spo_must_enforce = wishes.ToBitmap()});
  EXPECT_TRUE(made.enforced.Has(OP_DELEGPURGE));
  EXPECT_TRUE(made.enforced.Has(OP_BACKCHANNEL_CTL));
  EXPECT_FALSE(made.enforced.Has(OP_CLOSE));
  EXPECT_FALSE(made.enforced.Has(OP_READ));
}

TEST(StateProtection, AllowsRequestedOperationsOnStateButNotOnData) {
  const StateProtection made = StateProtection::ByMachine(LinuxWishes());
  EXPECT_EQ(made.allowed, (OperationSet{OP_CLOSE, OP_OPEN_DOWNGRADE, OP_LOCKU, OP_DELEGRETURN, OP_SECINFO,
                                        OP_SECINFO_NO_NAME, OP_TEST_STATEID, OP_FREE_STATEID}));
  EXPECT_EQ(StateProtection::ByMachine({}).allowed, OperationSet());
}

TEST(OperationSet, IgnoresBitsBeyondTheLastOperation) {
  const OperationSet all(bitmap4{UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX});
  EXPECT_TRUE(all.Has(OP_REMOVEXATTR));
  EXPECT_FALSE(all.Has(OP_ILLEGAL));
  EXPECT_EQ(all.ToBitmap().size(), 3u);
  EXPECT_TRUE(OperationSet().ToBitmap().empty());
  EXPECT_EQ(OperationSet{OP_CLOSE}.ToBitmap(), (bitmap4{16}));
}

// ---- principals ----

TEST(PrincipalTest, RpcsecGssPrincipalIsTheInitiatorNotTheLocalUser) {
  const rpc::GssInitiator alice{.name = "exported", .display = "alice@EXAMPLE.ORG"};
  rpc::Credential credential;
  credential.flavor = rpc::AuthFlavor::RPCSEC_GSS;
  credential.initiator = &alice;
  credential.uid = 1000;
  const Principal before = Principal::Of(credential);
  credential.uid = 1001;
  EXPECT_EQ(Principal::Of(credential), before);
  const rpc::GssInitiator other{.name = "another", .display = "alice@EXAMPLE.ORG"};
  credential.initiator = &other;
  EXPECT_NE(Principal::Of(credential), before);
}

TEST(PrincipalTest, SenderIsProtectedWithIntegrityOrPrivacy) {
  rpc::Credential credential;
  EXPECT_FALSE(Sender::Of(credential).is_protected);
  credential.flavor = rpc::AuthFlavor::RPCSEC_GSS;
  EXPECT_FALSE(Sender::Of(credential).is_protected);
  credential.service = rpc::GssService::kIntegrity;
  EXPECT_TRUE(Sender::Of(credential).is_protected);
  credential.service = rpc::GssService::kPrivacy;
  EXPECT_TRUE(Sender::Of(credential).is_protected);
  credential.mechanism = rpc::GssMechanism::kConjunction;
  EXPECT_FALSE(Sender::Of(credential).is_protected) << "CCM has no cryptography";
}

// ---- protection in the tables ----

class ProtectedClientTest : public ClientsTest {
 protected:
  Result<ExchangeIdResult, nfsstat4> ExchangeBy(const Sender& sender, uint64_t verifier = 1, bool update = false,
                                                bool protect = true) {
    return tables_.Exchange({.verifier = Verifier(verifier),
                             .owner = "owner",
                             .update = update,
                             .dialect = DialectOf(1),
                             .protection = protect ? StateProtection::ByMachine(LinuxWishes()) : StateProtection()},
                            sender, now_);
  }
  nfsstat4 CreateBy(const Sender& sender, ClientId client, uint32_t sequence, uint64_t connection = 1) {
    const SessionConnection over{.number = connection};
    const auto created = tables_.CreateSession(
        {.client = client, .sequence = SequenceId(sequence), .fore = PlainChannel(), .back = PlainChannel(4)}, over,
        sender, ++random_, now_);
    if (created.reply.csr_status() == NFS4_OK) session_ = created.reply.csr_resok4().csr_sessionid;
    return created.reply.csr_status();
  }
  ClientId OpenProtected() {
    const auto exchanged = ExchangeBy(Sealed(kMachine));
    EXPECT_EQ(CreateBy(Sealed(kMachine), exchanged->id, exchanged->sequence.value()), NFS4_OK);
    return exchanged->id;
  }

  SessionId session_{};
};

// RFC 8881 §2.4, §18.35.3
TEST_F(ProtectedClientTest, AnotherPrincipalIsNotTheSameClient) {
  const ClientId client = OpenProtected();
  EXPECT_EQ(ExchangeBy(Sealed(kMachine))->id, client);
  EXPECT_EQ(ExchangeBy(Sealed(kAlice)).error(), NFS4ERR_CLID_INUSE);
  EXPECT_EQ(ExchangeBy(User(0)).error(), NFS4ERR_CLID_INUSE);
  EXPECT_EQ(ExchangeBy(Sealed(kAlice), 1, true).error(), NFS4ERR_PERM);
}

TEST_F(ProtectedClientTest, UnprotectedCallOfTheMachineIsNotTheSameClient) {
  OpenProtected();
  EXPECT_EQ(ExchangeBy(kMachine).error(), NFS4ERR_CLID_INUSE);
  EXPECT_EQ(ExchangeBy(kMachine, 2).error(), NFS4ERR_CLID_INUSE);
  EXPECT_EQ(ExchangeBy(kMachine, 1, true).error(), NFS4ERR_PERM);
  EXPECT_TRUE(ExchangeBy(Sealed(kMachine), 1, true));
}

// RFC 8881 §18.35.3: "once the client ID is confirmed, this property cannot be updated".
TEST_F(ProtectedClientTest, ConfirmedClientKeepsItsProtection) {
  const ClientId client = OpenProtected();
  for (const bool update : {false, true}) {
    const auto again = ExchangeBy(Sealed(kMachine), 1, update, false);
    ASSERT_TRUE(again);
    EXPECT_EQ(again->id, client);
    EXPECT_EQ(again->protection, StateProtection::ByMachine(LinuxWishes()));
  }
}

TEST_F(ProtectedClientTest, UnprotectedClientStaysUnprotected) {
  const auto first = ExchangeBy(Sealed(kMachine), 1, false, false);
  EXPECT_EQ(CreateBy(Sealed(kMachine), first->id, first->sequence.value()), NFS4_OK);
  EXPECT_EQ(ExchangeBy(Sealed(kMachine))->protection, StateProtection());
  EXPECT_TRUE(ExchangeBy(kMachine));  // RPCSEC_GSS without integrity is the same principal
}

TEST_F(ProtectedClientTest, NextIncarnationMayChooseItsProtection) {
  const ClientId client = OpenProtected();
  const auto next = ExchangeBy(Sealed(kMachine), 2, false, false);
  ASSERT_TRUE(next);
  EXPECT_EQ(next->protection, StateProtection());
  EXPECT_EQ(CreateBy(kMachine, next->id, next->sequence.value()), NFS4_OK);
  EXPECT_FALSE(clients_.Has(client));
}

TEST_F(ProtectedClientTest, OnlyTheMachineMayCreateSessions) {
  const auto exchanged = ExchangeBy(Sealed(kMachine));
  const uint32_t sequence = exchanged->sequence.value();
  EXPECT_EQ(CreateBy(Sealed(kAlice), exchanged->id, sequence), NFS4ERR_WRONG_CRED);
  EXPECT_EQ(CreateBy(kMachine, exchanged->id, sequence), NFS4ERR_WRONG_CRED);
  EXPECT_EQ(CreateBy(Sealed(kMachine), exchanged->id, sequence), NFS4_OK);
  EXPECT_EQ(CreateBy(Sealed(kAlice), exchanged->id, sequence + 1), NFS4ERR_WRONG_CRED);
  EXPECT_EQ(CreateBy(Sealed(kMachine), exchanged->id, sequence + 1), NFS4_OK);
}

// A retry of CREATE_SESSION adds its connection to the session, so only the machine may send it.
TEST_F(ProtectedClientTest, OnlyTheMachineMayRetryCreateSession) {
  const auto exchanged = ExchangeBy(Sealed(kMachine));
  ASSERT_EQ(CreateBy(Sealed(kMachine), exchanged->id, exchanged->sequence.value()), NFS4_OK);
  EXPECT_EQ(CreateBy(Sealed(kAlice), exchanged->id, exchanged->sequence.value(), 2), NFS4ERR_WRONG_CRED);
  EXPECT_EQ(CreateBy(Sealed(kMachine), exchanged->id, exchanged->sequence.value(), 3), NFS4_OK);
  connection_ = {.number = 2};
  EXPECT_EQ(Sequence(session_), NFS4ERR_CONN_NOT_BOUND_TO_SESSION);
  connection_ = {.number = 3};
  EXPECT_EQ(Sequence(session_), NFS4_OK);
}

// RFC 8881 §2.10.3.1, §15.1.11.6
TEST_F(ProtectedClientTest, ConnectionMustBeBoundToTheSession) {
  OpenProtected();
  EXPECT_EQ(Sequence(session_, 0, 1), NFS4_OK);
  connection_ = {.number = 2};
  EXPECT_EQ(Sequence(session_, 0, 2), NFS4ERR_CONN_NOT_BOUND_TO_SESSION);
  EXPECT_EQ(sessions_.Bind(session_, connection_, CDFC4_FORE, Sealed(kAlice)).error(), NFS4ERR_WRONG_CRED);
  EXPECT_EQ(Sequence(session_, 0, 2), NFS4ERR_CONN_NOT_BOUND_TO_SESSION);
  ASSERT_TRUE(sessions_.Bind(session_, connection_, CDFC4_FORE, Sealed(kMachine)));
  EXPECT_EQ(Sequence(session_, 0, 2), NFS4_OK);
}

TEST_F(ProtectedClientTest, AnySenderMayUseOperationsThatAreNotEnforced) {
  const ClientId client = OpenProtected();
  EXPECT_EQ(clients_.CheckProtection(client, OP_CLOSE, User(1000)), NFS4_OK);
  EXPECT_EQ(clients_.CheckProtection(client, OP_BACKCHANNEL_CTL, User(1000)), NFS4_OK);
  EXPECT_EQ(clients_.CheckProtection(client, OP_DESTROY_CLIENTID, User(1000)), NFS4ERR_WRONG_CRED);
  EXPECT_EQ(clients_.CheckProtection(Open("other").client, OP_DESTROY_CLIENTID, User(1000)), NFS4_OK);
}

TEST_F(ProtectedClientTest, OnlyTheMachineMayUseAllowedOperations) {
  const ClientId client = OpenProtected();
  EXPECT_TRUE(clients_.MachineMay(client, OP_CLOSE, Sealed(kMachine)));
  EXPECT_FALSE(clients_.MachineMay(client, OP_CLOSE, kMachine));
  EXPECT_FALSE(clients_.MachineMay(client, OP_CLOSE, Sealed(kAlice)));
  EXPECT_FALSE(clients_.MachineMay(client, OP_READ, Sealed(kMachine)));
  const auto plain =
      tables_.Exchange({.verifier = Verifier(1), .owner = "plain", .dialect = DialectOf(1)}, Sealed(kMachine), now_);
  EXPECT_FALSE(clients_.MachineMay(plain->id, OP_CLOSE, Sealed(kMachine)));
}

// RFC 8881 §8.4.2.1
TEST_F(ProtectedClientTest, OnlyTheSameInitiatorMayReclaim) {
  clients_.grace() =
      Grace({{OwnerKey(DialectOf(1), "owner"), kMachine}, {OwnerKey(DialectOf(1), "other"), kAlice}}, now_ + kLease);
  EXPECT_EQ(clients_.CheckReclaim(OpenProtected()), NFS4_OK);
  EXPECT_EQ(clients_.CheckReclaim(Open("other").client), NFS4ERR_NO_GRACE);
}

}  // namespace
}  // namespace penstock::nfs::v4
