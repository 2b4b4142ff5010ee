// Requests of clients while there are too many delegations (RFC 8881 §20.6), and what KeepLeases() does about it.
#include <string>

#include "nfs/v4/operations/delegation_test.h"
#include "nfs/v4/operations/lease.h"

namespace penstock::nfs::v4 {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

// The hoarder has eleven delegations, and the other client three: too many by two. So the level is nine.
class DelegationSurplusTest : public StatefulTest {
 protected:
  static constexpr size_t kTooMany = 14;
  static constexpr size_t kHoard = 11;

  DelegationSurplusTest() : StatefulTest({}, {.delegations = 16}) {
    for (size_t i = 0; i < 20; ++i) handles.push_back(MakeFile(NameOfFile(i), "data", 0666));
    LetCall(Client());
    LetCall(Other());
  }

  static std::string NameOfFile(size_t number) { return "file " + std::to_string(number); }
  open_delegation4 Open(SessionClient& client, size_t number) {
    const auto opened = TryOpen(client, NameOfFile(number), kRead | kWantRead);
    EXPECT_EQ(opened.status(), NFS4_OK);
    return opened.resok4().delegation;
  }
  // The hoarder opens eleven files, the other one three others.
  void Hoard(SessionClient& hoarder) {
    for (size_t i = 0; i < kTooMany; ++i) {
      const auto given = Open(i < kHoard ? hoarder : Other(), i);
      ASSERT_TRUE(given.is_read()) << i;
      ids.push_back(given.read().stateid);
    }
  }
  void Return(SessionClient& client, size_t number) {
    EXPECT_EQ(client.Run(PutFh(handles[number]), Op(OP_DELEGRETURN, DELEGRETURN4args{ids[number]})).status, NFS4_OK);
  }
  nfsstat4 StatusOf(SessionClient& client, size_t number) {
    auto reply = client.Run(Op(OP_TEST_STATEID, TEST_STATEID4args{{ids[number]}}));
    return reply.Next<TEST_STATEID4res>().tsr_resok4().tsr_status_codes.at(0);
  }
  void Look() { Spawn(KeepLeases(server.GetServices(), nullptr)); }
  // The clients renew their leases meanwhile.
  void PassAndLook(Duration time) {
    for (int i = 0; i < 2; ++i) {
      Pass(time / 2);
      Run();
      Other().Run();
    }
    Look();
  }
  // The files whose delegations were recalled.
  std::vector<size_t> Recalled() const {
    std::vector<size_t> numbers;
    for (const auto& recall : server.callbacks.recalls) {
      for (size_t i = 0; i < ids.size(); ++i) {
        if (ids[i].other == recall.delegation.other) numbers.push_back(i);
      }
    }
    return numbers;
  }

