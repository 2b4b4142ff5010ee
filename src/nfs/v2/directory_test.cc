// READDIR.
#include <map>
#include <set>

#include "base/mix.h"
#include "fs/faulty/file_system.h"
#include "nfs/v2/nfs_test.h"

namespace penstock::nfs::v2 {
namespace {

using testing::ElementsAre;
using testing::UnorderedElementsAreArray;

// A file system whose cookies have 63 bits in no order.
class LargeCookies final : public fs::faulty::FileSystem {
 public:
  using fs::faulty::FileSystem::FileSystem;

  Task<fs::Observed<fs::ReadDirectoryReply>> ReadDirectory(const fs::RequestContext& context,
                                                           const fs::Handle& directory,
                                                           const fs::ReadDirectoryArguments& arguments,
                                                           fs::EntrySink& sink) override {
    Enlarging enlarging(*this, sink);
    fs::ReadDirectoryArguments place = arguments;
    if (place.cookie.value() != 0) place.cookie = fs::Cookie(small_.at(place.cookie.value()));
    co_return co_await fs::faulty::FileSystem::ReadDirectory(context, directory, place, enlarging);
  }

 private:
  struct Enlarging final : fs::EntrySink {
    Enlarging(LargeCookies& owner, fs::EntrySink& sink) : owner_(owner), sink_(sink) {}
    bool Add(const fs::DirectoryEntry& entry) override {
      fs::DirectoryEntry enlarged = entry;
      const uint64_t large = (Mix(3, entry.cookie.value()) >> 1) | uint64_t{1} << 40;
      owner_.small_[large] = entry.cookie.value();
      enlarged.cookie = fs::Cookie(large);
      return sink_.Add(enlarged);
    }
    LargeCookies& owner_;
    fs::EntrySink& sink_;
  };
  std::map<uint64_t, uint64_t> small_;
};

// A file system that lists a directory in the order of hashes of 63 bits, as ext4: a cookie is the hash of the next
// name. Names that end with the same digit after a 'c' have the same upper 31 bits.
class HashedNames final : public fs::faulty::FileSystem {
 public:
  explicit HashedNames(const std::shared_ptr<fs::FileSystem>& files)
      : fs::faulty::FileSystem(files), properties_(files->GetProperties()) {
    properties_.positional_cookies = true;
  }

  const fs::Properties& GetProperties() const override { return properties_; }
  Task<fs::Observed<fs::ReadDirectoryReply>> ReadDirectory(const fs::RequestContext& context,
                                                           const fs::Handle& directory,
                                                           const fs::ReadDirectoryArguments& arguments,
                                                           fs::EntrySink& sink) override {
    struct Collector final : fs::EntrySink {
      bool Add(const fs::DirectoryEntry& entry) override {
        found[PositionOf(entry.name)] = {entry.fileid, std::string(entry.name)};
        return true;
      }
      std::map<uint64_t, std::pair<uint64_t, std::string>> found;
    } all;
    auto observed = co_await fs::faulty::FileSystem::ReadDirectory(context, directory, {}, all);
    if (!observed.result) co_return observed;
    for (auto at = all.found.lower_bound(arguments.cookie.value()); at != all.found.end(); ++at) {
      const auto next = std::next(at);
      const uint64_t cookie = next == all.found.end() ? INT64_MAX : next->first;
      const fs::DirectoryEntry entry{at->second.first, at->second.second, fs::Cookie(cookie)};
      if (!sink.Add(entry)) {
        observed.result->eof = false;
        break;
      }
    }
    co_return observed;
  }

  static uint64_t PositionOf(std::string_view name) {
    if (name == ".") return 0;
    if (name == "..") return uint64_t{1} << 32;
    const size_t marked = name.rfind('c');
    const std::string_view group = marked == name.npos ? name : name.substr(marked);
    const uint64_t upper = std::max<uint64_t>(Mix(1, AsBytes(group)) >> 34 << 1 | 1, 2);
    return upper << 32 | (Mix(2, AsBytes(name)) & 0xffff'ffff);
  }

 private:
  fs::Properties properties_;
};

class DirectoryTest : public NfsTest {
 protected:
  DirectoryTest() {
    const auto inner = std::make_shared<fs::memory::FileSystem>(fs::memory::Options{.instance = 99});
    EXPECT_TRUE(memory.exports.Add("/large", std::make_shared<LargeCookies>(inner), {.squash = Squash::kNone}));
    large = RootOf("/large");
    const auto other = std::make_shared<fs::memory::FileSystem>(fs::memory::Options{.instance = 98});
    EXPECT_TRUE(memory.exports.Add("/hashed", std::make_shared<HashedNames>(other), {.squash = Squash::kNone}));
    hashed = RootOf("/hashed");
  }

