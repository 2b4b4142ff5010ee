// The extensions of RFC 9754: the holder of a write delegation is the authority for the file's times, and OPEN gives
// either an open or a delegation.
#include "nfs/v4/operations/delegation_test.h"

namespace penstock::nfs::v4 {
namespace {

using testing::IsEmpty;

constexpr uint32_t kWantTimes = OPEN4_SHARE_ACCESS_WANT_DELEG_TIMESTAMPS;
constexpr uint32_t kWantOne = OPEN4_SHARE_ACCESS_WANT_OPEN_XOR_DELEGATION;
// Nfs4Server::MakeServices
constexpr int64_t kNow = 2'000'000;

class DelegatedTimesTest : public DelegationTest {
 protected:
  DelegatedTimesTest() : before(*AttributesOf("file")) {}

  stateid4 DelegationWithTimes() {
    const auto given = Given(Client(), kBoth | kWantWrite | kWantTimes);
    EXPECT_EQ(given.delegation_type(), OPEN_DELEGATE_WRITE_ATTRS_DELEG);
    return given.write().stateid;
  }
  static nfstime4 At(int64_t seconds) { return {.seconds = seconds, .nseconds = 7}; }
  static fs::Timestamp TimeAt(int64_t seconds) { return {.seconds = seconds, .nanoseconds = 7}; }
  CompoundReply Report(SessionClient& client, const stateid4& id, int64_t access, int64_t modify) {
    auto given = GivenValues(server.buffers);
    given.Add(FATTR4_TIME_DELEG_ACCESS, At(access)).Add(FATTR4_TIME_DELEG_MODIFY, At(modify));
    return client.Run(PutFh(file), Op(OP_SETATTR, SETATTR4args{id, given.Take()}));
  }
  // The attributes that another client gets.
  struct Seen {
    uint64_t change = 0;
    uint64_t size = 0;
    nfstime4 access{};
    nfstime4 modify{};
  };
  Seen SeenByOther() {
    auto reply =
        Other().Run(PutFh(file), GetAttr({FATTR4_CHANGE, FATTR4_SIZE, FATTR4_TIME_ACCESS, FATTR4_TIME_MODIFY}));
    EXPECT_EQ(reply.status, NFS4_OK);
    const fattr4 attributes = reply.Skip().Next<GETATTR4res>().resok4().obj_attributes;
    const xdr::Message values = xdr::Message::Whole(Slice::Borrowed(attributes.attr_vals.bytes()));
    xdr::Decoder decoder(values);
    Seen seen;
    EXPECT_TRUE(decoder.U64(seen.change) && decoder.U64(seen.size) && xdr::Decode(decoder, seen.access) &&
                xdr::Decode(decoder, seen.modify) && decoder.Finish());
    return seen;
  }

