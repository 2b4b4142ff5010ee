// A directory that is exported twice: a file has two handles, and one set of opens, locks and delegations (RFC 8881 §9,
// §10).
#include "nfs/v4/operations/claims.h"
#include "nfs/v4/operations/stateful_test.h"
#include "rpc/call_order.h"

namespace penstock::nfs::v4 {
namespace {

using testing::SizeIs;

constexpr uint32_t kAlone = kBoth | OPEN4_SHARE_ACCESS_WANT_NO_DELEG;
constexpr uint32_t kWantWrite = OPEN4_SHARE_ACCESS_WANT_WRITE_DELEG;

class SharedFilesTest : public StatefulTest {
 protected:
  SharedFilesTest() {
    EXPECT_TRUE(server.exports.Add("/again", server.faults, {.squash = Squash::kNone}));
    LetCall(Client());
    LetCall(Other());
  }

  const Export& again() const { return *server.exports.table().Resolve("/again").found; }
  // Returns the handle of the same object in the other export.
  nfs_fh4 Again(const nfs_fh4& handle) const {
    return ToFileHandle({again().id(), FileHandle::Parse(handle.bytes())->object});
  }
  OPEN4res OpenAgain(SessionClient& client, uint32_t access, uint32_t deny = 0, std::string_view owner = "owner") {
    auto reply = client.Run(PutFh(Again(Root())), Opening(client.client(), 0, owner, access, deny, Named("file")));
    return reply.Skip().Next<OPEN4res>();
  }
  stateid4 Delegated(const OPEN4res& opened) {
    EXPECT_EQ(opened.status(), NFS4_OK);
    const open_delegation4& given = opened.resok4().delegation;
    const bool write = given.delegation_type() == OPEN_DELEGATE_WRITE;
    EXPECT_TRUE(write || given.delegation_type() == OPEN_DELEGATE_READ);
    return write ? given.write().stateid : given.read().stateid;
  }