  readdirres Read(const fhandle& directory, uint32_t cookie, uint32_t count = NFS_MAXDATA) {
    return Call<NFSPROC_READDIR>({directory, cookie, count});
  }
  // Reads from another server.
  readdirres ReadBy(rpc::Dispatcher& server, const fhandle& directory, uint32_t cookie, uint32_t count = NFS_MAXDATA) {
    rpc::Message call = memory.EncodeCall<NFSPROC_READDIR>({directory, cookie, count});
    Answer answer{.message = Now(server.HandleCall(std::move(call), memory.peer)), .header = {}};
    xdr::Decoder decoder(answer.message);
    EXPECT_TRUE(rpc::DecodeReplyHeader(decoder, answer.header));
    return memory.ResultsOf<NFSPROC_READDIR>(std::move(answer));
  }
  // Makes files f0, f1 ... and returns their names.
  std::vector<std::string> MakeFiles(const fhandle& directory, int count) {
    std::vector<std::string> names;
    for (int i = 0; i < count; ++i) MakeFileIn(directory, names.emplace_back("f" + std::to_string(i)));
    return names;
  }
  // Lists the directory from `cookie` to its end, in replies of `count` octets.
  std::vector<std::string> List(const fhandle& directory, uint32_t cookie = 0, uint32_t count = NFS_MAXDATA) {
    std::vector<std::string> names;
    for (;;) {
      const auto read = Read(directory, cookie, count);
      EXPECT_EQ(read.status(), NFS_OK);
      if (read.status() != NFS_OK) return names;
      for (const auto& entry : read.ok().entries) {
        if (entry.name != "." && entry.name != "..") names.emplace_back(entry.name);
        cookie = entry.cookie;
      }
      if (read.ok().eof) return names;
      EXPECT_FALSE(read.ok().entries.empty());
    }
  }

