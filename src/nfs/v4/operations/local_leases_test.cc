// Local programs on the server's host that open delegated files for writing. The server recalls the delegations for
// them.
#include "nfs/v4/operations/local_leases.h"

#include "fs/test_leases.h"
#include "nfs/v4/operations/lease.h"
#include "nfs/v4/operations/stateful_test.h"

namespace penstock::nfs::v4 {
namespace {

using testing::IsEmpty;
using testing::SizeIs;

constexpr uint32_t kWantRead = OPEN4_SHARE_ACCESS_WANT_READ_DELEG;

class LocalProgramsTest : public StatefulTest {
 protected:
  LocalProgramsTest() {
    LetCall(Client());
    server.faults->OfferLeases([this] { return leases.Open(); });
  }
  ~LocalProgramsTest() override {
    server.state.Run([&](StateTables& state) { state.files.ForgetClient(Client().client(), Ending::kReleased, {}); });
  }

  open_delegation4 Given(uint32_t access) {
    const auto opened = TryOpen(Client(), "file", access);
    EXPECT_EQ(opened.status(), NFS4_OK);
    return opened.resok4().delegation;
  }
  stateid4 Delegation() {
    const auto given = Given(kRead | kWantRead);
    EXPECT_EQ(given.delegation_type(), OPEN_DELEGATE_READ);
    EXPECT_EQ(leases.held, 1u);
    return given.read().stateid;
  }
  nfsstat4 Return(const stateid4& id) { return Run(PutFh(file), Op(OP_DELEGRETURN, DELEGRETURN4args{id})).status; }
  // A local program opens the file for writing.
  void Break() {
    leases.broken = true;
    Spawn(LookAtLocalLeases(server.GetServices(), nullptr));
  }
  void Keep() { Spawn(KeepLeases(server.GetServices(), nullptr)); }

  fs::TestLeases leases;
  const nfs_fh4 file = MakeFile("file", "data", 0666);
};

TEST_F(LocalProgramsTest, RecallAReadDelegationAndWaitForItsReturn) {
  const stateid4 id = Delegation();
  Break();
  ASSERT_THAT(server.callbacks.recalls, SizeIs(1));
  EXPECT_EQ(server.callbacks.recalls[0].client, Client().client());
  EXPECT_EQ(server.callbacks.recalls[0].delegation.other, id.other);
  Break();
  Keep();
  EXPECT_THAT(server.callbacks.recalls, SizeIs(1));
  EXPECT_EQ(leases.held, 1u);
  EXPECT_EQ(Return(id), NFS4_OK);
  EXPECT_EQ(leases.held, 0u);
}

TEST_F(LocalProgramsTest, WaitAtMostUntilTheDelegationIsRevoked) {
  const stateid4 id = Delegation();
  Break();
  Pass(server.settings.lease - std::chrono::seconds(1));
  EXPECT_EQ(Run().status, NFS4_OK);
  Keep();
  EXPECT_EQ(leases.held, 1u);
  Pass(std::chrono::seconds(1));
  Keep();
  EXPECT_EQ(leases.held, 0u);
  EXPECT_EQ(Return(id), NFS4ERR_DELEG_REVOKED);
}

TEST_F(LocalProgramsTest, DoNotWaitForAnExpiredClient) {
  Delegation();
  PassLease();
  Break();
  EXPECT_EQ(leases.held, 0u);
  EXPECT_THAT(server.callbacks.recalls, SizeIs(1));
}

TEST_F(LocalProgramsTest, PreventDelegationsWhileTheyHaveTheFileOpenForWriting) {
  leases.contended = true;
  EXPECT_EQ(Given(kRead | kWantRead).od_whynone().ond_why(), WND4_CONTENTION);
  const auto want = Op(OP_WANT_DELEGATION, WANT_DELEGATION4args{kWantRead, deleg_claim4(CLAIM_FH)});
  const auto none = Run(PutFh(file), want).Skip().Next<WANT_DELEGATION4res>();
  EXPECT_EQ(none.wdr_resok4().od_whynone().ond_why(), WND4_CONTENTION);
  EXPECT_EQ(leases.asked, 2u);
}

TEST_F(LocalProgramsTest, RecallADelegationFromWantDelegation) {
  const auto want = Op(OP_WANT_DELEGATION, WANT_DELEGATION4args{kWantRead, deleg_claim4(CLAIM_FH)});
  const auto given = Run(PutFh(file), want).Skip().Next<WANT_DELEGATION4res>();
  ASSERT_EQ(given.wdr_resok4().delegation_type(), OPEN_DELEGATE_READ);
  EXPECT_EQ(leases.held, 1u);
  Break();
  EXPECT_THAT(server.callbacks.recalls, SizeIs(1));
}

TEST_F(LocalProgramsTest, NoLeaseIsTakenWithoutAReadDelegation) {
  Given(kRead | OPEN4_SHARE_ACCESS_WANT_NO_DELEG);
  EXPECT_EQ(Given(kBoth).delegation_type(), OPEN_DELEGATE_WRITE);
  EXPECT_EQ(leases.asked, 0u);
}

// A local lease would block the server's own writes for the holder, so the server gives the lease up.
TEST_F(LocalProgramsTest, DoNotWaitForAHolderThatWritesItself) {
  Delegation();
  EXPECT_EQ(TryOpen(Client(), "file", kBoth).status(), NFS4_OK);
  EXPECT_EQ(leases.held, 0u);
  EXPECT_THAT(server.callbacks.recalls, IsEmpty());
}

TEST_F(LocalProgramsTest, DoNotWaitForAHolderThatWritesWithoutAnOpen) {
  Delegation();
  EXPECT_EQ(Run(PutFh(file), Writing(kAnonymous)).status, NFS4_OK);
  EXPECT_EQ(leases.held, 0u);
  EXPECT_THAT(server.callbacks.recalls, IsEmpty());
}

TEST_F(LocalProgramsTest, RecallNothingIfNoProgramWaits) {
  Delegation();
  Spawn(LookAtLocalLeases(server.GetServices(), nullptr));
  Keep();
  EXPECT_THAT(server.callbacks.recalls, IsEmpty());
  EXPECT_EQ(leases.held, 1u);
}

}  // namespace
}  // namespace penstock::nfs::v4
