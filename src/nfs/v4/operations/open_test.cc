// OPEN and the operations on opens in sessions. open_0_test.cc tests them in version 4.0.
#include <memory>

#include "fs/test_one_file.h"
#include "nfs/v4/operations/stateful_test.h"

namespace penstock::nfs::v4 {
namespace {

using OpenTest = StatefulTest;

// --- The opened file: RFC 8881 §18.16.3, §18.16.4

TEST_F(OpenTest, SetsTheCurrentFilehandle) {
  const nfs_fh4 file = MakeFile("file");
  auto reply = Run(PutRoot(), Opening(Client().client(), 0, "owner", kRead, 0, Named("file")), GetFh());
  EXPECT_EQ(reply.Skip().Next<OPEN4res>().status(), NFS4_OK);
  EXPECT_EQ(reply.Next<GETFH4res>().resok4().object, file);
}

TEST_F(OpenTest, RejectsNonFiles) {
  MakeDirectory("directory");
  MakeSymlink("link", "file");
  MakeFifo("fifo");
  EXPECT_EQ(TryOpen(Client(), "none", kRead).status(), NFS4ERR_NOENT);
  EXPECT_EQ(TryOpen(Client(), "directory", kRead).status(), NFS4ERR_ISDIR);
  EXPECT_EQ(TryOpen(Client(), "link", kRead).status(), NFS4ERR_SYMLINK);
  EXPECT_EQ(TryOpen(Client(), "fifo", kRead).status(), NFS4ERR_WRONG_TYPE);
  Client0 client(server, "of 4.0");
  EXPECT_EQ(client.TryOpen("owner", "fifo", kRead).status(), NFS4ERR_SYMLINK);
}

TEST_F(OpenTest, RequiresADirectory) {
  const nfs_fh4 file = MakeFile("file");
  const nfs_fh4 link = MakeSymlink("link", "file");
  const auto open = Opening(Client().client(), 0, "owner", kRead, 0, Named("x"));
  EXPECT_EQ(Run(PutFh(file), open).status, NFS4ERR_NOTDIR);
  EXPECT_EQ(Run(PutFh(link), open).status, NFS4ERR_SYMLINK);
}

TEST_F(OpenTest, RejectsInvalidNames) {
  EXPECT_EQ(TryOpen(Client(), "", kRead).status(), NFS4ERR_INVAL);
  EXPECT_EQ(TryOpen(Client(), "..", kRead).status(), NFS4ERR_BADNAME);
  EXPECT_EQ(TryOpen(Client(), std::string(300, 'n'), kRead, 0, Creating(UNCHECKED4)).status(), NFS4ERR_NAMETOOLONG);
}

TEST_F(OpenTest, OpensByFilehandle) {
  const nfs_fh4 file = MakeFile("file", "data");
  const auto open = Opening(Client().client(), 0, "owner", kRead, 0, open_claim4(CLAIM_FH));
  EXPECT_EQ(Run(PutFh(file), open, Reading(kCurrent)).status, NFS4_OK);
  EXPECT_EQ(Run(PutRoot(), open).status, NFS4ERR_ISDIR);
  EXPECT_EQ(
      Run(PutFh(file), Opening(Client().client(), 0, "owner", kRead, 0, open_claim4(CLAIM_FH), Creating(UNCHECKED4)))
          .status,
      NFS4ERR_INVAL);
}

TEST_F(OpenTest, RejectsInvalidAccessAndDenials) {
  MakeFile("file");
  Client0 client(server, "of 4.0");
  for (const auto& [access, deny] : {std::pair(0u, 0u), std::pair(4u, 0u), std::pair(kRead, 4u)}) {
    EXPECT_EQ(TryOpen(Client(), "file", access, deny).status(), NFS4ERR_INVAL);
    EXPECT_EQ(client.TryOpen("owner", "file", access, deny).status(), NFS4ERR_INVAL);
  }
  EXPECT_EQ(client.TryOpen("owner", "file", kRead | OPEN4_SHARE_ACCESS_WANT_NO_DELEG).status(), NFS4ERR_INVAL);
}

// --- Creation

TEST_F(OpenTest, MakesAFileWithItsAttributes) {
  const auto opened = TryOpen(Client(), "new", kBoth, 0, Creating(UNCHECKED4, Mode(0640)));
  ASSERT_EQ(opened.status(), NFS4_OK);
  EXPECT_EQ(AttributesOf("new")->mode, 0640u);
  EXPECT_EQ(AttributeSet(opened.resok4().attrset), AttributeSet{FATTR4_MODE});
  EXPECT_NE(opened.resok4().cinfo.before, opened.resok4().cinfo.after);
}

TEST_F(OpenTest, KeepsTheAttributesOfAnExistingFile) {
  MakeFile("file", "data", 0600);
  const auto opened = TryOpen(Client(), "file", kBoth, 0, Creating(UNCHECKED4, Mode(0644)));
  ASSERT_EQ(opened.status(), NFS4_OK);
  EXPECT_EQ(AttributesOf("file")->mode, 0600u);
  EXPECT_TRUE(AttributeSet(opened.resok4().attrset).empty());
  EXPECT_EQ(opened.resok4().cinfo.before, opened.resok4().cinfo.after);
  EXPECT_EQ(ContentsOf("file"), "data");
}

TEST_F(OpenTest, OpensAnExistingFileWhereTheCallerMayMakeNone) {
  MakeFile("file", "data", 0666);
  MakeDirectory("directory");
  server.SetUser(1000);
  EXPECT_EQ(TryOpen(Client(), "file", kBoth, 0, Creating(UNCHECKED4)).status(), NFS4_OK);
  EXPECT_EQ(TryOpen(Client(), "new", kBoth, 0, Creating(UNCHECKED4)).status(), NFS4ERR_ACCESS);
  EXPECT_EQ(TryOpen(Client(), "directory", kBoth, 0, Creating(UNCHECKED4)).status(), NFS4ERR_ISDIR);
}

// The name may not survive a loss of power.
TEST_F(OpenTest, DoesNotOpenAFileWhoseCreationFailedAfterItWasMade) {
  using fs::faulty::Effect;
  for (const auto& [error, status] :
       {std::pair(fs::Error::kIo, NFS4ERR_IO), std::pair(fs::Error::kNoSpace, NFS4ERR_NOSPC)}) {
    server.faults->Add({.operation = fs::faulty::Operation::kCreate,
                        .when = fs::faulty::Nth(1),
                        .effect = FailWith(error, Effect::Moment::kAfter)});
    const std::string name = fmt::format("fails with {}", std::to_underlying(status));
    EXPECT_EQ(TryOpen(Client(), name, kBoth, 0, Creating(UNCHECKED4, Mode(0444))).status(), status);
    EXPECT_TRUE(AttributesOf(name));
  }
}

TEST_F(OpenTest, TruncatesAnExistingFile) {
  MakeFile("file", "data");
  const auto opened = TryOpen(Client(), "file", kBoth, 0, Creating(UNCHECKED4, Size(0)));
  ASSERT_EQ(opened.status(), NFS4_OK);
  EXPECT_EQ(AttributeSet(opened.resok4().attrset), AttributeSet{FATTR4_SIZE});
  EXPECT_EQ(ContentsOf("file"), "");
}

TEST_F(OpenTest, DoesNotTruncateAFileWhoseWritingIsDenied) {
  MakeFile("file", "data");
  OpenBy(Other(), "file", kRead, OPEN4_SHARE_DENY_WRITE);
  EXPECT_EQ(TryOpen(Client(), "file", kWrite, 0, Creating(UNCHECKED4, Size(0))).status(), NFS4ERR_SHARE_DENIED);
  EXPECT_EQ(ContentsOf("file"), "data");
}

TEST_F(OpenTest, LeavesNothingOpenIfTruncationFails) {
  MakeFile("file", "data", 0644);
  server.SetUser(1000);
  EXPECT_EQ(TryOpen(Client(), "file", kRead, 0, Creating(UNCHECKED4, Size(0))).status(), NFS4ERR_ACCESS);
  EXPECT_FALSE(server.state.Run([&](StateTables& state) { return state.files.HasState(Client().client()); }));
}

TEST_F(OpenTest, GuardedCreateMakesOnlyNewFiles) {
  EXPECT_EQ(TryOpen(Client(), "new", kRead, 0, Creating(GUARDED4)).status(), NFS4_OK);
  EXPECT_EQ(TryOpen(Client(), "new", kRead, 0, Creating(GUARDED4)).status(), NFS4ERR_EXIST);
}

TEST_F(OpenTest, ExclusiveCreateMakesAFileOncePerVerifier) {
  const auto first = TryOpen(Client(), "new", kRead, 0, Exclusively("12345678"));
  ASSERT_EQ(first.status(), NFS4_OK);
  EXPECT_EQ(AttributeSet(first.resok4().attrset), (AttributeSet{FATTR4_TIME_ACCESS_SET, FATTR4_TIME_MODIFY_SET}));
  EXPECT_EQ(TryOpen(Client(), "new", kRead, 0, Exclusively("12345678")).status(), NFS4_OK);
  EXPECT_EQ(TryOpen(Client(), "new", kRead, 0, Exclusively("87654321")).status(), NFS4ERR_EXIST);
}

// The file's times hold the verifier, so every user can read it. A matching verifier is no proof of ownership.
TEST_F(OpenTest, ExclusiveCreateChecksThePermissionOfAnotherUsersFile) {
  constexpr uint32_t kDenyBoth = OPEN4_SHARE_DENY_BOTH;
  const creatverfattr later{.cva_verf = {}, .cva_attrs = Mode(0600)};
  const openflag4 exclusive = Exclusively("12345678"), exclusive_1(OPEN4_CREATE, createhow4(EXCLUSIVE4_1, later));
  ASSERT_EQ(TryOpen(Client(), "one", kRead, 0, exclusive).status(), NFS4_OK);
  ASSERT_EQ(TryOpen(Client(), "another", kRead, 0, exclusive_1).status(), NFS4_OK);
  server.SetUser(4242);
  EXPECT_EQ(TryOpen(Other(), "one", kRead, kDenyBoth, exclusive).status(), NFS4ERR_ACCESS);
  EXPECT_EQ(TryOpen(Other(), "another", kWrite, kDenyBoth, exclusive_1).status(), NFS4ERR_ACCESS);
  EXPECT_FALSE(server.state.Run([&](StateTables& state) { return state.files.HasState(Other().client()); }));
}

// The mode does not restrict the user who creates the file. This must also hold for a retry.
TEST_F(OpenTest, ExclusiveCreateAdmitsTheCreatorOnRetry) {
  fs::NewAttributes for_all;
  for_all.mode = 0777;
  ASSERT_TRUE(Now(tree.SetAttributes(AsRoot(), tree.Root(), for_all, std::nullopt)).result);
  server.SetUser(1000);
  const openflag4 how(OPEN4_CREATE, createhow4(EXCLUSIVE4_1, creatverfattr{.cva_verf = {}, .cva_attrs = Mode(0400)}));
  EXPECT_EQ(TryOpen(Client(), "new", kBoth, 0, how).status(), NFS4_OK);
  EXPECT_EQ(TryOpen(Client(), "new", kBoth, 0, how).status(), NFS4_OK);
}

// RFC 8881 §18.16.4
TEST_F(OpenTest, ExclusiveCreateMakesAPrivateFile) {
  ASSERT_EQ(TryOpen(Client(), "new", kRead, 0, Exclusively("12345678")).status(), NFS4_OK);
  EXPECT_EQ(AttributesOf("new")->mode, 0600u);
}

// RFC 8881 §18.16.3: suppattr_exclcreat excludes the attributes that hold the verifier.
TEST_F(OpenTest, ExclusiveCreateRejectsTheAttributesThatHoldTheVerifier) {
  GivenValues given(server.buffers);
  const fattr4 times = given.Add(FATTR4_TIME_MODIFY_SET, settime4(SET_TO_SERVER_TIME4)).Take();
  const openflag4 how(OPEN4_CREATE, createhow4(EXCLUSIVE4_1, creatverfattr{.cva_verf = {}, .cva_attrs = times}));
  EXPECT_EQ(TryOpen(Client(), "new", kBoth, 0, how).status(), NFS4ERR_INVAL);
}

TEST_F(OpenTest, Exclusive41SetsAttributes) {
  const openflag4 how(OPEN4_CREATE, createhow4(EXCLUSIVE4_1, creatverfattr{.cva_verf = {}, .cva_attrs = Mode(0604)}));
  EXPECT_EQ(TryOpen(Client(), "new", kBoth, 0, how).status(), NFS4_OK);
  EXPECT_EQ(AttributesOf("new")->mode, 0604u);
  Client0 client(server, "of 4.0");
  EXPECT_EQ(client.TryOpen("owner", "another", kBoth, 0, how).status(), NFS4ERR_BADXDR);
}

// --- Permissions

TEST_F(OpenTest, ChecksPermission) {
  MakeFile("file", "data", 0604);
  server.SetUser(1000);
  EXPECT_EQ(TryOpen(Client(), "file", kRead).status(), NFS4_OK);
  EXPECT_EQ(TryOpen(Client(), "file", kWrite).status(), NFS4ERR_ACCESS);
  EXPECT_EQ(TryOpen(Client(), "file", kBoth).status(), NFS4ERR_ACCESS);
}

TEST_F(OpenTest, ExecutePermissionAdmitsReading) {
  MakeFile("program", "data", 0711);
  server.SetUser(1000);
  EXPECT_EQ(TryOpen(Client(), "program", kRead).status(), NFS4_OK);
}

TEST_F(OpenTest, CreatorMayWriteRegardlessOfTheMode) {
  MakeDirectory("open to all", 0777);
  server.SetUser(1000);
  auto reply = Run(PutRoot(), LookUp("open to all"),
                   Opening(Client().client(), 0, "owner", kBoth, 0, Named("new"), Creating(GUARDED4, Mode(0))),
                   Writing(kCurrent));
  EXPECT_EQ(reply.status, NFS4_OK);
}

class ReadOnlyOpenTest : public StatefulTest {
 protected:
  ReadOnlyOpenTest() { server.Export("/ro", {.read_only = true, .squash = Squash::kNone}); }
};

TEST_F(ReadOnlyOpenTest, RejectsMakingAndWriting) {
  const auto try_open = [&](uint32_t access, openflag4 how) {
    return Run(PutRoot(), LookUp("ro"), Opening(Client().client(), 0, "owner", access, 0, Named("new"), std::move(how)))
        .status;
  };
  EXPECT_EQ(try_open(kRead, Creating(UNCHECKED4)), NFS4ERR_ROFS);
  EXPECT_EQ(try_open(kRead, Exclusively("12345678")), NFS4ERR_ROFS);
}

// The export is writable. Neither root, the file's owner, nor another user may open the file for writing.
TEST_F(OpenTest, RejectsWritingOnAReadOnlyFileSystem) {
  ASSERT_TRUE(server.exports.Add("/ro", std::make_shared<fs::OneFile>(), {.squash = Squash::kNone}));
  const auto try_open = [&](uint32_t access) {
    return Run(PutRoot(), LookUp("ro"), Opening(Client().client(), 0, "owner", access, 0, Named("file"))).status;
  };
  for (const uint32_t uid : {0, 7, 1000}) {
    server.SetUser(uid);
    EXPECT_EQ(try_open(kRead), NFS4_OK);
    EXPECT_EQ(try_open(kWrite), NFS4ERR_ROFS);
    EXPECT_EQ(try_open(kBoth), NFS4ERR_ROFS);
  }
}

// --- Replies and stateids

TEST_F(OpenTest, ReportsWhetherAnOpenFileOutlivesItsName) {
  MakeFile("file");
  EXPECT_EQ(TryOpen(Client(), "file", kRead).resok4().rflags,
            OPEN4_RESULT_LOCKTYPE_POSIX | OPEN4_RESULT_PRESERVE_UNLINKED);
  LetCall(Client());
  EXPECT_EQ(TryOpen(Client(), "file", kRead).resok4().rflags,
            OPEN4_RESULT_LOCKTYPE_POSIX | OPEN4_RESULT_PRESERVE_UNLINKED | OPEN4_RESULT_MAY_NOTIFY_LOCK);
}

TEST_F(OpenTest, KeepsAFileThatIsRemoved) {
  const nfs_fh4 file = MakeFile("file", "data");
  const stateid4 open = OpenBy(Client(), "file", kRead);
  EXPECT_EQ(Run(PutRoot(), Op(OP_REMOVE, REMOVE4args{"file"})).status, NFS4_OK);
  auto reply = Run(PutFh(file), Reading(open));
  EXPECT_EQ(reply.Skip().Next<READ4res>().resok4().data.text(), "data");
  EXPECT_EQ(Run(PutFh(file), Closing(open)).status, NFS4_OK);
  EXPECT_EQ(Run(PutFh(file), GetAttr({FATTR4_SIZE})).status, NFS4ERR_STALE);
}

TEST_F(OpenTest, UpgradesAndDowngrades) {
  const nfs_fh4 file = MakeFile("file");
  const stateid4 first = OpenBy(Client(), "file", kRead);
  EXPECT_EQ(Run(PutFh(file), Writing(first)).status, NFS4ERR_OPENMODE);
  const stateid4 second = OpenBy(Client(), "file", kWrite);
  EXPECT_EQ(second.other, first.other);
  EXPECT_EQ(second.seqid, 2u);
  EXPECT_EQ(Run(PutFh(file), Writing(second)).status, NFS4_OK);
  EXPECT_EQ(Run(PutFh(file), Writing(first)).status, NFS4ERR_OLD_STATEID);

  const auto down = [&](uint32_t access) { return Op(OP_OPEN_DOWNGRADE, OPEN_DOWNGRADE4args{second, 0, access, 0}); };
  EXPECT_EQ(Run(PutFh(file), down(0)).status, NFS4ERR_INVAL);
  auto reply = Run(PutFh(file), down(kRead));
  const stateid4 third = reply.Skip().Next<OPEN_DOWNGRADE4res>().resok4().open_stateid;
  EXPECT_EQ(third.seqid, 3u);
  EXPECT_EQ(Run(PutFh(file), Writing(third)).status, NFS4ERR_OPENMODE);
}

// RFC 7862 §15.1.3, §15.2.3, §15.4.3
TEST_F(OpenTest, SetattrOfTheSizeRequiresAnOpenForWriting) {
  const nfs_fh4 file = MakeFile("file", "data"), source = MakeFile("source", "data");
  const auto allocate = [&](const stateid4& id) {
    return Run(PutFh(file), Op(OP_ALLOCATE, ALLOCATE4args{id, 0, 1})).status;
  };
  const auto deallocate = [&](const stateid4& id) {
    return Run(PutFh(file), Op(OP_DEALLOCATE, DEALLOCATE4args{id, 0, 1})).status;
  };
  const auto copy = [&](const stateid4& id) {
    const COPY4args arguments{.ca_src_stateid = kAnonymous,
                              .ca_dst_stateid = id,
                              .ca_src_offset = 0,
                              .ca_dst_offset = 0,
                              .ca_count = 1,
                              .ca_consecutive = true,
                              .ca_synchronous = true,
                              .ca_source_server = {}};
    return Run(PutFh(source), SaveFh(), PutFh(file), Op(OP_COPY, arguments)).status;
  };
  const stateid4 reading = OpenBy(Client(), "file", kRead, 0, "reader");
  EXPECT_EQ(allocate(reading), NFS4ERR_OPENMODE);
  EXPECT_EQ(deallocate(reading), NFS4ERR_OPENMODE);
  EXPECT_EQ(copy(reading), NFS4ERR_OPENMODE);
  EXPECT_EQ(ContentsOf("file"), "data");
  const stateid4 writing = OpenBy(Client(), "file", kWrite, 0, "writer");
  EXPECT_EQ(allocate(writing), NFS4_OK);
  EXPECT_EQ(deallocate(writing), NFS4_OK);
  EXPECT_EQ(copy(writing), NFS4_OK);
}

// RFC 8881 §18.2.4
TEST_F(OpenTest, RejectsAClosedStateid) {
  const nfs_fh4 file = MakeFile("file");
  stateid4 open = OpenBy(Client(), "file", kRead);
  open.seqid = 0;
  auto reply = Run(PutFh(file), Closing(open));
  EXPECT_EQ(reply.Skip().Next<CLOSE4res>().open_stateid(), InvalidStateId());
  EXPECT_EQ(Run(PutFh(file), Closing(open)).status, NFS4ERR_BAD_STATEID);
  EXPECT_EQ(Run(PutFh(file), Reading(open)).status, NFS4ERR_BAD_STATEID);
}

// RFC 8881 §16.2.3.1.2
TEST_F(OpenTest, CurrentStateidFollowsTheCurrentFilehandle) {
  const nfs_fh4 file = MakeFile("file");
  const auto open = [&] { return Opening(Client().client(), 0, "owner", kBoth, 0, Named("file")); };
  EXPECT_EQ(Run(PutRoot(), open(), Writing(kCurrent), Closing(kCurrent)).status, NFS4_OK);
  EXPECT_EQ(Run(PutRoot(), open(), PutFh(file), Closing(kCurrent)).status, NFS4ERR_BAD_STATEID);
  EXPECT_EQ(Run(PutRoot(), open(), SaveFh(), PutRoot(), RestoreFh(), Closing(kCurrent)).status, NFS4_OK);
  EXPECT_EQ(Run(PutFh(file), Closing(kCurrent)).status, NFS4ERR_BAD_STATEID);
  EXPECT_EQ(Run(PutRoot(), open(), Closing(kCurrent), Reading(kCurrent)).status, NFS4ERR_BAD_STATEID);
}

// --- Denials

TEST_F(OpenTest, DenialsApplyToOpensAndIo) {
  const nfs_fh4 file = MakeFile("file");
  const stateid4 open = OpenBy(Client(), "file", kBoth, OPEN4_SHARE_DENY_WRITE);
  EXPECT_EQ(TryOpen(Other(), "file", kWrite).status(), NFS4ERR_SHARE_DENIED);
  EXPECT_EQ(TryOpen(Other(), "file", kRead).status(), NFS4_OK);
  EXPECT_EQ(Other().Run(PutFh(file), Writing(kAnonymous)).status, NFS4ERR_LOCKED);
  EXPECT_EQ(Run0(PutFh(file), Writing(kAnonymous)).status, NFS4ERR_LOCKED);
  EXPECT_EQ(Other().Run(PutFh(file), Op(OP_SETATTR, SETATTR4args{kAnonymous, Size(0)})).status, NFS4ERR_LOCKED);
  EXPECT_EQ(Run(PutFh(file), Writing(open)).status, NFS4_OK);
}

// RFC 8881 §8.4.3: courtesy ends when another client's request conflicts.
TEST_F(OpenTest, RemovesAnExpiredClientOnConflict) {
  MakeFile("file");
  OpenBy(Client(), "file", kRead, OPEN4_SHARE_DENY_WRITE);
  PassLease();
  EXPECT_EQ(TryOpen(Other(), "file", kWrite).status(), NFS4_OK);
  EXPECT_FALSE(server.state.Run([&](StateTables& state) { return state.clients.Find(Client().client()); }));
}

TEST_F(OpenTest, ExpiredClientKeepsItsOpensWithoutAConflict) {
  const nfs_fh4 file = MakeFile("file");
  const stateid4 open = OpenBy(Client(), "file", kRead, OPEN4_SHARE_DENY_WRITE);
  PassLease();
  EXPECT_EQ(TryOpen(Other(), "file", kRead).status(), NFS4_OK);
  EXPECT_EQ(Run(PutFh(file), Reading(open)).status, NFS4_OK);
}

TEST_F(OpenTest, IoDoesNotWaitForExpiredClients) {
  const nfs_fh4 file = MakeFile("file");
  OpenBy(Client(), "file", kRead, OPEN4_SHARE_DENY_WRITE);
  PassLease();
  EXPECT_EQ(Other().Run(PutFh(file), Writing(kAnonymous)).status, NFS4_OK);
}

// --- Claims

TEST_F(OpenTest, RejectsAReclaimWithoutARestart) {
  const nfs_fh4 file = MakeFile("file");
  const auto reclaim =
      Opening(Client().client(), 0, "owner", kRead, 0, open_claim4(CLAIM_PREVIOUS, OPEN_DELEGATE_NONE));
  EXPECT_EQ(Run(PutFh(file), reclaim).status, NFS4ERR_NO_GRACE);
}

TEST_F(OpenTest, RejectsClaimDelegatePrev) {
  const nfs_fh4 file = MakeFile("file");
  const auto by_handle = Opening(Client().client(), 0, "owner", kRead, 0, open_claim4(CLAIM_DELEG_PREV_FH));
  EXPECT_EQ(Run(PutFh(file), by_handle).status, NFS4ERR_NOTSUPP);
  const auto by_name =
      Opening(Client().client(), 0, "owner", kRead, 0, open_claim4(CLAIM_DELEGATE_PREV, component4("file")));
  EXPECT_EQ(Run(PutRoot(), by_name).status, NFS4ERR_NOTSUPP);
  EXPECT_EQ(Run(Op(OP_DELEGPURGE, DELEGPURGE4args{Client().client().value()})).status, NFS4ERR_NOTSUPP);
}

TEST_F(OpenTest, DoesNotSupportNamedAttributes) {
  EXPECT_EQ(Run(PutRoot(), Op(OP_OPENATTR, OPENATTR4args{true})).status, NFS4ERR_NOTSUPP);
}

}  // namespace
}  // namespace penstock::nfs::v4
