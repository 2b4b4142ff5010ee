#include <map>

#include "nfs/v4/engine/nfs4_test.h"
#include "rpc/reply_room.h"

namespace penstock::nfs::v4 {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

constexpr uint32_t kPlenty = 1 << 16;

class ReadDirectoryTest : public Nfs4Test {
 protected:
  CompoundReply Read(const nfs_fh4& directory, uint64_t cookie = 0, const verifier4& verifier = {},
                     uint32_t maxcount = kPlenty, const AttributeSet& set = {}, uint32_t dircount = 0) {
    return Run0(PutFh(directory), Op(OP_READDIR, READDIR4args{cookie, verifier, dircount, maxcount, set.ToBitmap()}));
  }
  READDIR4resok ReadOk(const nfs_fh4& directory, const AttributeSet& set = {}) {
    auto reply = Read(directory, 0, {}, kPlenty, set);
    EXPECT_EQ(reply.status, NFS4_OK);
    return reply.Skip().Next<READDIR4res>().resok4();
  }
  // Makes a directory that user 1000 may read but not search. Later calls of the test come from user 1000.
  nfs_fh4 MakeReadableDirectory() {
    const nfs_fh4 directory = MakeDirectory("readable", 0444);
    const fs::Handle handle = FileHandle::Parse(directory.bytes())->object;
    for (const std::string_view name : {"a", "b"}) EXPECT_TRUE(Now(tree.Create(AsRoot(), handle, name, {})).result);
    server.SetUser(1000);
    return directory;
  }
  static std::vector<std::string> NamesOf(const READDIR4resok& read) {
    std::vector<std::string> names;
    for (const entry4& entry : read.reply.entries) names.emplace_back(entry.name);
    return names;
  }
};

TEST_F(ReadDirectoryTest, ReturnsEveryNameExceptDotAndDotDot) {
  MakeFile("a");
  MakeDirectory("b");
  const READDIR4resok read = ReadOk(Root());
  EXPECT_THAT(NamesOf(read), ElementsAre("a", "b"));
  EXPECT_TRUE(read.reply.eof);
  for (const entry4& entry : read.reply.entries) EXPECT_GT(entry.cookie, 2u);
}

TEST_F(ReadDirectoryTest, ReadsAnEmptyDirectory) {
  const READDIR4resok read = ReadOk(MakeDirectory("empty"));
  EXPECT_THAT(read.reply.entries, IsEmpty());
  EXPECT_TRUE(read.reply.eof);
}

TEST_F(ReadDirectoryTest, ContinuesFromACookieWithoutRepetition) {
  std::vector<std::string> expected;
  for (int i = 0; i < 30; ++i) MakeFile(expected.emplace_back("file " + std::to_string(i)));
  std::vector<std::string> names;
  uint64_t cookie = 0;
  verifier4 verifier{};
  for (bool eof = false; !eof;) {
    auto reply = Read(Root(), cookie, verifier, 200);
    ASSERT_EQ(reply.status, NFS4_OK);
    const READDIR4resok read = reply.Skip().Next<READDIR4res>().resok4();
    ASSERT_THAT(read.reply.entries, testing::Not(IsEmpty()));
    for (const std::string& name : NamesOf(read)) names.push_back(name);
    cookie = read.reply.entries.back().cookie;
    verifier = read.cookieverf;
    eof = read.reply.eof;
  }
  EXPECT_EQ(names, expected);
}

TEST_F(ReadDirectoryTest, MaxcountLimitsTheResults) {
  for (int i = 0; i < 30; ++i) MakeFile("file " + std::to_string(i));
  for (uint32_t maxcount = 100; maxcount < 600; maxcount += 7) {
    auto reply = Read(Root(), 0, {}, maxcount, {FATTR4_TYPE, FATTR4_SIZE});
    const READDIR4resok read = reply.Skip().Next<READDIR4res>().resok4();
    EXPECT_LE(xdr::EncodedSize(read), maxcount);
    EXPECT_THAT(read.reply.entries, testing::Not(IsEmpty())) << maxcount;
  }
}

TEST_F(ReadDirectoryTest, ReturnsShortRepliesIfMemoryIsShort) {
  for (int i = 0; i < 300; ++i) MakeFile(std::string(100, 'n') + std::to_string(i));
  rpc::MemoryBudget budget({.octets = 1 << 20, .own_octets = 0});
  const auto account = budget.Open(asio::ip::make_address("192.0.2.1"));
  server.peer.memory = account.get();
  for (const size_t used : {size_t{0}, size_t{1} << 20}) {
    account->Update(used);
    const READDIR4resok read = ReadOk(Root());
    EXPECT_EQ(read.reply.eof, used == 0);
    EXPECT_GT(read.reply.entries.size(), 10u);
    EXPECT_EQ(xdr::EncodedSize(read) <= rpc::ReplyRoom::kLeast, used > 0);
    EXPECT_EQ(budget.shared_octets(), used) << "READDIR releases its reserved memory";
  }
}

TEST_F(ReadDirectoryTest, RejectsACountTooSmallForOneEntry) {
  EXPECT_EQ(Read(Root(), 0, {}, 0).status, NFS4ERR_TOOSMALL);
  EXPECT_EQ(Read(Root(), 0, {}, 15).status, NFS4ERR_TOOSMALL);
  EXPECT_EQ(Read(Root(), 0, {}, 16).status, NFS4_OK);  // the directory has no entries
  MakeFile("file");
  EXPECT_EQ(Read(Root(), 0, {}, 40).status, NFS4ERR_TOOSMALL);
}

TEST_F(ReadDirectoryTest, DircountLimitsTheNames) {
  for (int i = 0; i < 30; ++i) MakeFile("file " + std::to_string(i));
  auto reply = Read(Root(), 0, {}, kPlenty, {FATTR4_SIZE}, 64);
  EXPECT_THAT(reply.Skip().Next<READDIR4res>().resok4().reply.entries, SizeIs(3));  // each entry counts 20 octets
}

TEST_F(ReadDirectoryTest, RejectsReservedAndUnknownCookies) {
  EXPECT_EQ(Read(Root(), 1).status, NFS4ERR_BAD_COOKIE);
  EXPECT_EQ(Read(Root(), 2).status, NFS4ERR_BAD_COOKIE);
  EXPECT_EQ(Read(Root(), 4711).status, NFS4ERR_BAD_COOKIE);
}

TEST_F(ReadDirectoryTest, RejectsACookieWithAnotherVerifier) {
  MakeFile("a");
  MakeFile("b");
  const uint64_t cookie = ReadOk(Root()).reply.entries[0].cookie;
  const verifier4 other{std::byte{1}, std::byte{2}};
  EXPECT_EQ(Read(Root(), cookie, other).status, NFS4ERR_NOT_SAME);
}

TEST_F(ReadDirectoryTest, ReturnsTheRequestedAttributesOfEntries) {
  const nfs_fh4 file = MakeFile("file", "contents");
  const READDIR4resok read = ReadOk(Root(), {FATTR4_SIZE, FATTR4_FILEHANDLE, FATTR4_OWNER});
  ASSERT_THAT(read.reply.entries, SizeIs(1));
  const fattr4& attributes = read.reply.entries[0].attrs;
  EXPECT_EQ(AttributeSet(attributes.attrmask), (AttributeSet{FATTR4_SIZE, FATTR4_FILEHANDLE, FATTR4_OWNER}));
  const xdr::Message message = xdr::Message::Whole(Slice::Borrowed(attributes.attr_vals.bytes()));
  xdr::Decoder decoder(message);
  uint64_t size = 0;
  nfs_fh4 handle;
  fattr4_owner owner;
  EXPECT_TRUE(decoder.U64(size) && xdr::Decode(decoder, handle) && xdr::Decode(decoder, owner) && decoder.Finish());
  EXPECT_EQ(size, 8u);
  EXPECT_EQ(handle, file);
  EXPECT_EQ(owner, "0");
}

TEST_F(ReadDirectoryTest, ReturnsTheAccessControlListOfEachEntry) {
  for (const uint32_t mode : {0600u, 0640u, 0644u}) MakeFile(std::to_string(mode), "", mode);
  const READDIR4resok read = ReadOk(Root(), {FATTR4_ACL});
  ASSERT_THAT(read.reply.entries, SizeIs(3));
  EXPECT_NE(read.reply.entries[0].attrs, read.reply.entries[1].attrs);
  EXPECT_NE(read.reply.entries[1].attrs, read.reply.entries[2].attrs);
}

TEST_F(ReadDirectoryTest, ReturnsBothFormsOfALongAccessControlList) {
  fs::Acl acl = fs::AclOfMode(0644);
  acl.insert(acl.begin() + 2, {fs::AclTag::kMask, 0, 7});
  for (uint32_t id = 1; acl.size() < 60; ++id) acl.insert(acl.end() - 2, {fs::AclTag::kGroup, id, 5});
  const fs::RequestContext context{.credentials = {.uid = 0, .gid = 0, .groups = {}}};
  const auto made = Now(tree.Create(context, tree.Root(), "file", {}));
  ASSERT_TRUE(Now(tree.SetAcls(context, made.result->handle, {acl, {}})).result);
  SessionClient client(server, "client", 1);
  const READDIR4args both{.cookie = 0,
                          .cookieverf = {},
                          .dircount = 0,
                          .maxcount = 1 << 19,
                          .attr_request = AttributeSet{FATTR4_ACL, FATTR4_DACL}.ToBitmap()};
  auto reply = client.Run(PutRoot(), Op(OP_READDIR, both));
  ASSERT_EQ(reply.status, NFS4_OK);
  const READDIR4resok read = reply.Skip().Next<READDIR4res>().resok4();
  ASSERT_THAT(read.reply.entries, SizeIs(1));
  EXPECT_EQ(AttributeSet(read.reply.entries[0].attrs.attrmask), (AttributeSet{FATTR4_ACL, FATTR4_DACL}));
}

TEST_F(ReadDirectoryTest, RejectsWriteOnlyAttributes) {
  EXPECT_EQ(Read(Root(), 0, {}, kPlenty, {FATTR4_TIME_ACCESS_SET}).status, NFS4ERR_INVAL);
}

// RFC 8881 §18.23.3, §5.8.1.12
TEST_F(ReadDirectoryTest, ReportsErrorsOfEntriesInRdattrError) {
  const nfs_fh4 directory = MakeReadableDirectory();
  const READDIR4resok read = ReadOk(directory, {FATTR4_TYPE, FATTR4_RDATTR_ERROR, FATTR4_MOUNTED_ON_FILEID});
  EXPECT_THAT(NamesOf(read), ElementsAre("a", "b"));
  EXPECT_TRUE(read.reply.eof);
  for (const entry4& entry : read.reply.entries) {
    EXPECT_EQ(AttributeSet(entry.attrs.attrmask), (AttributeSet{FATTR4_RDATTR_ERROR, FATTR4_MOUNTED_ON_FILEID}));
    EXPECT_EQ(nfsstat4(LoadBig<uint32_t>(entry.attrs.attr_vals.bytes().data())), NFS4ERR_ACCESS);
  }
}

TEST_F(ReadDirectoryTest, FailsWithoutRdattrErrorIfAttributesAreUnavailable) {
  const nfs_fh4 directory = MakeReadableDirectory();
  EXPECT_EQ(Read(directory, 0, {}, kPlenty, {FATTR4_TYPE}).status, NFS4ERR_ACCESS);
  EXPECT_THAT(NamesOf(ReadOk(directory)), ElementsAre("a", "b"));
  EXPECT_THAT(NamesOf(ReadOk(directory, {FATTR4_MOUNTED_ON_FILEID})), ElementsAre("a", "b"));
}

TEST_F(ReadDirectoryTest, RequiresADirectoryAndReadPermission) {
  EXPECT_EQ(Read(MakeFile("file")).status, NFS4ERR_NOTDIR);
  const nfs_fh4 secret = MakeDirectory("secret", 0700);
  server.SetUser(1000);
  EXPECT_EQ(Read(secret).status, NFS4ERR_ACCESS);
}

}  // namespace
}  // namespace penstock::nfs::v4
