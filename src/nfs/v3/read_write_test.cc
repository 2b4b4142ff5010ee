#include "nfs/v3/nfs_test.h"

namespace penstock::nfs::v3 {
namespace {

constexpr uint64_t kBeyondEveryFile = uint64_t{1} << 63;

using ReadTest = NfsTest;
using ReadOnlyDataTest = ReadOnlyTest;

class WriteTest : public NfsTest {
 protected:
  WRITE3res Write(const nfs_fh3& file, uint64_t offset, std::string_view data, stable_how stable = UNSTABLE) {
    const auto count = static_cast<uint32_t>(data.size());
    return Call<NFSPROC3_WRITE>({file, offset, count, stable, xdr::Payload<>::Borrowed(data)});
  }
};
using CommitTest = WriteTest;

TEST_F(ReadTest, ReturnsTheRequestedOctets) {
  const auto read = Call<NFSPROC3_READ>({MakeFile("file", "0123456789"), 2, 5});
  ASSERT_EQ(read.status(), NFS3_OK);
  EXPECT_EQ(read.resok().data.text(), "23456");
  EXPECT_EQ(read.resok().count, 5u);
  EXPECT_FALSE(read.resok().eof);
  EXPECT_EQ(read.resok().file_attributes->size, 10u);
}

TEST_F(ReadTest, ReportsTheEndOfTheFile) {
  const nfs_fh3 file = MakeFile("file", "0123456789");
  const auto exactly = Call<NFSPROC3_READ>({file, 5, 5});
  EXPECT_EQ(exactly.resok().data.text(), "56789");
  EXPECT_TRUE(exactly.resok().eof);
  const auto across = Call<NFSPROC3_READ>({file, 5, 50});
  EXPECT_EQ(across.resok().count, 5u);
  EXPECT_TRUE(across.resok().eof);
}

TEST_F(ReadTest, ReturnsNoDataAtAndBeyondTheEnd) {
  const nfs_fh3 file = MakeFile("file", "0123456789");
  for (const uint64_t offset : {uint64_t{10}, uint64_t{11}, kBeyondEveryFile - 1, kBeyondEveryFile, UINT64_MAX}) {
    const auto read = Call<NFSPROC3_READ>({file, offset, 4096});
    ASSERT_EQ(read.status(), NFS3_OK) << offset;
    EXPECT_EQ(read.resok().count, 0u);
    EXPECT_TRUE(read.resok().eof);
    EXPECT_TRUE(read.resok().data.empty());
  }
  EXPECT_TRUE(Call<NFSPROC3_READ>({MakeFile("empty"), 0, 1}).resok().eof);
}

TEST_F(ReadTest, AcceptsACountOfZero) {
  const auto read = Call<NFSPROC3_READ>({MakeFile("file", "0123456789"), 3, 0});
  ASSERT_EQ(read.status(), NFS3_OK);
  EXPECT_EQ(read.resok().count, 0u);
  EXPECT_FALSE(read.resok().eof);
}

TEST_F(ReadTest, ReturnsAShortReadAboveTheMaximum) {
  const auto read = Call<NFSPROC3_READ>({MakeFile("file", std::string(4096, 'x')), 0, UINT32_MAX});
  EXPECT_EQ(read.resok().count, 4096u);
  const nfs_fh3 file = MakeFile("longer", std::string(4096, 'x'));
  WriteAll(file, "y", 4096);
  const auto longer = Call<NFSPROC3_READ>({file, 0, UINT32_MAX});
  EXPECT_EQ(longer.resok().count, 4096u);
  EXPECT_FALSE(longer.resok().eof);
}

TEST_F(ReadTest, ReturnsTheDataAsAPayload) {
  const nfs_fh3 file = MakeFile("file", "0123456789");
  const Answer answer = memory.Ask(memory.EncodeCall<NFSPROC3_READ>({file, 0, 10}));
  ASSERT_EQ(answer.message.items.size(), 1u);
  EXPECT_EQ(AsText(answer.message.items[0].data.bytes()), "0123456789");
  EXPECT_EQ(answer.message.items[0].offset, answer.message.stream.size());  // the payload is the last result
}

TEST_F(ReadTest, ReturnsAnEmptyPayloadForNoData) {
  const Answer answer = memory.Ask(memory.EncodeCall<NFSPROC3_READ>({MakeFile("empty"), 0, 10}));
  ASSERT_EQ(answer.message.items.size(), 1u);
  EXPECT_TRUE(answer.message.items[0].data.empty());
}

TEST_F(ReadTest, RejectsNonFiles) {
  EXPECT_EQ(Call<NFSPROC3_READ>({root, 0, 10}).status(), NFS3ERR_INVAL);
  EXPECT_TRUE(Call<NFSPROC3_READ>({root, 0, 10}).resfail().file_attributes);
  EXPECT_EQ(Call<NFSPROC3_READ>({MakeSymlink("link", "target"), 0, 10}).status(), NFS3ERR_INVAL);
}

TEST_F(ReadTest, RequiresReadPermissionAndAValidHandle) {
  const nfs_fh3 file = MakeFile("file", "secret", 0600);
  EXPECT_EQ(Call<NFSPROC3_READ>({StaleHandle(), 0, 10}).status(), NFS3ERR_STALE);
  EXPECT_EQ(Call<NFSPROC3_READ>({NoHandle(), 0, 10}).status(), NFS3ERR_BADHANDLE);
  memory.SetUser(1000);
  const auto denied = Call<NFSPROC3_READ>({file, 0, 10});
  EXPECT_EQ(denied.status(), NFS3ERR_ACCES);
  EXPECT_TRUE(denied.resfail().file_attributes);
}

TEST_F(WriteTest, WritesTheOctetsAtTheOffset) {
  const nfs_fh3 file = MakeFile("file", "0123456789");
  const auto written = Write(file, 3, "abc");
  ASSERT_EQ(written.status(), NFS3_OK);
  EXPECT_EQ(written.resok().count, 3u);
  EXPECT_THAT(written.resok().file_wcc, ShowsAChange());
  EXPECT_EQ(ReadAll(file), "012abc6789");
}

TEST_F(WriteTest, ExtendsTheFileAcrossAHole) {
  const nfs_fh3 file = MakeFile("file", "01");
  const auto written = Write(file, 4, "45");
  EXPECT_EQ(written.resok().file_wcc.before->size, 2u);
  EXPECT_EQ(written.resok().file_wcc.after->size, 6u);
  EXPECT_EQ(ReadAll(file), std::string("01\0\00045", 6));
}

TEST_F(WriteTest, CommitsAtLeastAsRequested) {
  const nfs_fh3 file = MakeFile("file");
  for (const stable_how how : {UNSTABLE, DATA_SYNC, FILE_SYNC}) {
    EXPECT_GE(Write(file, 0, "x", how).resok().committed, how);
  }
}

TEST_F(WriteTest, VerifierStaysTheSame) {
  const nfs_fh3 file = MakeFile("file");
  const writeverf3 verifier = Write(file, 0, "x").resok().verf;
  EXPECT_EQ(Write(file, 1, "y").resok().verf, verifier);
  EXPECT_EQ(Call<NFSPROC3_COMMIT>({file, 0, 0}).resok().verf, verifier);
}

TEST_F(WriteTest, AcceptsACountOfZero) {
  const auto written = Write(MakeFile("file", "contents"), 100, "");
  ASSERT_EQ(written.status(), NFS3_OK);
  EXPECT_EQ(written.resok().count, 0u);
  EXPECT_THAT(written.resok().file_wcc, IsUnchanged());
}

TEST_F(WriteTest, WritesAShortCountAboveTheMaximum) {
  const nfs_fh3 file = MakeFile("file");
  const std::string data(5000, 'x');
  const auto written = Write(file, 0, data);
  ASSERT_EQ(written.status(), NFS3_OK);
  EXPECT_EQ(written.resok().count, 4096u);
  EXPECT_EQ(AttributesOf(file).size, 4096u);
}

TEST_F(WriteTest, RejectsACountThatDiffersFromTheDataLength) {
  const nfs_fh3 file = MakeFile("file", "contents");
  for (const uint32_t count : {0u, 2u, 4u}) {
    const auto written = Call<NFSPROC3_WRITE>({file, 0, count, UNSTABLE, xdr::Payload<>::Borrowed("abc")});
    EXPECT_EQ(written.status(), NFS3ERR_INVAL) << count;
    EXPECT_THAT(written.resfail().file_wcc, IsUnchanged());
  }
  EXPECT_EQ(ReadAll(file), "contents");
}

TEST_F(WriteTest, RejectsAWriteBeyondTheMaximumSize) {
  const nfs_fh3 file = MakeFile("file");
  for (const uint64_t offset : {kBeyondEveryFile - 2, kBeyondEveryFile, UINT64_MAX, UINT64_MAX - 1}) {
    const auto written = Write(file, offset, "abc");
    EXPECT_EQ(written.status(), NFS3ERR_FBIG) << offset;
    EXPECT_THAT(written.resfail().file_wcc, IsUnchanged());
  }
}

TEST_F(WriteTest, TreatsPlacedAndInlineDataAlike) {
  const nfs_fh3 file = MakeFile("file");
  rpc::Message beside = memory.EncodeCall<NFSPROC3_WRITE>({file, 0, 5, FILE_SYNC, xdr::Payload<>::Borrowed("abcde")});
  ASSERT_EQ(beside.items.size(), 1u);
  // The call over a stream transport: the data and its padding follow its length.
  std::string flat(AsText(beside.stream.bytes()));
  flat += std::string("abcde\0\0\0", 8);
  flat[3] ^= 1;  // a new XID makes it another call
  rpc::Message inline_data;
  inline_data.stream = Slice::Borrowed(AsBytes(flat));

  EXPECT_EQ(memory.ResultsOf<NFSPROC3_WRITE>(memory.Ask(std::move(beside))).status(), NFS3_OK);
  EXPECT_EQ(ReadAll(file), "abcde");
  EXPECT_EQ(Call<NFSPROC3_SETATTR>({file, {.size = 0}, {}}).status(), NFS3_OK);
  EXPECT_EQ(memory.ResultsOf<NFSPROC3_WRITE>(memory.Ask(std::move(inline_data))).status(), NFS3_OK);
  EXPECT_EQ(ReadAll(file), "abcde");
}

// The client retransmits an unread WRITE over another connection, and then writes newer data to the same place.
TEST_F(WriteTest, LateWriteDoesNotOverwriteNewerData) {
  const nfs_fh3 file = MakeFile("file");
  const auto write = [&](uint32_t xid, std::string_view data) {
    return memory.Encode(rpc::Xid(xid), NFS_PROGRAM, NFS_V3, NFSPROC3_WRITE::kNumber,
                         WRITE3args{file, 0, 5, FILE_SYNC, xdr::Payload<>::Borrowed(data)});
  };
  memory.peer.connection = 2;
  const Answer first = memory.Ask(write(77, "older"));
  EXPECT_TRUE(Equal(memory.Ask(write(77, "older")).message.stream.bytes(), first.message.stream.bytes()));
  EXPECT_EQ(memory.ResultsOf<NFSPROC3_WRITE>(memory.Ask(write(78, "newer"))).status(), NFS3_OK);
  EXPECT_TRUE(Equal(memory.Ask(write(77, "older")).message.stream.bytes(), first.message.stream.bytes()));
  EXPECT_EQ(ReadAll(file), "newer");
  memory.peer.connection = 1;
  EXPECT_TRUE(Now(memory.dispatcher.HandleCall(write(77, "older"), memory.peer)).empty())
      << "the late WRITE gets no reply";
  EXPECT_TRUE(Now(memory.dispatcher.HandleCall(write(76, "oldest"), memory.peer)).empty());
  EXPECT_EQ(ReadAll(file), "newer");
}

TEST_F(WriteTest, RejectsNonFiles) {
  EXPECT_EQ(Write(root, 0, "x").status(), NFS3ERR_INVAL);
  EXPECT_THAT(Write(root, 0, "x").resfail().file_wcc, IsUnchanged());
  EXPECT_EQ(Write(MakeSymlink("link", "target"), 0, "x").status(), NFS3ERR_INVAL);
}

TEST_F(WriteTest, RequiresWritePermissionAndAValidHandle) {
  const nfs_fh3 file = MakeFile("file", "", 0644);
  EXPECT_EQ(Write(StaleHandle(), 0, "x").status(), NFS3ERR_STALE);
  EXPECT_EQ(Write(NoHandle(), 0, "x").status(), NFS3ERR_BADHANDLE);
  memory.SetUser(1000);
  EXPECT_EQ(Write(file, 0, "x").status(), NFS3ERR_ACCES);
}

TEST_F(ReadOnlyDataTest, AllowsReadsButNotWrites) {
  EXPECT_EQ(Call<NFSPROC3_READ>({file, 0, 1}).status(), NFS3_OK);
  const auto written = Call<NFSPROC3_WRITE>({file, 0, 1, UNSTABLE, xdr::Payload<>::Borrowed("x")});
  EXPECT_EQ(written.status(), NFS3ERR_ROFS);
  EXPECT_THAT(written.resfail().file_wcc, IsUnchanged());
}

TEST_F(CommitTest, AcceptsAnyRange) {
  const nfs_fh3 file = MakeFile("file", "contents");
  for (const COMMIT3args& range : {COMMIT3args{file, 0, 0}, {file, 2, 3}, {file, UINT64_MAX, UINT32_MAX}}) {
    const auto committed = Call<NFSPROC3_COMMIT>(range);
    EXPECT_EQ(committed.status(), NFS3_OK);
    EXPECT_THAT(committed.resok().file_wcc, IsUnchanged());
  }
}

TEST_F(CommitTest, RejectsNonFiles) {
  EXPECT_EQ(Call<NFSPROC3_COMMIT>({root, 0, 0}).status(), NFS3ERR_INVAL);
  EXPECT_EQ(Call<NFSPROC3_COMMIT>({StaleHandle(), 0, 0}).status(), NFS3ERR_STALE);
  EXPECT_EQ(Call<NFSPROC3_COMMIT>({NoHandle(), 0, 0}).status(), NFS3ERR_BADHANDLE);
}

}  // namespace
}  // namespace penstock::nfs::v3
