#include <map>
#include <set>

#include "nfs/v3/nfs_test.h"
#include "rpc/reply_room.h"

namespace penstock::nfs::v3 {
namespace {

using testing::IsSupersetOf;
using testing::UnorderedElementsAre;

class ReadDirectoryTest : public NfsTest {
 protected:
  READDIR3res Read(const nfs_fh3& directory, cookie3 cookie, const cookieverf3& verifier, uint32_t count) {
    return Call<NFSPROC3_READDIR>({directory, cookie, verifier, count});
  }

  // Returns the names in the order in which a client reads them, cookie by cookie. `between` runs after each call.
  template <class Between>
  std::vector<std::string> ReadAllNames(uint32_t count, Between between) {
    std::vector<std::string> names;
    cookie3 cookie = 0;
    cookieverf3 verifier{};
    for (int calls = 0; calls < 1000; ++calls) {
      const auto read = Read(root, cookie, verifier, count);
      EXPECT_EQ(read.status(), NFS3_OK);
      if (read.status() != NFS3_OK) return names;
      for (const auto& entry : read.resok().reply.entries) {
        names.emplace_back(entry.name);
        cookie = entry.cookie;
      }
      verifier = read.resok().cookieverf;
      if (read.resok().reply.eof) return names;
      between();
    }
    ADD_FAILURE() << "the directory has no end";
    return names;
  }
  std::vector<std::string> ReadAllNames(uint32_t count) {
    return ReadAllNames(count, [] {});
  }
};

class ReadDirectoryPlusTest : public NfsTest {
 protected:
  READDIRPLUS3res Read(uint32_t dircount, uint32_t maxcount) {
    return Call<NFSPROC3_READDIRPLUS>({root, 0, {}, dircount, maxcount});
  }
};

TEST_F(ReadDirectoryTest, ReturnsEveryEntry) {
  const nfs_fh3 file = MakeFile("file");
  MakeDirectory("directory");
  const auto read = Read(root, 0, {}, 4096);
  ASSERT_EQ(read.status(), NFS3_OK);
  EXPECT_EQ(read.resok().dir_attributes->type, NF3DIR);
  EXPECT_TRUE(read.resok().reply.eof);
  std::map<std::string, uint64_t> ids;
  for (const auto& entry : read.resok().reply.entries) ids[std::string(entry.name)] = entry.fileid;
  EXPECT_EQ(ids.size(), 4u);
  EXPECT_EQ(ids.at("file"), AttributesOf(file).fileid);
  EXPECT_EQ(ids.at("."), AttributesOf(root).fileid);
  EXPECT_EQ(ids.at(".."), AttributesOf(root).fileid);
  EXPECT_TRUE(ids.contains("directory"));
}

TEST_F(ReadDirectoryTest, CountLimitsTheWholeResult) {
  for (int i = 0; i < 40; ++i) MakeFile("file with a name of length " + std::to_string(i));
  for (const uint32_t count : {200u, 201u, 202u, 203u, 512u, 1000u}) {
    const auto read = Read(root, 0, {}, count);
    ASSERT_EQ(read.status(), NFS3_OK);
    EXPECT_FALSE(read.resok().reply.entries.empty());
    EXPECT_FALSE(read.resok().reply.eof);
    const size_t size = xdr::EncodedSize(read.resok());
    EXPECT_LE(size, count);
    EXPECT_GT(size + 60, count);  // the reply uses most of the count
  }
}

TEST_F(ReadDirectoryTest, ReadsADirectoryInPiecesOfAnySize) {
  std::set<std::string> expected{".", ".."};
  for (int i = 0; i < 60; ++i) MakeFile(*expected.insert("file " + std::to_string(i)).first);
  for (const uint32_t count : {150u, 300u, 777u, 4096u, UINT32_MAX}) {
    const auto names = ReadAllNames(count);
    EXPECT_EQ(names.size(), expected.size());
    EXPECT_EQ(std::set(names.begin(), names.end()), expected);
  }
}

// A client may ask for a megabyte many times at once.
TEST(ReadDirectory, ReturnsShortRepliesIfMemoryIsShort) {
  TestServer server({.max_read = 4096, .max_write = 4096, .max_directory = 1 << 20});
  server.Export("/");
  const nfs_fh3 root = server.RootOf("/");
  for (int i = 0; i < 300; ++i) {
    const std::string name = std::string(100, 'n') + std::to_string(i);
    ASSERT_EQ(server.Call<NFSPROC3_CREATE>({{root, name}, createhow3(GUARDED, sattr3{})}).status(), NFS3_OK);
  }
  rpc::MemoryBudget budget({.octets = 1 << 20, .own_octets = 0});
  const auto account = budget.Open(asio::ip::make_address("192.0.2.1"));
  server.peer.memory = account.get();
  for (const size_t used : {size_t{0}, size_t{1} << 20}) {
    account->Update(used);
    const auto read = server.Call<NFSPROC3_READDIR>({root, 0, {}, 200'000});
    ASSERT_EQ(read.status(), NFS3_OK);
    EXPECT_EQ(read.resok().reply.eof, used == 0);
    EXPECT_GT(read.resok().reply.entries.size(), 10u);
    EXPECT_EQ(xdr::EncodedSize(read.resok()) <= rpc::ReplyRoom::kLeast, used > 0);
    EXPECT_EQ(budget.shared_octets(), used) << "the reserved memory is free again";
  }
}

TEST_F(ReadDirectoryTest, ReturnsNoEntriesAfterTheLastCookie) {
  MakeFile("file");
  const auto all = Read(root, 0, {}, 4096);
  const auto again = Read(root, all.resok().reply.entries.back().cookie, all.resok().cookieverf, 4096);
  ASSERT_EQ(again.status(), NFS3_OK);
  EXPECT_TRUE(again.resok().reply.entries.empty());
  EXPECT_TRUE(again.resok().reply.eof);
}

TEST_F(ReadDirectoryTest, ListsUnchangedEntriesOnceWhileOthersComeAndGo) {
  std::vector<std::string> stays;
  for (int i = 0; i < 40; ++i) {
    MakeFile(stays.emplace_back("stays " + std::to_string(i)));
    MakeFile("goes " + std::to_string(i));
  }
  int round = 0;
  const auto names = ReadAllNames(300, [&] {
    if (round < 40) Remove("goes " + std::to_string(round));
    MakeFile("comes " + std::to_string(round++));
  });
  EXPECT_GT(round, 5);
  EXPECT_THAT(names, IsSupersetOf(stays));
  EXPECT_EQ(std::set(names.begin(), names.end()).size(), names.size());
}

TEST_F(ReadDirectoryTest, ListsADirectoryThatIsEmptiedMeanwhile) {
  for (int i = 0; i < 60; ++i) MakeFile("file " + std::to_string(i));
  cookie3 cookie = 0;
  cookieverf3 verifier{};
  for (bool eof = false; !eof;) {
    const auto read = Read(root, cookie, verifier, 300);
    ASSERT_EQ(read.status(), NFS3_OK);
    for (const auto& entry : read.resok().reply.entries) {
      cookie = entry.cookie;
      if (!entry.name.starts_with('.')) Remove(entry.name);
    }
    verifier = read.resok().cookieverf;
    eof = read.resok().reply.eof;
  }
  EXPECT_THAT(ReadAllNames(4096), UnorderedElementsAre(".", ".."));
}

TEST_F(ReadDirectoryTest, RejectsACountTooSmallForOneEntry) {
  const auto read = Read(root, 0, {}, 104 + 4 + 8 + 4 + 4 + 8 - 1);
  EXPECT_EQ(read.status(), NFS3ERR_TOOSMALL);
  EXPECT_TRUE(read.resfail().dir_attributes);
  EXPECT_EQ(Read(root, 0, {}, 104 + 4 + 8 + 4 + 4 + 8).status(), NFS3_OK);
  EXPECT_EQ(Read(root, 0, {}, 0).status(), NFS3ERR_TOOSMALL);
}

TEST_F(ReadDirectoryTest, RequiresADirectoryThatTheCallerMayRead) {
  EXPECT_EQ(Read(MakeFile("file"), 0, {}, 4096).status(), NFS3ERR_NOTDIR);
  EXPECT_EQ(Read(StaleHandle(), 0, {}, 4096).status(), NFS3ERR_STALE);
  EXPECT_EQ(Read(NoHandle(), 0, {}, 4096).status(), NFS3ERR_BADHANDLE);
  const nfs_fh3 directory = MakeDirectory("private", 0700);
  memory.SetUser(1000);
  const auto denied = Read(directory, 0, {}, 4096);
  EXPECT_EQ(denied.status(), NFS3ERR_ACCES);
  EXPECT_TRUE(denied.resfail().dir_attributes);
}

TEST_F(ReadDirectoryPlusTest, ReturnsTheSameAsLookup) {
  MakeFile("file", "contents");
  MakeDirectory("directory");
  const auto read = Read(4096, 4096);
  ASSERT_EQ(read.status(), NFS3_OK);
  EXPECT_TRUE(read.resok().reply.eof);
  EXPECT_EQ(read.resok().reply.entries.size(), 4u);
  for (const auto& entry : read.resok().reply.entries) {
    const auto found = Call<NFSPROC3_LOOKUP>({{root, entry.name}});
    EXPECT_EQ(entry.name_handle, found.resok().object) << entry.name;
    EXPECT_EQ(entry.name_attributes, found.resok().obj_attributes) << entry.name;
    EXPECT_EQ(entry.fileid, found.resok().obj_attributes->fileid) << entry.name;
  }
}

TEST_F(ReadDirectoryPlusTest, MaxcountLimitsTheWholeResult) {
  for (int i = 0; i < 40; ++i) MakeFile("file " + std::to_string(i));
  for (const uint32_t maxcount : {300u, 1001u, 2002u, 4003u}) {
    const auto read = Read(4096, maxcount);
    ASSERT_EQ(read.status(), NFS3_OK);
    EXPECT_FALSE(read.resok().reply.entries.empty());
    EXPECT_LE(xdr::EncodedSize(read.resok()), maxcount);
  }
}

TEST_F(ReadDirectoryPlusTest, DircountLimitsTheNamesAfterTheFirst) {
  for (int i = 0; i < 40; ++i) MakeFile("file " + std::to_string(i));
  EXPECT_EQ(Read(0, 4096).resok().reply.entries.size(), 1u);
  EXPECT_EQ(Read(24 + 24 + 28, 4096).resok().reply.entries.size(), 3u);  // ".", ".." and a longer name
  EXPECT_EQ(Read(24 + 24 + 27, 4096).resok().reply.entries.size(), 2u);
  EXPECT_FALSE(Read(0, 4096).resok().reply.eof);
}

TEST_F(ReadDirectoryPlusTest, RejectsACountTooSmallForOneEntry) {
  EXPECT_EQ(Read(4096, 200).status(), NFS3ERR_TOOSMALL);
  EXPECT_TRUE(Read(4096, 200).resfail().dir_attributes);
}

// RFC 1813 §3.3.17
TEST_F(ReadDirectoryPlusTest, ListsOnlyNamesWithoutSearchPermission) {
  const nfs_fh3 directory = MakeDirectory("directory", 0444);
  for (const std::string_view name : {"a", "b", "c"}) MakeFileIn(directory, name);
  memory.SetUser(1000);
  const auto read = Call<NFSPROC3_READDIRPLUS>({directory, 0, {}, 4096, 4096});
  ASSERT_EQ(read.status(), NFS3_OK);
  EXPECT_TRUE(read.resok().reply.eof);
  std::set<std::string_view> names;
  for (const auto& entry : read.resok().reply.entries) {
    names.insert(entry.name);
    EXPECT_FALSE(entry.name_attributes || entry.name_handle) << entry.name;
  }
  EXPECT_THAT(names, UnorderedElementsAre(".", "..", "a", "b", "c"));
}

TEST_F(ReadDirectoryPlusTest, RejectsANonDirectory) {
  EXPECT_EQ((Call<NFSPROC3_READDIRPLUS>({MakeFile("file"), 0, {}, 4096, 4096}).status()), NFS3ERR_NOTDIR);
  EXPECT_EQ((Call<NFSPROC3_READDIRPLUS>({NoHandle(), 0, {}, 4096, 4096}).status()), NFS3ERR_BADHANDLE);
}

}  // namespace
}  // namespace penstock::nfs::v3
