// Reclaims after a restart, and the requests that the server rejects during grace: RFC 8881 §8.4.2.1, RFC 7530 §9.6.2.
#include "nfs/v4/dialect/test_dialects.h"
#include "nfs/v4/operations/stateful_test.h"

namespace penstock::nfs::v4 {
namespace {

class GraceTest : public StatefulTest {
 protected:
  GraceTest() {
    // Imitate a server that has just restarted and knows these clients from its last run.
    const Principal root{rpc::AuthFlavor::AUTH_SYS, 0};
    server.state.Run([&](StateTables& state) {
      state.clients.grace() = Grace({{.owner = OwnerKey(DialectOf(0), "of 4.0"), .principal = root},
                                     {.owner = OwnerKey(DialectOf(0), "another"), .principal = root}},
                                    server.clock.now + std::chrono::seconds(90));
    });
  }
  OPEN4res Reclaim(const Client0& of, const nfs_fh4& what, uint32_t seqid, uint32_t access, uint32_t deny = 0,
                   open_delegation_type4 type = OPEN_DELEGATE_NONE) {
    const auto open = Opening(of.id(), seqid, "owner", access, deny, open_claim4(CLAIM_PREVIOUS, type));
    auto reply = Run0(PutFh(what), open);
    return reply.Skip().Next<OPEN4res>();
  }
  OPEN4res Reclaim(uint32_t seqid, uint32_t access, open_delegation_type4 type = OPEN_DELEGATE_NONE) {
    return Reclaim(client, file, seqid, access, 0, type);
  }

