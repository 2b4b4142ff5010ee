// OPEN, OPEN_CONFIRM, OPEN_DOWNGRADE and CLOSE of version 4.0: RFC 7530 §9.1.7 to §9.1.11.
#include "nfs/v4/operations/stateful_test.h"

namespace penstock::nfs::v4 {
namespace {

class Open0Test : public StatefulTest {
 protected:
  Open0Test() { file = MakeFile("file", "data"); }

  CompoundReply Confirm(const stateid4& id, uint32_t seqid) {
    return Run0(PutFh(file), Op(OP_OPEN_CONFIRM, OPEN_CONFIRM4args{id, seqid}));
  }
  CompoundReply Downgrade(const stateid4& id, uint32_t seqid, uint32_t access) {
    return Run0(PutFh(file), Op(OP_OPEN_DOWNGRADE, OPEN_DOWNGRADE4args{id, seqid, access, 0}));
  }

  nfs_fh4 file;
  Client0 client{server, "of 4.0"};
};

TEST_F(Open0Test, RequiresConfirmationOfAnOwnersFirstOpen) {
  const auto opened = client.TryOpen("owner", "file", kRead);
  ASSERT_EQ(opened.status(), NFS4_OK);
  EXPECT_EQ(opened.resok4().rflags, OPEN4_RESULT_LOCKTYPE_POSIX | OPEN4_RESULT_CONFIRM);
  const stateid4 id = opened.resok4().stateid;
  EXPECT_EQ(Run0(PutFh(file), Reading(id)).status, NFS4ERR_BAD_STATEID);
  EXPECT_EQ(Confirm(id, 50).status, NFS4ERR_BAD_SEQID);
  EXPECT_EQ(Confirm(kAnonymous, 2).status, NFS4ERR_BAD_STATEID);
  auto reply = Confirm(id, 2);
  const stateid4 confirmed = reply.Skip().Next<OPEN_CONFIRM4res>().resok4().open_stateid;
  EXPECT_EQ(confirmed.seqid, id.seqid + 1);
  EXPECT_EQ(Run0(PutFh(file), Reading(confirmed)).status, NFS4_OK);
  EXPECT_EQ(Confirm(confirmed, 3).status, NFS4ERR_BAD_STATEID);
  client.Advance("owner");
  EXPECT_EQ(client.TryOpen("owner", "file", kRead).resok4().rflags, OPEN4_RESULT_LOCKTYPE_POSIX);
}

TEST_F(Open0Test, ForgetsAnUnconfirmedOpen) {
  const auto old = client.TryOpen("owner", "file", kRead, OPEN4_SHARE_DENY_WRITE);
  const auto opening = [&](uint32_t seqid) { return Opening(client.id(), seqid, "owner", kWrite, 0, Named("file")); };
  auto reply = Run0(PutRoot(), opening(77));
  const auto opened = reply.Skip().Next<OPEN4res>();
  ASSERT_EQ(opened.status(), NFS4_OK);
  EXPECT_TRUE(opened.resok4().rflags & OPEN4_RESULT_CONFIRM);
  EXPECT_EQ(Confirm(old.resok4().stateid, 2).status, NFS4ERR_BAD_STATEID);
  EXPECT_EQ(Confirm(opened.resok4().stateid, 78).status, NFS4_OK);
}

TEST_F(Open0Test, RepeatsTheReplyOnRetry) {
  client.Open("owner", "file", kRead);
  const uint32_t seqid = client.seqid("owner");
  const auto open = Opening(client.id(), seqid, "owner", kBoth, OPEN4_SHARE_DENY_BOTH, Named("file"));
  auto denied = Run0(PutRoot(), open);
  EXPECT_EQ(denied.status, NFS4ERR_SHARE_DENIED);
  EXPECT_EQ(Run0(PutRoot(), open).status, NFS4ERR_SHARE_DENIED);

  const auto next = Opening(client.id(), seqid + 1, "owner", kWrite, 0, Named("file"));
  auto first = Run0(PutRoot(), next, GetFh());
  auto again = Run0(PutRoot(), next, GetFh());
  const auto opened = first.Skip().Next<OPEN4res>();
  EXPECT_EQ(again.Skip().Next<OPEN4res>(), opened);
  EXPECT_EQ(again.Next<GETFH4res>().resok4().object, file);
  EXPECT_EQ(opened.resok4().stateid.seqid, 3u);
}

TEST_F(Open0Test, RejectsASeqidOutOfOrder) {
  const stateid4 open = client.Open("owner", "file", kRead);
  const uint32_t seqid = client.seqid("owner");
  const auto opening = [&](uint32_t number) {
    return Run0(PutRoot(), Opening(client.id(), number, "owner", kRead, 0, Named("file"))).status;
  };
  EXPECT_EQ(opening(seqid + 1), NFS4ERR_BAD_SEQID);
  EXPECT_EQ(opening(seqid - 2), NFS4ERR_BAD_SEQID);
  EXPECT_EQ(opening(seqid - 1), NFS4ERR_BAD_SEQID);  // seqid - 1 was the OPEN_CONFIRM
  EXPECT_EQ(Run0(PutFh(file), Closing(open, seqid + 1)).status, NFS4ERR_BAD_SEQID);
  EXPECT_EQ(Downgrade(open, 50, kRead).status, NFS4ERR_BAD_SEQID);
  EXPECT_EQ(opening(seqid), NFS4_OK);
}

TEST_F(Open0Test, RepeatsTheReplyOfCloseOnRetry) {
  const stateid4 open = client.Open("owner", "file", kRead);
  const uint32_t seqid = client.seqid("owner");
  auto first = Run0(PutFh(file), Closing(open, seqid));
  const auto closed = first.Skip().Next<CLOSE4res>();
  ASSERT_EQ(closed.status(), NFS4_OK);
  auto again = Run0(PutFh(file), Closing(open, seqid));
  EXPECT_EQ(again.Skip().Next<CLOSE4res>(), closed);
  EXPECT_EQ(Run0(PutFh(file), Closing(open, seqid + 1)).status, NFS4ERR_BAD_STATEID);
  EXPECT_EQ(Run0(PutFh(file), Reading(open)).status, NFS4ERR_BAD_STATEID);
}

TEST_F(Open0Test, DistinguishesOldStaleAndBadStateids) {
  const stateid4 open = client.Open("owner", "file", kRead);
  stateid4 old = open;
  --old.seqid;
  EXPECT_EQ(Run0(PutFh(file), Closing(old, client.seqid("owner"))).status, NFS4ERR_OLD_STATEID);
  client.Advance("owner");
  EXPECT_EQ(Downgrade(old, client.seqid("owner"), kRead).status, NFS4ERR_OLD_STATEID);
  client.Advance("owner");
  stateid4 stale = open;
  stale.other = {};
  stale.other[3] = std::byte{1};
  EXPECT_EQ(Run0(PutFh(file), Closing(stale, 9)).status, NFS4ERR_STALE_STATEID);
  EXPECT_EQ(Run0(PutFh(file), Closing(kAnonymous, 9)).status, NFS4ERR_BAD_STATEID);
  EXPECT_EQ(Run0(PutFh(file), Closing(open, client.seqid("owner"))).status, NFS4_OK);
}

TEST_F(Open0Test, RejectsUnknownClientsAsStale) {
  const auto open = Opening(ClientId(0x1234'0000'0001), 1, "owner", kRead, 0, Named("file"));
  EXPECT_EQ(Run0(PutRoot(), open).status, NFS4ERR_STALE_CLIENTID);
}

TEST_F(Open0Test, ReportsExpiredForStateLostWithTheLease) {
  const stateid4 open = client.Open("owner", "file", kRead, OPEN4_SHARE_DENY_WRITE);
  PassLease();
  EXPECT_EQ(TryOpen(Client(), "file", kWrite).status(), NFS4_OK);
  EXPECT_EQ(Run0(PutFh(file), Closing(open, client.seqid("owner"))).status, NFS4ERR_EXPIRED);
  EXPECT_EQ(client.TryOpen("owner", "file", kRead).status(), NFS4ERR_EXPIRED);
}

// RFC 7530 §9.5
TEST_F(Open0Test, StateidsRenewTheLease) {
  const stateid4 open = client.Open("owner", "file", kRead, OPEN4_SHARE_DENY_WRITE);
  for (int i = 0; i < 3; ++i) {
    Pass(server.settings.lease / 2);
    EXPECT_EQ(Run0(PutFh(file), Reading(open)).status, NFS4_OK);
  }
  EXPECT_EQ(TryOpen(Client(), "file", kWrite).status(), NFS4ERR_SHARE_DENIED);
}

}  // namespace
}  // namespace penstock::nfs::v4
