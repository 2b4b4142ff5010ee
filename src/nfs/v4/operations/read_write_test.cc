#include "nfs/v4/engine/nfs4_test.h"

namespace penstock::nfs::v4 {
namespace {

class ReadTest : public Nfs4Test {
 protected:
  CompoundReply Read(const nfs_fh4& file, uint64_t offset, uint32_t count) {
    return Run0(PutFh(file), Op(OP_READ, READ4args{kAnonymous, offset, count}));
  }
  READ4resok ReadOk(const nfs_fh4& file, uint64_t offset, uint32_t count) {
    auto reply = Read(file, offset, count);
    EXPECT_EQ(reply.status, NFS4_OK);
    return reply.Skip().Next<READ4res>().resok4();
  }
};

class WriteTest : public Nfs4Test {
 protected:
  CompoundReply Write(const nfs_fh4& file, uint64_t offset, std::string_view data, stable_how4 stable = UNSTABLE4) {
    return Run0(PutFh(file), Op(OP_WRITE, WRITE4args{kAnonymous, offset, stable, xdr::Payload<>::Borrowed(data)}));
  }
  WRITE4resok WriteOk(const nfs_fh4& file, uint64_t offset, std::string_view data, stable_how4 stable = UNSTABLE4) {
    auto reply = Write(file, offset, data, stable);
    EXPECT_EQ(reply.status, NFS4_OK);
    return reply.Skip().Next<WRITE4res>().resok4();
  }
};

class CommitTest : public Nfs4Test {
 protected:
  CompoundReply Commit(const nfs_fh4& file, uint64_t offset = 0, uint32_t count = 0) {
    return Run0(PutFh(file), Op(OP_COMMIT, COMMIT4args{offset, count}));
  }
};

TEST_F(ReadTest, ReturnsTheRequestedOctetsAndTheEndOfFile) {
  const nfs_fh4 file = MakeFile("file", "0123456789");
  EXPECT_EQ(ReadOk(file, 2, 5).data.text(), "23456");
  EXPECT_FALSE(ReadOk(file, 2, 5).eof);
  EXPECT_TRUE(ReadOk(file, 5, 5).eof);
  EXPECT_EQ(ReadOk(file, 5, 50).data.text(), "56789");
}

TEST_F(ReadTest, ReturnsNoDataBeyondTheEnd) {
  const nfs_fh4 file = MakeFile("file", "0123456789");
  for (const uint64_t offset : {uint64_t{10}, uint64_t{1} << 63, UINT64_MAX}) {
    const READ4resok read = ReadOk(file, offset, 4096);
    EXPECT_TRUE(read.eof && read.data.empty()) << offset;
  }
}

TEST_F(ReadTest, ReportsAFileThatCannotBeRead) {
  const nfs_fh4 file = MakeFile("file", "0123456789");
  server.faults->Add({.operation = fs::faulty::Operation::kRead, .effect = fs::faulty::FailWith(fs::Error::kIo)});
  EXPECT_EQ(Read(file, 0, 10).status, NFS4ERR_IO);
}

// READ checks the range without an error. A later operation of the COMPOUND, or a kept reply, then needs the data in
// memory, and reading it fails.
TEST_F(ReadTest, ReportsARangeThatCannotBeLoaded) {
  const nfs_fh4 file = MakeFile("file", "0123456789");
  server.faults->Add({.effect = fs::faulty::Unreadable()});
  const auto read = Op(OP_READ, READ4args{kAnonymous, 0, 10});
  EXPECT_EQ(Run0(PutFh(file), read, Op(OP_GETATTR, GETATTR4args{})).status, NFS4ERR_IO);
  const auto kept = Client().Sequence(true);
  EXPECT_EQ(server.Run(2, kept, PutFh(file), read).status, NFS4ERR_IO);
  server.faults->Clear();
  EXPECT_EQ(server.Run(2, kept, PutFh(file), read).status, NFS4ERR_IO) << "a retry gets the kept reply";
}

TEST_F(ReadTest, ReturnsTheDataAsAPayload) {
  const auto reply = Read(MakeFile("file", "0123456789"), 0, 10);
  ASSERT_EQ(reply.answer().message.items.size(), 1u);
  EXPECT_EQ(AsText(reply.answer().message.items[0].data.bytes()), "0123456789");
}

TEST_F(ReadTest, RejectsNonFiles) {
  const nfs_fh4 link = MakeSymlink("link", "target");
  const nfs_fh4 fifo = MakeFifo("fifo");
  const auto read = Op(OP_READ, READ4args{kAnonymous, 0, 10});
  EXPECT_EQ(Run0(PutFh(Root()), read).status, NFS4ERR_ISDIR);
  EXPECT_EQ(Run0(PutFh(link), read).status, NFS4ERR_INVAL);
  EXPECT_EQ(Run0(PutFh(fifo), read).status, NFS4ERR_INVAL);
  EXPECT_EQ(Run(PutFh(link), read).status, NFS4ERR_SYMLINK);
  EXPECT_EQ(Run(PutFh(fifo), read).status, NFS4ERR_WRONG_TYPE);
}

TEST_F(ReadTest, RequiresPermission) {
  const nfs_fh4 file = MakeFile("file", "secret", 0600);
  server.SetUser(1000);
  EXPECT_EQ(Read(file, 0, 10).status, NFS4ERR_ACCESS);
}

TEST_F(ReadTest, EachReadOfACompoundHasItsPayload) {
  const nfs_fh4 file = MakeFile("file", "0123456789");
  const auto read = [&](uint64_t offset) { return Op(OP_READ, READ4args{kAnonymous, offset, 3}); };
  auto reply = Run0(PutFh(file), read(0), read(20), read(3));
  reply.Skip();
  EXPECT_EQ(reply.Next<READ4res>().resok4().data.text(), "012");
  EXPECT_EQ(reply.Next<READ4res>().resok4().data.text(), "");
  EXPECT_EQ(reply.Next<READ4res>().resok4().data.text(), "345");
  EXPECT_EQ(reply.answer().message.items.size(), 3u);
}

TEST_F(WriteTest, WritesTheOctetsAtTheOffset) {
  const nfs_fh4 file = MakeFile("file", "0123456789");
  EXPECT_EQ(WriteOk(file, 3, "abc").count, 3u);
  EXPECT_EQ(ContentsOf("file"), "012abc6789");
}

TEST_F(WriteTest, CommitsAtLeastAsRequested) {
  const nfs_fh4 file = MakeFile("file");
  for (const stable_how4 how : {UNSTABLE4, DATA_SYNC4, FILE_SYNC4})
    EXPECT_GE(WriteOk(file, 0, "x", how).committed, how);
}

TEST_F(WriteTest, ReturnsTheVerifierOfCommit) {
  const nfs_fh4 file = MakeFile("file");
  const verifier4 verifier = WriteOk(file, 0, "x").writeverf;
  auto commit = Run0(PutFh(file), Op(OP_COMMIT, COMMIT4args{0, 0}));
  EXPECT_EQ(commit.Skip().Next<COMMIT4res>().resok4().writeverf, verifier);
}

TEST_F(WriteTest, RejectsAWriteBeyondTheMaximumSize) {
  const nfs_fh4 file = MakeFile("file");
  for (const uint64_t offset : {(uint64_t{1} << 63) - 2, UINT64_MAX}) {
    EXPECT_EQ(Write(file, offset, "abc").status, NFS4ERR_FBIG) << offset;
  }
}

TEST_F(WriteTest, RejectsNonFiles) {
  EXPECT_EQ(Write(Root(), 0, "x").status, NFS4ERR_ISDIR);
  EXPECT_EQ(Write(MakeSymlink("link", "target"), 0, "x").status, NFS4ERR_INVAL);
}

TEST_F(CommitTest, AcceptsAnyValidRange) {
  const nfs_fh4 file = MakeFile("file", "contents");
  EXPECT_EQ(Commit(file).status, NFS4_OK);
  EXPECT_EQ(Commit(file, UINT64_MAX, 0).status, NFS4_OK);
  EXPECT_EQ(Commit(file, UINT64_MAX, 1).status, NFS4ERR_INVAL);
}

TEST_F(CommitTest, RejectsNonFiles) {
  EXPECT_EQ(Commit(Root()).status, NFS4ERR_ISDIR);
  EXPECT_EQ(Commit(MakeFifo("fifo")).status, NFS4ERR_INVAL);
}

}  // namespace
}  // namespace penstock::nfs::v4