  const nfs_fh4 file = MakeFile("file", "data", 0666);
};

TEST_F(SharedFilesTest, DenialAppliesThroughBothExports) {
  const stateid4 open = OpenBy(Client(), "file", kAlone, OPEN4_SHARE_DENY_WRITE);
  EXPECT_EQ(OpenAgain(Other(), kAlone).status(), NFS4ERR_SHARE_DENIED);
  EXPECT_EQ(Other().Run(PutFh(Again(file)), Writing(kAnonymous)).status, NFS4ERR_LOCKED);
  EXPECT_EQ(Run(PutFh(file), Closing(open)).status, NFS4_OK);
  EXPECT_EQ(OpenAgain(Other(), kAlone).status(), NFS4_OK);
}

TEST_F(SharedFilesTest, LockConflictsThroughTheOtherExportAndNamesItsOwner) {
  const stateid4 open = OpenBy(Client(), "file", kAlone);
  const stateid4 others = OpenAgain(Other(), kAlone).resok4().stateid;
  EXPECT_EQ(Run(PutFh(file), Locking(WRITE_LT, 10, 10, NewLocker(Client().client(), open, "holder"))).status, NFS4_OK);

  auto reply = Other().Run(PutFh(Again(file)), Locking(WRITE_LT, 15, 1, NewLocker(Other().client(), others, "asker")));
  const auto locked = reply.Skip().Next<LOCK4res>();
  ASSERT_EQ(locked.status(), NFS4ERR_DENIED);
  EXPECT_EQ(locked.denied().offset, 10u);
  EXPECT_EQ(locked.denied().owner.clientid, Client().client().value());
  EXPECT_EQ(AsText(locked.denied().owner.owner.bytes()), "holder");
  auto asked = Other().Run(PutFh(Again(file)), TestingLock(Other().client(), "asker", 15, 1));
  EXPECT_EQ(asked.Skip().Next<LOCKT4res>().status(), NFS4ERR_DENIED);
}

TEST_F(SharedFilesTest, RecallNamesTheHoldersHandleWhenAnotherClientUsesTheOtherExport) {
  const stateid4 id = Delegated(TryOpen(Client(), "file", kBoth | kWantWrite));
  EXPECT_EQ(OpenAgain(Other(), kRead).status(), NFS4ERR_DELAY);
  ASSERT_THAT(server.callbacks.recalls, SizeIs(1));
  EXPECT_EQ(server.callbacks.recalls[0].client, Client().client());
  EXPECT_EQ(server.callbacks.recalls[0].file, *FileHandle::Parse(file.bytes()));
  EXPECT_EQ(Run(PutFh(file), Op(OP_DELEGRETURN, DELEGRETURN4args{id})).status, NFS4_OK);
  EXPECT_EQ(OpenAgain(Other(), kRead).status(), NFS4_OK);
}

// The client sees two files and has a separate cache for each.
TEST_F(SharedFilesTest, RecallsAHoldersDelegationWhenItWritesThroughTheOtherExport) {
  Delegated(TryOpen(Client(), "file", kRead | OPEN4_SHARE_ACCESS_WANT_READ_DELEG));
  EXPECT_EQ(OpenAgain(Client(), kWrite).status(), NFS4ERR_DELAY);
  ASSERT_THAT(server.callbacks.recalls, SizeIs(1));
  EXPECT_EQ(server.callbacks.recalls[0].file, *FileHandle::Parse(file.bytes()));
}

TEST_F(SharedFilesTest, GrantsNoWriteDelegationToAClientWithAnOpenThroughTheOtherExport) {
  OpenBy(Client(), "file", kRead | OPEN4_SHARE_ACCESS_WANT_NO_DELEG);
  const auto opened = OpenAgain(Client(), kBoth | kWantWrite);
  ASSERT_EQ(opened.status(), NFS4_OK);
  EXPECT_EQ(opened.resok4().delegation.delegation_type(), OPEN_DELEGATE_NONE_EXT);
}

TEST_F(SharedFilesTest, CbGetattrNamesTheHoldersHandle) {
  Delegated(TryOpen(Client(), "file", kBoth | kWantWrite));
  server.callbacks.held = {.change = 1000, .size = 17};
  auto reply = Other().Run(PutFh(Again(file)), GetAttr({FATTR4_SIZE}));
  EXPECT_EQ(reply.status, NFS4_OK);
  EXPECT_THAT(server.callbacks.asked, testing::ElementsAre(*FileHandle::Parse(file.bytes())));
  // The holder knows its delegation only by the handle of the first export, so the server also asks it by CB_GETATTR
  // here.
  EXPECT_EQ(Run(PutFh(Again(file)), GetAttr({FATTR4_SIZE})).status, NFS4_OK);
  EXPECT_THAT(server.callbacks.asked, SizeIs(2));
  EXPECT_EQ(Run(PutFh(file), GetAttr({FATTR4_SIZE})).status, NFS4_OK);
  EXPECT_THAT(server.callbacks.asked, SizeIs(2));
}

TEST_F(SharedFilesTest, StateidIsValidOnlyWithItsHandle) {
  const auto opened = TryOpen(Client(), "file", kBoth | kWantWrite);
  const stateid4 open = opened.resok4().stateid;
  const stateid4 delegation = Delegated(opened);
  EXPECT_EQ(Run(PutFh(Again(file)), Op(OP_DELEGRETURN, DELEGRETURN4args{delegation})).status, NFS4ERR_BAD_STATEID);
  EXPECT_EQ(Run(PutFh(Again(file)), Writing(open)).status, NFS4ERR_BAD_STATEID);
  EXPECT_EQ(Run(PutFh(Again(file)), Closing(open)).status, NFS4ERR_BAD_STATEID);
  EXPECT_EQ(Run(PutFh(file), Writing(open)).status, NFS4_OK);
}

TEST_F(SharedFilesTest, OwnerHasSeparateOpensAndLocksThroughEachExport) {
  const stateid4 open = OpenBy(Client(), "file", kAlone);
  const stateid4 other = OpenAgain(Client(), kAlone).resok4().stateid;
  EXPECT_NE(open.other, other.other);
  EXPECT_EQ(Run(PutFh(file), Locking(WRITE_LT, 0, 10, NewLocker(Client().client(), open, "locker"))).status, NFS4_OK);
  EXPECT_EQ(Run(PutFh(Again(file)), Locking(WRITE_LT, 0, 10, NewLocker(Client().client(), other, "locker"))).status,
            NFS4ERR_DENIED);
  EXPECT_EQ(Run(PutFh(Again(file)), Locking(WRITE_LT, 20, 10, NewLocker(Client().client(), other, "locker"))).status,
            NFS4_OK);
  EXPECT_EQ(Run(PutFh(file), Closing(open)).status, NFS4_OK);
  EXPECT_EQ(Run(PutFh(Again(file)), Writing(other)).status, NFS4_OK);
  EXPECT_EQ(server.GetServices().state.Run([&](StateTables& state) { return state.FindInconsistency(); }), nullptr);
}

TEST_F(SharedFilesTest, LockNoticeNamesTheWaitersHandle) {
  const stateid4 open = OpenBy(Client(), "file", kAlone);
  const stateid4 others = OpenAgain(Other(), kAlone).resok4().stateid;
  auto held = Run(PutFh(file), Locking(WRITE_LT, 0, 10, NewLocker(Client().client(), open, "holder")));
  const stateid4 lock = held.Skip().Next<LOCK4res>().resok4().lock_stateid;
  EXPECT_EQ(Other().Run(PutFh(Again(file)), Locking(WRITEW_LT, 0, 10, NewLocker(Other().client(), others, "w"))).status,
            NFS4ERR_DENIED);
  EXPECT_EQ(Run(PutFh(file), Unlocking(lock, 0, 10)).status, NFS4_OK);
  ASSERT_THAT(server.callbacks.notices, SizeIs(1));
  EXPECT_EQ(server.callbacks.notices[0].file, *FileHandle::Parse(Again(file).bytes()));
}

// Version 3 checks the claims with the handle of its own call, which may be of the other export.
TEST_F(SharedFilesTest, OtherVersionsRespectClaimsThroughTheOtherExport) {
  Claims claims(server.GetServices());
  const NamedFile name = again().Name(FileHandle::Parse(file.bytes())->object);
  const uint64_t before = claims.Mark();
  const auto opened = TryOpen(Client(), "file", kBoth | kWantWrite);
  EXPECT_TRUE(claims.IsOutdated(name, before));
  EXPECT_EQ(Now(claims.Check(nullptr, name, FileClaims::Use::kRead)).verdict, FileClaims::Verdict::kLater);
  ASSERT_THAT(server.callbacks.recalls, SizeIs(1));
  EXPECT_EQ(Run(PutFh(file), Op(OP_DELEGRETURN, DELEGRETURN4args{Delegated(opened)})).status, NFS4_OK);
  EXPECT_TRUE(claims.IsOutdated(name, before));

  EXPECT_EQ(Run(PutFh(file), Closing(opened.resok4().stateid)).status, NFS4_OK);
  OpenBy(Client(), "file", kAlone, OPEN4_SHARE_DENY_WRITE);
  EXPECT_EQ(Now(claims.Check(nullptr, name, FileClaims::Use::kWrite)).verdict, FileClaims::Verdict::kDenied);
}

TEST_F(SharedFilesTest, OperationsThatReleaseStateWaitForEarlierCallsThroughTheOtherExport) {
  rpc::CallOrder order;
  server.peer.order = &order;
  std::optional<rpc::CallOrder::Place> earlier(order.Enter(rpc::Xid(1)));
  const NamedFile name = again().Name(FileHandle::Parse(file.bytes())->object);
  order.NoteSubject(rpc::Xid(1), NamedFileHash()(name));
  const bool& ended = server.Begin(server.Encode(0, PutFh(file), Op(OP_DELEGRETURN, DELEGRETURN4args{})));
  EXPECT_FALSE(ended);
  earlier.reset();
  EXPECT_TRUE(ended);
  server.peer.order = nullptr;
}

TEST_F(SharedFilesTest, RejectsCopyingAFileToItselfThroughTheOtherExport) {
  const auto copy = Op(OP_COPY, COPY4args{.ca_src_stateid = kAnonymous,
                                          .ca_dst_stateid = kAnonymous,
                                          .ca_src_offset = 0,
                                          .ca_dst_offset = 0,
                                          .ca_count = 2,
                                          .ca_consecutive = true,
                                          .ca_synchronous = true,
                                          .ca_source_server = {}});
  EXPECT_EQ(Run(PutFh(file), SaveFh(), PutFh(Again(file)), copy).status, NFS4ERR_INVAL);
}

}  // namespace
}  // namespace penstock::nfs::v4