  nfs_fh4 file = MakeFile("file", "data");
  Client0 client{server, "of 4.0"}, another{server, "another"};
};

TEST_F(GraceTest, ReclaimsOpensAndLocks) {
  const auto opened = Reclaim(1, kBoth);
  ASSERT_EQ(opened.status(), NFS4_OK);
  EXPECT_FALSE(opened.resok4().rflags & OPEN4_RESULT_CONFIRM);
  const stateid4 id = opened.resok4().stateid;
  EXPECT_EQ(Run0(PutFh(file), Writing(id)).status, NFS4_OK);
  const auto lock = [&](bool reclaim, uint32_t seqid) {
    return Run0(PutFh(file), Locking(WRITE_LT, 0, 10, NewLocker(client.id(), id, "locker", seqid), reclaim)).status;
  };
  EXPECT_EQ(lock(false, 2), NFS4ERR_GRACE);
  EXPECT_EQ(lock(true, 3), NFS4_OK);
}

TEST_F(GraceTest, ReclaimsDelegationsAndDemandsThemBackWithoutACallbackPath) {
  const auto opened = Reclaim(1, kRead, OPEN_DELEGATE_READ);
  ASSERT_EQ(opened.status(), NFS4_OK);
  ASSERT_EQ(opened.resok4().delegation.delegation_type(), OPEN_DELEGATE_READ);
  EXPECT_TRUE(opened.resok4().delegation.read().recall);
}

// RFC 8881 §8.4.2.1.1: a client may reclaim state that it did not have, by mistake or on purpose.
TEST_F(GraceTest, RejectsAReclaimThatConflictsWithAnotherReclaim) {
  const auto opened = Reclaim(client, file, 1, kBoth, OPEN4_SHARE_DENY_WRITE);
  ASSERT_EQ(opened.status(), NFS4_OK);
  EXPECT_EQ(Reclaim(another, file, 1, kWrite).status(), NFS4ERR_RECLAIM_CONFLICT);
  const auto beside = Reclaim(another, file, 2, kRead);
  ASSERT_EQ(beside.status(), NFS4_OK);

  const auto lock = [&](const Client0& of, const stateid4& id, uint32_t seqid, nfs_lock_type4 type) {
    return Run0(PutFh(file), Locking(type, 0, 10, NewLocker(of.id(), id, "locker", seqid), true)).status;
  };
  EXPECT_EQ(lock(client, opened.resok4().stateid, 2, WRITE_LT), NFS4_OK);
  EXPECT_EQ(lock(another, beside.resok4().stateid, 3, READ_LT), NFS4ERR_RECLAIM_CONFLICT);
}

TEST_F(GraceTest, RejectsReclaimingADelegationThatConflicts) {
  ASSERT_EQ(Reclaim(client, file, 1, kRead).status(), NFS4_OK);
  EXPECT_EQ(Reclaim(another, file, 1, kRead, 0, OPEN_DELEGATE_WRITE).status(), NFS4ERR_RECLAIM_CONFLICT);
  EXPECT_EQ(Reclaim(another, file, 2, kRead, 0, OPEN_DELEGATE_READ).status(), NFS4_OK);

  const nfs_fh4 written = MakeFile("written");
  ASSERT_EQ(Reclaim(client, written, 2, kWrite).status(), NFS4_OK);
  EXPECT_EQ(Reclaim(another, written, 3, kRead, 0, OPEN_DELEGATE_READ).status(), NFS4ERR_RECLAIM_CONFLICT);
  EXPECT_EQ(Reclaim(another, written, 4, kRead).status(), NFS4_OK);

  const nfs_fh4 delegated = MakeFile("delegated");
  ASSERT_EQ(Reclaim(client, delegated, 3, kRead, 0, OPEN_DELEGATE_READ).status(), NFS4_OK);
  EXPECT_EQ(Reclaim(another, delegated, 5, kRead, 0, OPEN_DELEGATE_WRITE).status(), NFS4ERR_RECLAIM_CONFLICT);
  EXPECT_EQ(Reclaim(client, delegated, 4, kRead, 0, OPEN_DELEGATE_READ).status(), NFS4_OK)
      << "the client reclaims its own delegation again";
}

TEST_F(GraceTest, RejectsAReclaimWithoutPermission) {
  const nfs_fh4 secret = MakeFile("secret", "data", 0600);
  server.SetUser(1000);
  EXPECT_EQ(Reclaim(client, secret, 1, kRead).status(), NFS4ERR_ACCESS);
  EXPECT_EQ(Reclaim(client, file, 2, kWrite).status(), NFS4ERR_ACCESS);
  EXPECT_EQ(Reclaim(client, file, 3, kRead, 0, OPEN_DELEGATE_WRITE).status(), NFS4ERR_ACCESS);
  EXPECT_EQ(Reclaim(client, file, 4, kRead, 0, OPEN_DELEGATE_READ).status(), NFS4_OK);
}

// The owner may have created the file with this mode and still have it open for writing.
TEST_F(GraceTest, OwnerOfAFileReclaimsItRegardlessOfTheMode) {
  const nfs_fh4 own = MakeFile("own", "data", 0444);
  fs::NewAttributes owner;
  owner.uid = 1000;
  const fs::Handle object = Now(tree.Lookup(AsRoot(), tree.Root(), "own")).result->handle;
  ASSERT_TRUE(Now(tree.SetAttributes(AsRoot(), object, owner, std::nullopt)).result);
  server.SetUser(1000);
  EXPECT_EQ(Reclaim(client, own, 1, kWrite).status(), NFS4_OK);
}

// In a cluster of servers, another one gives new state as soon as this one has ended the period.
TEST_F(GraceTest, RejectsAReclaimThatIsUnderWayWhenThePeriodEnds) {
  server.faults->OnPin([&] { server.state.Run([](StateTables& state) { state.clients.grace().Close({}); }); });
  EXPECT_EQ(Reclaim(1, kBoth).status(), NFS4ERR_NO_GRACE);
  EXPECT_EQ(another.TryOpen("owner", "file", kRead).status(), NFS4ERR_GRACE) << "the period is not over";
}

TEST_F(GraceTest, GrantsNoNewState) {
  EXPECT_EQ(client.TryOpen("owner", "file", kRead).status(), NFS4ERR_GRACE);
  EXPECT_EQ(Run0(PutFh(file), Reading(kAnonymous)).status, NFS4ERR_GRACE);
  EXPECT_EQ(Run0(PutFh(file), Writing(kAnonymous)).status, NFS4ERR_GRACE);
  stateid4 bypass{.seqid = UINT32_MAX, .other = {}};
  bypass.other.fill(std::byte{0xff});
  EXPECT_EQ(Run0(PutFh(file), Writing(bypass)).status, NFS4ERR_GRACE);
  EXPECT_EQ(Run0(PutFh(file), TestingLock(client.id(), "tester", 0, 10)).status, NFS4ERR_GRACE);
  EXPECT_EQ(Run0(PutRoot(), Op(OP_REMOVE, REMOVE4args{"file"})).status, NFS4ERR_GRACE);
}

TEST_F(GraceTest, RejectsReclaimsOfUnknownClients) {
  Client0 stranger(server, "stranger");
  const auto open = Opening(stranger.id(), 1, "owner", kRead, 0, open_claim4(CLAIM_PREVIOUS, OPEN_DELEGATE_NONE));
  EXPECT_EQ(Run0(PutFh(file), open).status, NFS4ERR_NO_GRACE);
}

}  // namespace
}  // namespace penstock::nfs::v4
