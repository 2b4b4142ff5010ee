#include "nfs/v4/engine/nfs4_test.h"

namespace penstock::nfs::v4 {
namespace {

constexpr uint64_t kMegabyte = 1 << 20;

class SpaceTest : public Nfs4Test {
 protected:
  // Makes a file of four MiB with data in the first and the last MiB.
  nfs_fh4 MakeSparse() {
    const nfs_fh4 file = MakeFile("sparse");
    for (const uint64_t offset : {uint64_t{0}, 3 * kMegabyte}) WriteAt("sparse", offset, std::string(kMegabyte, 'x'));
    return file;
  }
  void WriteAt(std::string_view name, uint64_t offset, std::string_view text) {
    const fs::Handle file = Now(tree.Lookup(AsRoot(), tree.Root(), name)).result->handle;
    const Data data = Slice::Borrowed(AsBytes(text));
    EXPECT_TRUE(Now(tree.Write(AsRoot(), file, offset, data, fs::Stability::kFileSync)).result);
  }

  // Expects NFS4ERR_WRONG_TYPE for objects that are not regular files.
  template <class Arguments>
  void ExpectFilesOnly(nfs_opnum4 number, const Arguments& arguments) {
    EXPECT_EQ(Run(PutFh(Root()), Op(number, arguments)).status, NFS4ERR_WRONG_TYPE);
    EXPECT_EQ(Run(PutFh(MakeSymlink("link", "target")), Op(number, arguments)).status, NFS4ERR_WRONG_TYPE);
    EXPECT_EQ(Run(PutFh(MakeFifo("fifo")), Op(number, arguments)).status, NFS4ERR_WRONG_TYPE);
  }
};

// --- ALLOCATE, DEALLOCATE

TEST_F(SpaceTest, AllocateExtendsTheFile) {
  const nfs_fh4 file = MakeFile("file", "text");
  EXPECT_EQ(Run(PutFh(file), Op(OP_ALLOCATE, ALLOCATE4args{kAnonymous, 2, 1000})).status, NFS4_OK);
  EXPECT_EQ(ContentsOf("file"), "text" + std::string(998, '\0'));
  EXPECT_GE(AttributesOf("file")->used, 1000u);
}

TEST_F(SpaceTest, DeallocateLeavesZeros) {
  const nfs_fh4 file = MakeFile("file", "0123456789");
  EXPECT_EQ(Run(PutFh(file), Op(OP_DEALLOCATE, DEALLOCATE4args{kAnonymous, 2, 3})).status, NFS4_OK);
  EXPECT_EQ(ContentsOf("file"), std::string("01\0\0\0"
                                            "56789",
                                            10));
}

TEST_F(SpaceTest, RejectsInvalidRanges) {
  const nfs_fh4 file = MakeFile("file", "0123456789");
  EXPECT_EQ(Run(PutFh(file), Op(OP_ALLOCATE, ALLOCATE4args{kAnonymous, 0, 0})).status, NFS4ERR_INVAL);
  EXPECT_EQ(Run(PutFh(file), Op(OP_ALLOCATE, ALLOCATE4args{kAnonymous, UINT64_MAX, 5})).status, NFS4ERR_FBIG);
  EXPECT_EQ(Run(PutFh(file), Op(OP_ALLOCATE, ALLOCATE4args{kAnonymous, 0, 1ull << 39})).status, NFS4ERR_NOSPC);
  EXPECT_EQ(Run(PutFh(file), Op(OP_DEALLOCATE, DEALLOCATE4args{kAnonymous, 0, 0})).status, NFS4ERR_INVAL);
}

TEST_F(SpaceTest, AllocateRejectsNonFiles) { ExpectFilesOnly(OP_ALLOCATE, ALLOCATE4args{kAnonymous, 0, 1}); }
TEST_F(SpaceTest, DeallocateRejectsNonFiles) { ExpectFilesOnly(OP_DEALLOCATE, DEALLOCATE4args{kAnonymous, 0, 1}); }

TEST_F(SpaceTest, RequiresWritePermission) {
  const nfs_fh4 file = MakeFile("file", "0123456789", 0644);
  Client();
  server.SetUser(1000);
  EXPECT_EQ(Run(PutFh(file), Op(OP_ALLOCATE, ALLOCATE4args{kAnonymous, 0, 1})).status, NFS4ERR_ACCESS);
  EXPECT_EQ(Run(PutFh(file), Op(OP_DEALLOCATE, DEALLOCATE4args{kAnonymous, 0, 1})).status, NFS4ERR_ACCESS);
}

TEST_F(SpaceTest, RejectsAnInvalidStateid) {
  const nfs_fh4 file = MakeFile("file", "0123456789");
  const stateid4 unknown{.seqid = 1, .other = {std::byte{1}}};
  for (const nfsstat4 status : {Run(PutFh(file), Op(OP_ALLOCATE, ALLOCATE4args{unknown, 0, 1})).status,
                                Run(PutFh(file), Op(OP_DEALLOCATE, DEALLOCATE4args{unknown, 0, 1})).status,
                                Run(PutFh(file), Op(OP_SEEK, SEEK4args{unknown, 0, NFS4_CONTENT_DATA})).status,
                                Run(PutFh(file), Op(OP_READ_PLUS, READ_PLUS4args{unknown, 0, 1})).status,
                                Run(PutFh(file), Op(OP_IO_ADVISE, IO_ADVISE4args{unknown, 0, 1, {}})).status}) {
    EXPECT_EQ(status, NFS4ERR_BAD_STATEID);
  }
}

// --- SEEK

class SeekTest : public SpaceTest {
 protected:
  seek_res4 SeekOk(const nfs_fh4& file, uint64_t offset, data_content4 what) {
    auto reply = Run(PutFh(file), Op(OP_SEEK, SEEK4args{kAnonymous, offset, what}));
    EXPECT_EQ(reply.status, NFS4_OK);
    return reply.Skip().Next<SEEK4res>().resok4();
  }
};

TEST_F(SeekTest, FindsDataAndHoles) {
  const nfs_fh4 file = MakeSparse();
  EXPECT_EQ(SeekOk(file, 0, NFS4_CONTENT_HOLE), (seek_res4{false, kMegabyte}));
  EXPECT_EQ(SeekOk(file, kMegabyte, NFS4_CONTENT_DATA), (seek_res4{false, 3 * kMegabyte}));
}

TEST_F(SeekTest, ReportsTheEndAsAHole) {
  EXPECT_EQ(SeekOk(MakeSparse(), 3 * kMegabyte, NFS4_CONTENT_HOLE), (seek_res4{true, 4 * kMegabyte}));
}

TEST_F(SeekTest, ReportsTheEndIfNoDataFollows) {
  const nfs_fh4 file = MakeFile("file");
  ASSERT_EQ(Run(PutFh(file), Op(OP_ALLOCATE, ALLOCATE4args{kAnonymous, 0, 1000})).status, NFS4_OK);
  ASSERT_EQ(Run(PutFh(file), Op(OP_DEALLOCATE, DEALLOCATE4args{kAnonymous, 0, 1000})).status, NFS4_OK);
  EXPECT_EQ(SeekOk(file, 0, NFS4_CONTENT_DATA), (seek_res4{true, 1000}));
}

TEST_F(SeekTest, RejectsOffsetsFromTheEndOn) {
  const nfs_fh4 file = MakeFile("file", "0123456789");
  for (const uint64_t offset : {uint64_t{10}, uint64_t{11}, UINT64_MAX}) {
    EXPECT_EQ(Run(PutFh(file), Op(OP_SEEK, SEEK4args{kAnonymous, offset, NFS4_CONTENT_HOLE})).status, NFS4ERR_NXIO);
  }
  ExpectFilesOnly(OP_SEEK, SEEK4args{kAnonymous, 0, NFS4_CONTENT_DATA});
}

// --- READ_PLUS

class ReadPlusTest : public SpaceTest {
 protected:
  // Returns the reply as text, for example "data 0+5, hole 5+7, end".
  std::string ReadPlus(const nfs_fh4& file, uint64_t offset, uint32_t count) {
    auto reply = Run(PutFh(file), Op(OP_READ_PLUS, READ_PLUS4args{kAnonymous, offset, count}));
    EXPECT_EQ(reply.status, NFS4_OK);
    const read_plus_res4 result = reply.Skip().Next<READ_PLUS4res>().rp_resok4();
    std::string text;
    for (const read_plus_content& content : result.rpr_contents) {
      const bool is_data = content.is_rpc_data();
      const uint64_t at = is_data ? content.rpc_data().d_offset : content.rpc_hole().di_offset;
      const uint64_t size = is_data ? content.rpc_data().d_data.size() : content.rpc_hole().di_length;
      text += (is_data ? "data " : "hole ") + std::to_string(at) + "+" + std::to_string(size) + ", ";
      if (is_data) last_data_ = content.rpc_data().d_data.bytes();
    }
    return text + (result.rpr_eof ? "end" : "more");
  }
  std::string_view last_data() const { return AsText(last_data_); }