  fhandle large;
  fhandle hashed;
};

TEST_F(DirectoryTest, ListsTheNamesWithTheirNumbers) {
  const fhandle file = MakeFile("file");
  const auto read = Read(root, 0);
  ASSERT_EQ(read.status(), NFS_OK);
  EXPECT_TRUE(read.ok().eof);
  std::vector<std::string> names;
  for (const auto& entry : read.ok().entries) names.emplace_back(entry.name);
  EXPECT_THAT(names, ElementsAre(".", "..", "file"));
  EXPECT_EQ(read.ok().entries[2].fileid, AttributesOf(file).fileid);
  EXPECT_EQ(read.ok().entries[0].fileid, AttributesOf(root).fileid);
}

TEST_F(DirectoryTest, ContinuesAtEachEntry) {
  for (const fhandle& directory : {root, large, hashed}) {
    MakeFiles(directory, 30);
    const auto names = List(directory);
    const auto all = Read(directory, 0);
    ASSERT_TRUE(all.ok().eof);
    ASSERT_EQ(all.ok().entries.size(), names.size() + 2);
    for (size_t at = 1; at < all.ok().entries.size(); ++at) {
      const std::vector<std::string> rest(names.begin() + static_cast<long>(at - 1), names.end());
      EXPECT_EQ(List(directory, all.ok().entries[at].cookie), rest);
    }
  }
}

TEST_F(DirectoryTest, ListsALongDirectoryInManyReplies) {
  for (const fhandle& directory : {root, large, hashed}) {
    const auto names = MakeFiles(directory, 600);
    EXPECT_THAT(List(directory), UnorderedElementsAreArray(names));
    EXPECT_EQ(List(directory, 0, 512), List(directory));
  }
}

// Names that are removed while a client lists them do not make it miss others.
TEST_F(DirectoryTest, ContinuesAfterARemovedEntry) {
  for (const fhandle& directory : {root, large, hashed}) {
    const auto names = MakeFiles(directory, 400);
    std::set<std::string> removed;
    uint32_t cookie = 0;
    for (bool eof = false; !eof;) {
      const auto read = Read(directory, cookie, 1000);
      ASSERT_EQ(read.status(), NFS_OK);
      for (const auto& entry : read.ok().entries) {
        cookie = entry.cookie;
        if (entry.name == "." || entry.name == "..") continue;
        EXPECT_TRUE(removed.emplace(entry.name).second);
        EXPECT_EQ((Call<NFSPROC_REMOVE>({directory, entry.name})), NFS_OK);
      }
      eof = read.ok().eof;
    }
    EXPECT_THAT(removed, UnorderedElementsAreArray(names));
    EXPECT_TRUE(List(directory).empty());
  }
}

TEST_F(DirectoryTest, TwoClientsReadTwoDirectoriesAtTheSameTime) {
  const auto names = MakeFiles(large, 500);
  const fhandle other = Call<NFSPROC_MKDIR>({{large, "other"}, Mode(0755)}).ok().file;
  const auto other_names = MakeFiles(other, 500);
  std::vector<std::string> got[2];
  uint32_t cookies[2] = {0, 0};
  bool done[2] = {false, false};
  while (!done[0] || !done[1]) {
    for (const int client : {0, 1}) {
      if (done[client]) continue;
      memory.peer.address = {asio::ip::make_address(client == 0 ? "192.0.2.1" : "192.0.2.2"), 700};
      const auto read = Read(client == 0 ? large : other, cookies[client], 600);
      ASSERT_EQ(read.status(), NFS_OK);
      for (const auto& entry : read.ok().entries) {
        if (entry.name.starts_with('f')) got[client].emplace_back(entry.name);
        cookies[client] = entry.cookie;
      }
      done[client] = read.ok().eof;
    }
  }
  EXPECT_EQ(got[0], names);
  EXPECT_EQ(got[1], other_names);
}

// A client keeps the cookies of a listing while it removes what it has listed. Each of them leads to the next name,
// even if the table of cookies is small.
TEST_F(DirectoryTest, CookiesOfHashedNamesAreValidForEver) {
  MakeFiles(hashed, 300);
  Program program{memory.exports, {.cookies_of_client = 20}};
  rpc::Dispatcher dispatcher;
  dispatcher.Add(program);
  std::vector<std::pair<std::string, uint32_t>> listed;
  for (bool eof = false; !eof;) {
    const auto read = ReadBy(dispatcher, hashed, listed.empty() ? 0 : listed.back().second, 2000);
    ASSERT_EQ(read.status(), NFS_OK);
    for (const auto& entry : read.ok().entries) listed.emplace_back(entry.name, entry.cookie);
    eof = read.ok().eof;
  }
  ASSERT_EQ(listed.size(), 302u);
  for (size_t at = 2; at + 1 < listed.size(); ++at) {
    ASSERT_EQ((Call<NFSPROC_REMOVE>({hashed, listed[at].first})), NFS_OK);
    const auto rest = ReadBy(dispatcher, hashed, listed[at].second, 100);
    ASSERT_EQ(rest.status(), NFS_OK) << at;
    ASSERT_EQ(rest.ok().entries[0].name, listed[at + 1].first) << at;
  }
}

// The upper half of their hashes is the same, so it does not suffice to continue between them.
TEST_F(DirectoryTest, ContinuesBetweenNamesWithTheSameHash) {
  for (const char* name : {"1c0", "2c0", "3c0", "4c0", "5c1", "6c1", "7"}) MakeFileIn(hashed, name);
  const auto names = List(hashed);
  ASSERT_EQ(names.size(), 7u);
  EXPECT_EQ(List(hashed, 0, 60), names);
  const auto all = Read(hashed, 0);
  std::set<uint32_t> cookies;
  for (size_t at = 1; at < all.ok().entries.size(); ++at) {
    EXPECT_TRUE(cookies.insert(all.ok().entries[at].cookie).second);
    const std::vector<std::string> rest(names.begin() + static_cast<long>(at - 1), names.end());
    EXPECT_EQ(List(hashed, all.ok().entries[at].cookie), rest);
  }
}

// Only the table knows where such a name continues. The server must not start again at the beginning.
TEST_F(DirectoryTest, ANumberOfHashedNamesThatIsNotKnownIsAnError) {
  for (const char* name : {"1c0", "2c0", "3c0"}) MakeFileIn(hashed, name);
  int unknown = 0;
  const auto all = Read(hashed, 0);
  for (size_t at = 0; at < all.ok().entries.size(); ++at) {
    Program restarted{memory.exports};
    rpc::Dispatcher dispatcher;
    dispatcher.Add(restarted);
    const uint32_t cookie = all.ok().entries[at].cookie;
    const auto rest = ReadBy(dispatcher, hashed, cookie);
    if (rest.status() == NFSERR_IO) {
      EXPECT_LT(cookie, 0x8000'0000u);
      ++unknown;
    } else if (at + 1 < all.ok().entries.size()) {
      EXPECT_EQ(rest.ok().entries[0].name, all.ok().entries[at + 1].name);
    } else {
      EXPECT_TRUE(rest.ok().entries.empty() && rest.ok().eof);
    }
  }
  EXPECT_EQ(unknown, 2);
}

// After a restart of the server, or when newer cookies have replaced it.
TEST_F(DirectoryTest, ACookieThatIsNotKnownIsAnError) {
  MakeFiles(large, 10);
  const auto read = Read(large, 0);
  const uint32_t cookie = read.ok().entries[5].cookie;
  EXPECT_GE(cookie, 0x8000'0000u);
  Program restarted{memory.exports};
  rpc::Dispatcher dispatcher;
  dispatcher.Add(restarted);
  const auto ask = [&](uint32_t from) { return ReadBy(dispatcher, large, from); };
  EXPECT_EQ(ask(cookie).status(), NFSERR_IO);
  EXPECT_EQ(ask(0).status(), NFS_OK);
  EXPECT_EQ(ask(cookie).ok().entries[0].name, read.ok().entries[6].name);
}

TEST_F(DirectoryTest, ACookieOfAnotherDirectoryIsAnError) {
  MakeFiles(large, 10);
  const fhandle other = Call<NFSPROC_MKDIR>({{large, "other"}, Mode(0755)}).ok().file;
  EXPECT_EQ(Read(other, Read(large, 0).ok().entries[5].cookie).status(), NFSERR_IO);
}

TEST_F(DirectoryTest, AReplyHasAtMostTheOctetsThatTheClientAsksFor) {
  MakeFiles(root, 100);
  for (const uint32_t count : {40u, 100u, 101u, 512u, 1000u}) {
    const Answer answer = memory.Ask(memory.EncodeCall<NFSPROC_READDIR>({root, 0, count}));
    ASSERT_TRUE(answer.succeeded());
    EXPECT_LE(answer.message.flat_size() - answer.results_at, count);
  }
  const Answer all = memory.Ask(memory.EncodeCall<NFSPROC_READDIR>({large, 0, UINT32_MAX}));
  EXPECT_LE(all.message.flat_size() - all.results_at, size_t{NFS_MAXDATA});
}

TEST_F(DirectoryTest, ACountThatIsTooSmallForAnEntryIsAnError) {
  EXPECT_EQ(Read(root, 0, 31).status(), NFSERR_IO);
  EXPECT_EQ(Read(root, 0, 0).status(), NFSERR_IO);
  EXPECT_EQ(Read(root, 0, 32).status(), NFS_OK);
}

TEST_F(DirectoryTest, ReportsErrors) {
  EXPECT_EQ(Read(MakeFile("file"), 0).status(), NFSERR_NOTDIR);
  EXPECT_EQ(Read(StaleHandle(), 0).status(), NFSERR_STALE);
  EXPECT_EQ(Read(root, 0x7fff'ffff).status(), NFSERR_IO);
  const fhandle closed = MakeDirectory("closed", 0711);
  memory.SetUser(1000);
  EXPECT_EQ(Read(closed, 0).status(), NFSERR_ACCES);
}

}  // namespace
}  // namespace penstock::nfs::v2