  const fs::Attributes before;
};

TEST_F(DelegatedTimesTest, OnlyAWriteDelegationThatAsksForThemHasTimes) {
  const auto read = Given(Client(), kRead | kWantRead | kWantTimes);
  EXPECT_EQ(read.delegation_type(), OPEN_DELEGATE_READ);
  EXPECT_EQ(Return(read.read().stateid), NFS4_OK);
  const stateid4 plain = WriteDelegation();
  SeenByOther();
  EXPECT_FALSE(server.callbacks.asked_for_times);
  EXPECT_EQ(Return(plain), NFS4_OK);
  DelegationWithTimes();
  SeenByOther();
  EXPECT_TRUE(server.callbacks.asked_for_times);
}

TEST_F(DelegatedTimesTest, MinorVersionOneDoesNotHaveTheFlags) {
  SessionClient client(server, "client of 4.1", 1);
  LetCall(client);
  EXPECT_EQ(TryOpen(client, "file", kBoth | kWantWrite | kWantTimes).status(), NFS4ERR_INVAL);
  EXPECT_EQ(TryOpen(client, "file", kBoth | kWantWrite | kWantOne).status(), NFS4ERR_INVAL);
}

TEST_F(DelegatedTimesTest, MinorVersionOneDoesNotHaveTheTypes) {
  SessionClient client(server, "client of 4.1", 1);
  const auto reclaim = [&](open_delegation_type4 type) {
    const auto claim = open_claim4(CLAIM_PREVIOUS, type);
    return client.Run(PutFh(file), Opening(client.client(), 0, "owner", kBoth, 0, claim)).status;
  };
  EXPECT_EQ(reclaim(OPEN_DELEGATE_READ_ATTRS_DELEG), NFS4ERR_BADXDR);
  EXPECT_EQ(reclaim(OPEN_DELEGATE_WRITE_ATTRS_DELEG), NFS4ERR_BADXDR);
  EXPECT_EQ(reclaim(OPEN_DELEGATE_WRITE), NFS4ERR_NO_GRACE);
}

TEST_F(DelegatedTimesTest, OtherClientsSeeTheTimesOfTheHolder) {
  DelegationWithTimes();
  const int64_t later = before.mtime.seconds + 1000;
  server.callbacks.held = {
      .change = before.change + 1, .size = 1000, .times = {.access = TimeAt(later + 1), .modify = TimeAt(later)}};
  const Seen seen = SeenByOther();
  EXPECT_EQ(seen.size, 1000u);
  EXPECT_GT(seen.change, before.change);
  EXPECT_EQ(seen.access, At(later + 1));
  EXPECT_EQ(seen.modify, At(later));
  EXPECT_EQ(AttributesOf("file")->mtime, TimeAt(later));
}

// RFC 9754 §5: a change of the access time does not advance time_metadata.
TEST_F(DelegatedTimesTest, AnAccessTimeAloneIsShownAndDoesNotChangeTheFile) {
  DelegationWithTimes();
  const int64_t later = before.atime.seconds + 1000;
  server.callbacks.held = {
      .change = before.change, .size = before.size, .times = {.access = TimeAt(later), .modify = before.mtime}};
  const Seen seen = SeenByOther();
  EXPECT_EQ(seen.access, At(later));
  EXPECT_EQ(seen.change, before.change);
  EXPECT_EQ(AttributesOf("file")->ctime, before.ctime);
  // A client that asks for the access time only gets it, too.
  server.callbacks.asked.clear();
  EXPECT_EQ(Other().Run(PutFh(file), GetAttr({FATTR4_TIME_ACCESS})).status, NFS4_OK);
  EXPECT_EQ(server.callbacks.asked.size(), 1u);
}

TEST_F(DelegatedTimesTest, TheAccessTimeOfAPlainDelegationIsThatOfTheServer) {
  WriteDelegation();
  EXPECT_EQ(Other().Run(PutFh(file), GetAttr({FATTR4_TIME_ACCESS})).status, NFS4_OK);
  EXPECT_THAT(server.callbacks.asked, IsEmpty());
}

TEST_F(DelegatedTimesTest, AModifyTimeAloneIsAChange) {
  DelegationWithTimes();
  server.callbacks.held = {.change = before.change,
                           .size = before.size,
                           .times = {.access = {}, .modify = TimeAt(before.mtime.seconds + 10)}};
  const Seen seen = SeenByOther();
  EXPECT_EQ(seen.modify, At(before.mtime.seconds + 10));
  EXPECT_GT(seen.change, before.change);
}

TEST_F(DelegatedTimesTest, TimesBeforeTheDelegationAreIgnoredAndFutureOnesBecomeNow) {
  const stateid4 id = DelegationWithTimes();
  const fs::Timestamp mtime = AttributesOf("file")->mtime;
  EXPECT_EQ(Report(Client(), id, 5, mtime.seconds - 1).status, NFS4_OK);
  EXPECT_EQ(AttributesOf("file")->mtime, mtime);
  EXPECT_EQ(Report(Client(), id, kNow + 10, kNow + 20).status, NFS4_OK);
  EXPECT_EQ(AttributesOf("file")->mtime, (fs::Timestamp{kNow, 0}));
  EXPECT_EQ(AttributesOf("file")->atime, (fs::Timestamp{kNow, 0}));
}

// The holder has written at a time that it reports when it returns the delegation. Its WRITEs came later.
TEST_F(DelegatedTimesTest, TheHolderSetsTheTimesBeforeItReturnsTheDelegation) {
  const stateid4 id = DelegationWithTimes();
  const int64_t written = before.mtime.seconds + 1;
  for (int i = 0; i < 5; ++i) EXPECT_EQ(Run(PutFh(file), Writing(id)).status, NFS4_OK);
  EXPECT_GT(AttributesOf("file")->mtime.seconds, written);
  auto reply = Report(Client(), id, written, written);
  ASSERT_EQ(reply.status, NFS4_OK);
  EXPECT_EQ(AttributeSet(reply.Skip().Next<SETATTR4res>().attrsset),
            (AttributeSet{FATTR4_TIME_DELEG_ACCESS, FATTR4_TIME_DELEG_MODIFY}));
  EXPECT_EQ(AttributesOf("file")->mtime, TimeAt(written));
  EXPECT_EQ(Return(id), NFS4_OK);
}

TEST_F(DelegatedTimesTest, OnlyTheHolderReportsTimes) {
  const stateid4 plain = WriteDelegation();
  EXPECT_EQ(Report(Client(), plain, kNow, kNow).status, NFS4ERR_BAD_STATEID);
  EXPECT_EQ(Return(plain), NFS4_OK);
  const stateid4 id = DelegationWithTimes();
  EXPECT_EQ(Report(Client(), kAnonymous, kNow, kNow).status, NFS4ERR_BAD_STATEID);
  const fs::Timestamp mtime = AttributesOf("file")->mtime;
  EXPECT_NE(Report(Other(), id, kNow, kNow).status, NFS4_OK);
  EXPECT_EQ(AttributesOf("file")->mtime, mtime);
}

TEST_F(DelegatedTimesTest, RejectsTimesThatAreNotForTheirPlace) {
  const stateid4 id = DelegationWithTimes();
  auto twice = GivenValues(server.buffers);
  twice.Add(FATTR4_TIME_MODIFY_SET, settime4(SET_TO_SERVER_TIME4)).Add(FATTR4_TIME_DELEG_MODIFY, At(kNow));
  EXPECT_EQ(Run(PutFh(file), Op(OP_SETATTR, SETATTR4args{id, twice.Take()})).status, NFS4ERR_INVAL);
  auto odd = GivenValues(server.buffers);
  odd.Add(FATTR4_TIME_DELEG_MODIFY, nfstime4{1, 1'000'000'000});
  EXPECT_EQ(Run(PutFh(file), Op(OP_SETATTR, SETATTR4args{id, odd.Take()})).status, NFS4ERR_INVAL);
  auto created = GivenValues(server.buffers);
  const fattr4 times = created.Add(FATTR4_TIME_DELEG_MODIFY, At(kNow)).Take();
  EXPECT_EQ(TryOpen(Client(), "new file", kBoth, 0, Creating(GUARDED4, times)).status(), NFS4ERR_INVAL);
  EXPECT_EQ(Run(PutFh(file), GetAttr({FATTR4_TIME_DELEG_MODIFY})).status, NFS4ERR_INVAL) << "a client cannot read it";
}

// ---- OPEN gives only one stateid

using OneStateIdTest = DelegatedTimesTest;

TEST_F(OneStateIdTest, AnOpenThatIsDelegatedLeavesNoOpen) {
  const auto opened = TryOpen(Client(), "file", kBoth | kWantWrite | kWantOne);
  ASSERT_EQ(opened.status(), NFS4_OK);
  EXPECT_TRUE(opened.resok4().rflags & OPEN4_RESULT_NO_OPEN_STATEID);
  EXPECT_FALSE(opened.resok4().rflags & OPEN4_RESULT_PRESERVE_UNLINKED);
  EXPECT_EQ(opened.resok4().stateid, kAnonymous);
  const stateid4 id = opened.resok4().delegation.write().stateid;
  EXPECT_EQ(Run(PutFh(file), Writing(id)).status, NFS4_OK);
  EXPECT_EQ(Run(PutFh(file), Reading(id)).status, NFS4_OK);
  // Another client's OPEN recalls the delegation; nothing else is left.
  EXPECT_EQ(TryOpen(Other(), "file", kBoth).status(), NFS4ERR_DELAY);
  EXPECT_EQ(Return(id), NFS4_OK);
  EXPECT_EQ(TryOpen(Other(), "file", kBoth, OPEN4_SHARE_DENY_BOTH).status(), NFS4_OK);
}

TEST_F(OneStateIdTest, TheCurrentStateidIsThatOfTheDelegation) {
  auto reply = Run(PutRoot(), Opening(Client().client(), 0, "owner", kBoth | kWantWrite | kWantOne, 0, Named("file")),
                   Writing(kCurrent));
  EXPECT_EQ(reply.status, NFS4_OK);
}

TEST_F(OneStateIdTest, TheHolderClaimsItsOpenBeforeItReturnsTheDelegation) {
  const auto opened = TryOpen(Client(), "file", kRead | kWantRead | kWantOne);
  EXPECT_TRUE(opened.resok4().rflags & OPEN4_RESULT_NO_OPEN_STATEID);
  const stateid4 id = opened.resok4().delegation.read().stateid;
  auto reply = Run(PutFh(file),
                   Opening(Client().client(), 0, "owner", kRead | kWantOne, 0, open_claim4(CLAIM_DELEG_CUR_FH, id)));
  const auto claimed = reply.Skip().Next<OPEN4res>();
  ASSERT_EQ(claimed.status(), NFS4_OK);
  EXPECT_FALSE(claimed.resok4().rflags & OPEN4_RESULT_NO_OPEN_STATEID);
  EXPECT_EQ(Return(id), NFS4_OK);
  EXPECT_EQ(Run(PutFh(file), Reading(claimed.resok4().stateid)).status, NFS4_OK);
}

TEST_F(OneStateIdTest, AnOpenThatTheDelegationDoesNotCoverStays) {
  const auto has_open = [](const OPEN4res& opened) {
    return opened.status() == NFS4_OK && !(opened.resok4().rflags & OPEN4_RESULT_NO_OPEN_STATEID) &&
           opened.resok4().stateid != kAnonymous;
  };
  const auto written = TryOpen(Client(), "file", kBoth | kWantRead | kWantOne);
  EXPECT_TRUE(has_open(written)) << "a read delegation does not allow writes";
  EXPECT_EQ(Return(written.resok4().delegation.read().stateid), NFS4_OK);
  EXPECT_EQ(Run(PutFh(file), Closing(written.resok4().stateid)).status, NFS4_OK);

  const auto denying = TryOpen(Client(), "file", kBoth | kWantWrite | kWantOne, OPEN4_SHARE_DENY_READ);
  EXPECT_TRUE(has_open(denying)) << "a delegation denies nothing by itself";
  EXPECT_EQ(Return(denying.resok4().delegation.write().stateid), NFS4_OK);
  EXPECT_EQ(Run(PutFh(file), Closing(denying.resok4().stateid)).status, NFS4_OK);

  server.faults->ChangedProperties().writers_need_pin = true;
  const auto pinned = TryOpen(Client(), "file", kBoth | kWantWrite | kWantOne);
  EXPECT_TRUE(has_open(pinned)) << "a delegation does not pin the file";
  EXPECT_EQ(Return(pinned.resok4().delegation.write().stateid), NFS4_OK);
  EXPECT_EQ(Run(PutFh(file), Closing(pinned.resok4().stateid)).status, NFS4_OK);

  EXPECT_TRUE(has_open(TryOpen(Client(), "file", kRead | OPEN4_SHARE_ACCESS_WANT_NO_DELEG | kWantOne)));
  const auto again = TryOpen(Client(), "file", kRead | kWantRead | kWantOne);
  EXPECT_TRUE(has_open(again)) << "the owner has the file open already";
}

}  // namespace
}  // namespace penstock::nfs::v4