  std::vector<nfs_fh4> handles;
  std::vector<stateid4> ids;
};

TEST_F(DelegationSurplusTest, AsksTheHoarderOnly) {
  Hoard(Client());
  EXPECT_THAT(server.callbacks.recall_anys, IsEmpty()) << "OPEN does not ask";
  Look();
  EXPECT_THAT(server.callbacks.recall_anys, ElementsAre(RecallAny{Client().client(), 9}));
  EXPECT_THAT(server.callbacks.recalls, IsEmpty());
}

TEST_F(DelegationSurplusTest, OpensTheFilesOfTheHoarderWithoutADelegation) {
  Hoard(Client());
  for (const bool looked : {false, true}) {
    if (looked) Look();
    const auto none = Open(Client(), looked ? 15 : 14);
    ASSERT_EQ(none.delegation_type(), OPEN_DELEGATE_NONE_EXT);
    EXPECT_EQ(none.od_whynone().ond_why(), WND4_RESOURCE);
    EXPECT_TRUE(Open(Other(), looked ? 17 : 16).is_read());
  }
  EXPECT_EQ(Open(Other(), 18).od_whynone().ond_why(), WND4_RESOURCE) << "all delegations are given";
}

TEST_F(DelegationSurplusTest, WantDelegationGivesTheHoarderNone) {
  Hoard(Client());
  const auto wanting = Op(OP_WANT_DELEGATION, WANT_DELEGATION4args{kWantRead, deleg_claim4(CLAIM_FH)});
  auto reply = Run(PutFh(handles[14]), wanting);
  EXPECT_EQ(reply.Skip().Next<WANT_DELEGATION4res>().wdr_resok4().od_whynone().ond_why(), WND4_RESOURCE);
}

TEST_F(DelegationSurplusTest, AHoarderThatFollowsGetsDelegationsAgain) {
  Hoard(Client());
  Look();
  Return(Client(), 5);
  Return(Client(), 6);
  PassAndLook(std::chrono::seconds(100));
  EXPECT_THAT(server.callbacks.recalls, IsEmpty());
  EXPECT_THAT(server.callbacks.recall_anys, SizeIs(1));
  EXPECT_TRUE(Open(Client(), 14).is_read());
}

TEST_F(DelegationSurplusTest, AHoarderThatDoesNotFollowLosesItsOldestDelegations) {
  Hoard(Client());
  Look();
  PassAndLook(server.settings.lease);
  EXPECT_THAT(Recalled(), ElementsAre(0, 1));
  EXPECT_EQ(StatusOf(Client(), 0), NFS4_OK);
  PassAndLook(server.settings.lease);
  EXPECT_EQ(StatusOf(Client(), 0), NFS4ERR_DELEG_REVOKED);
  EXPECT_EQ(StatusOf(Client(), 1), NFS4ERR_DELEG_REVOKED);
  EXPECT_EQ(StatusOf(Client(), 2), NFS4_OK);
  const auto flags = server.Run(2, Client().Sequence()).Next<SEQUENCE4res>().sr_resok4().sr_status_flags;
  EXPECT_TRUE(flags & SEQ4_STATUS_RECALLABLE_STATE_REVOKED);
  for (size_t i = kHoard; i < kTooMany; ++i) EXPECT_EQ(StatusOf(Other(), i), NFS4_OK) << i;
  EXPECT_THAT(Recalled(), SizeIs(2));
}

TEST_F(DelegationSurplusTest, RecallsFromAClientOfVersion40AtOnce) {
  Client0 old(server, "of 4.0");
  LetCall(old);
  for (size_t i = 0; i < kTooMany; ++i) {
    if (i < kHoard) {
      if (i == 0) old.Open("owner", NameOfFile(i), kRead);  // confirms the owner, who gets no delegation before
      const auto opened = old.TryOpen("owner", NameOfFile(i), kRead);
      ASSERT_TRUE(opened.resok4().delegation.is_read()) << i;
      ids.push_back(opened.resok4().delegation.read().stateid);
    } else {
      ids.push_back(Open(Other(), i).read().stateid);
    }
  }
  Look();
  EXPECT_THAT(server.callbacks.recall_anys, IsEmpty());
  EXPECT_THAT(Recalled(), ElementsAre(0, 1));
}

// RFC 8881 §8.4.3: as if another client asked for its state.
TEST_F(DelegationSurplusTest, ASilentHoarderEnds) {
  SessionClient silent(server, "silent");
  LetCall(silent);
  Hoard(silent);
  const ClientId id = silent.client();
  const auto knows = [&] { return server.state.Run([&](StateTables& state) { return state.clients.Has(id); }); };
  PassAndLook(server.settings.lease);
  ASSERT_TRUE(knows());
  Pass(std::chrono::seconds(1));
  Look();
  EXPECT_FALSE(knows());
  EXPECT_THAT(server.callbacks.recalls, IsEmpty());
  EXPECT_TRUE(Open(Client(), 14).is_read());
}

TEST_F(DelegationSurplusTest, ASilentClientWithFewDelegationsKeepsItsState) {
  SessionClient silent(server, "silent");
  LetCall(silent);
  ids.push_back(Open(silent, 19).read().stateid);
  for (size_t i = 0; i < kTooMany - 1; ++i) ASSERT_TRUE(Open(Client(), i).is_read());
  PassAndLook(server.settings.lease + std::chrono::seconds(1));
  EXPECT_THAT(server.callbacks.recall_anys, SizeIs(1));
  EXPECT_EQ(StatusOf(silent, 0), NFS4_OK);
}

}  // namespace
}  // namespace penstock::nfs::v4