 private:
  ConstBytes last_data_;
};

// If the server replaced unreadable data by zeros, READ_PLUS would report a hole.
TEST_F(ReadPlusTest, ReportsUnreadableDataAsAnErrorNotAsAHole) {
  const nfs_fh4 file = MakeFile("file", "0123456789");
  const auto status = [&] { return Run(PutFh(file), Op(OP_READ_PLUS, READ_PLUS4args{kAnonymous, 0, 10})).status; };
  server.faults->Add({.effect = fs::faulty::Unreadable()});
  EXPECT_EQ(status(), NFS4ERR_IO);
  server.faults->Clear();
  for (const auto operation : {fs::faulty::Operation::kRead, fs::faulty::Operation::kSeek}) {
    server.faults->Add({.operation = operation, .effect = fs::faulty::FailWith(fs::Error::kIo)});
    EXPECT_EQ(status(), NFS4ERR_IO);
    server.faults->Clear();
  }
  EXPECT_EQ(ReadPlus(file, 0, 10), "data 0+10, end");
}

TEST_F(ReadPlusTest, ReturnsDataAndHolesInOrder) {
  const nfs_fh4 file = MakeSparse();
  EXPECT_EQ(ReadPlus(file, 0, 100), "data 0+100, more");
  EXPECT_EQ(ReadPlus(file, kMegabyte - 10, 100), "data 1048566+10, hole 1048576+90, more");
  EXPECT_EQ(ReadPlus(file, 3 * kMegabyte - 10, 100), "hole 3145718+10, data 3145728+90, more");
  EXPECT_EQ(ReadPlus(file, 4 * kMegabyte - 10, 100), "data 4194294+10, end");
}

TEST_F(ReadPlusTest, ReturnsTheWrittenData) {
  const nfs_fh4 file = MakeFile("file", "0123456789");
  EXPECT_EQ(ReadPlus(file, 3, 5), "data 3+5, more");
  EXPECT_EQ(last_data(), "34567");
}

TEST_F(ReadPlusTest, ReturnsZerosAsAHole) {
  const nfs_fh4 file = MakeFile("file", std::string(100, '\0'));
  EXPECT_EQ(ReadPlus(file, 0, 50), "hole 0+50, more");
}

TEST_F(ReadPlusTest, ReturnsNoDataFromTheEndOfTheFile) {
  const nfs_fh4 file = MakeFile("file", "0123456789");
  EXPECT_EQ(ReadPlus(file, 10, 5), "end");
  EXPECT_EQ(ReadPlus(file, UINT64_MAX, UINT32_MAX), "end");
  EXPECT_EQ(ReadPlus(MakeFile("empty"), 0, 5), "end");
  EXPECT_EQ(ReadPlus(file, 2, 0), "more");
}

TEST_F(ReadPlusTest, LimitsTheResultToTheSessionsReplySize) {
  const nfs_fh4 file = MakeFile("file", std::string(kMegabyte, 'x'));
  auto reply = Run(PutFh(file), Op(OP_READ_PLUS, READ_PLUS4args{kAnonymous, 0, 10 << 20}));
  ASSERT_EQ(reply.status, NFS4_OK);
  EXPECT_LE(reply.answer().message.stream.size(), size_t{1} << 20);
  const read_plus_res4 result = reply.Skip().Next<READ_PLUS4res>().rp_resok4();
  ASSERT_EQ(result.rpr_contents.size(), 1u);
  EXPECT_GT(result.rpr_contents[0].rpc_data().d_data.size(), kMegabyte / 2);
  EXPECT_FALSE(result.rpr_eof);
}

// RFC 8267 makes no item of this result DDP-eligible.
TEST_F(ReadPlusTest, ReturnsItsDataInline) {
  const nfs_fh4 file = MakeFile("file", "0123456789");
  const auto reply = Run(PutFh(file), Op(OP_READ_PLUS, READ_PLUS4args{kAnonymous, 0, 10}));
  EXPECT_TRUE(reply.answer().message.items.empty());
}

TEST_F(ReadPlusTest, RejectsNonFiles) {
  const auto read = Op(OP_READ_PLUS, READ_PLUS4args{kAnonymous, 0, 10});
  EXPECT_EQ(Run(PutFh(Root()), read).status, NFS4ERR_ISDIR);
  EXPECT_EQ(Run(PutFh(MakeSymlink("link", "target")), read).status, NFS4ERR_SYMLINK);
  EXPECT_EQ(Run(PutFh(MakeFifo("fifo")), read).status, NFS4ERR_WRONG_TYPE);
}

// --- WRITE_SAME

class WriteSameTest : public SpaceTest {
 protected:
  static WRITE_SAME4args Blocks(uint64_t size, uint64_t count, std::string_view pattern) {
    return {.wsa_stateid = kAnonymous,
            .wsa_stable = FILE_SYNC4,
            .wsa_adb = {.adb_offset = 0,
                        .adb_block_size = size,
                        .adb_block_count = count,
                        .adb_reloff_blocknum = NFS4_UINT64_MAX,
                        .adb_block_num = 0,
                        .adb_reloff_pattern = 0,
                        .adb_pattern = {AsBytes(pattern)}}};
  }
  write_response4 WriteOk(const nfs_fh4& file, const WRITE_SAME4args& arguments) {
    auto reply = Run(PutFh(file), Op(OP_WRITE_SAME, arguments));
    EXPECT_EQ(reply.status, NFS4_OK);
    return reply.Skip().Next<WRITE_SAME4res>().resok4();
  }
};

TEST_F(WriteSameTest, WritesThePatternAndNumberOfEachBlock) {
  const nfs_fh4 file = MakeFile("file", "0123456789");
  WRITE_SAME4args blocks = Blocks(8, 2, "ab");
  blocks.wsa_adb.adb_offset = 4;
  blocks.wsa_adb.adb_reloff_blocknum = 4;
  blocks.wsa_adb.adb_block_num = 0x41424344;
  const write_response4 written = WriteOk(file, blocks);
  EXPECT_EQ(written.wr_count, 16u);
  EXPECT_EQ(written.wr_committed, FILE_SYNC4);
  EXPECT_FALSE(written.wr_callback_id);
  EXPECT_EQ(ContentsOf("file"), std::string("0123"
                                            "ab\0\0ABCD"
                                            "ab\0\0ABCE",
                                            20));
}

TEST_F(WriteSameTest, FillsTheRestWithZeros) {
  WRITE_SAME4args blocks = Blocks(8, 1, "pattern!");
  blocks.wsa_adb.adb_reloff_pattern = NFS4_UINT64_MAX;
  WriteOk(MakeFile("file", "0123456789"), blocks);
  EXPECT_EQ(ContentsOf("file"), std::string("\0\0\0\0\0\0\0\0"
                                            "89",
                                            10));
}

TEST_F(WriteSameTest, NumbersBlocksContinuouslyAcrossSteps) {
  WRITE_SAME4args blocks = Blocks(300'000, 5, "x");
  blocks.wsa_adb.adb_reloff_blocknum = 8;
  EXPECT_EQ(WriteOk(MakeFile("file"), blocks).wr_count, 1'500'000u);
  EXPECT_EQ(AttributesOf("file")->size, 1'500'000u);
  const fs::Handle file = Now(tree.Lookup(AsRoot(), tree.Root(), "file")).result->handle;
  const auto last = Now(tree.Read(AsRoot(), file, 1'200'000, 12));
  EXPECT_EQ(AsText(last.result->data.bytes()), std::string_view("x\0\0\0\0\0\0\0\0\0\0\4", 12));
}

TEST_F(WriteSameTest, ReturnsAShortWriteOfWholeBlocks) {
  const write_response4 written = WriteOk(MakeFile("file"), Blocks(7 << 20, UINT64_MAX, "x"));
  EXPECT_EQ(written.wr_count, 63u << 20);
}

TEST_F(WriteSameTest, RejectsInvalidBlocks) {
  const nfs_fh4 file = MakeFile("file");
  WRITE_SAME4args outside = Blocks(8, 1, "ab");
  outside.wsa_adb.adb_reloff_pattern = 7;
  WRITE_SAME4args number = Blocks(8, 1, "ab");
  number.wsa_adb.adb_reloff_blocknum = 5;
  WRITE_SAME4args beyond = Blocks(8, 1, "ab");
  beyond.wsa_adb.adb_offset = UINT64_MAX - 3;
  EXPECT_EQ(Run(PutFh(file), Op(OP_WRITE_SAME, Blocks(0, 1, ""))).status, NFS4ERR_INVAL);
  EXPECT_EQ(Run(PutFh(file), Op(OP_WRITE_SAME, Blocks(UINT64_MAX, 1, ""))).status, NFS4ERR_INVAL);
  EXPECT_EQ(Run(PutFh(file), Op(OP_WRITE_SAME, outside)).status, NFS4ERR_INVAL);
  EXPECT_EQ(Run(PutFh(file), Op(OP_WRITE_SAME, number)).status, NFS4ERR_INVAL);
  EXPECT_EQ(Run(PutFh(file), Op(OP_WRITE_SAME, beyond)).status, NFS4ERR_FBIG);
  ExpectFilesOnly(OP_WRITE_SAME, Blocks(8, 1, "ab"));
}

// --- IO_ADVISE

TEST_F(SpaceTest, AdviseReturnsTheHintsThatItFollows) {
  const nfs_fh4 file = MakeFile("file", "0123456789");
  const auto advise = [&](bitmap4 hints) {
    auto reply = Run(PutFh(file), Op(OP_IO_ADVISE, IO_ADVISE4args{kAnonymous, 0, 0, std::move(hints)}));
    EXPECT_EQ(reply.status, NFS4_OK);
    return reply.Skip().Next<IO_ADVISE4res>().resok4().ior_hints;
  };
  const auto only = [](IO_ADVISE_type4 hint) { return bitmap4{1u << static_cast<uint32_t>(hint)}; };
  EXPECT_EQ(advise(only(IO_ADVISE4_WILLNEED)), only(IO_ADVISE4_WILLNEED));
  EXPECT_EQ(advise(only(IO_ADVISE4_DONTNEED)), only(IO_ADVISE4_DONTNEED));
  EXPECT_EQ(advise(only(IO_ADVISE4_RANDOM)), only(IO_ADVISE4_NORMAL));
  EXPECT_EQ(advise({~0u, ~0u, ~0u}), only(IO_ADVISE4_WILLNEED)) << "contradictory hints are no error";
  EXPECT_EQ(advise({}), only(IO_ADVISE4_NORMAL));
}

}  // namespace
}  // namespace penstock::nfs::v4
