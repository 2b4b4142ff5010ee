// NFSv2 over a directory of this machine, whose handles and cookies are those of its kernel.
#include <sys/stat.h>
#include <unistd.h>

#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <filesystem>
#include <fstream>
#include <set>

#include "base/loop.h"
#include "base/workers.h"
#include "fs/posix/file_system.h"
#include "nfs/v2/nfs_test.h"

namespace penstock::nfs::v2 {
namespace {

class ServedDirectoryTest : public testing::Test {
 protected:
  // Skips the test if the handles of the directory's file system do not fit into those of version 2.
  void SetUp() override {
    std::string name = std::filesystem::temp_directory_path() / "penstock-nfs2-XXXXXX";
    scratch_ = ::mkdtemp(name.data());
    std::filesystem::create_directory(scratch_ / "export");
    std::filesystem::create_directory(scratch_ / "state");
    Start();
    if (!root) GTEST_SKIP() << "the file handles of " << scratch_ << " have more than 27 octets";
  }
  void TearDown() override {
    program_.reset();
    server_.reset();
    std::error_code ignored;
    std::filesystem::remove_all(scratch_, ignored);
  }

  // Starts a server. If one runs, ends it and starts another over the same directory.
  void Start() {
    program_.reset();
    server_.reset();
    server_.emplace();
    auto opened = fs::posix::FileSystem::Open(scratch_ / "export", pool_, {.state_directory = scratch_ / "state"});
    ASSERT_TRUE(opened) << opened.error().message;
    ASSERT_TRUE(server_->exports.Add("/", std::shared_ptr(std::move(*opened)), {.squash = Squash::kNone}));
    server_->SetIdentity({.machine = "client", .uid = ::geteuid(), .gid = ::getegid(), .groups = {}});
    server_->peer.loop = &loop_;
    server_->peer.buffers = &loop_.buffers();
    program_.emplace(server_->exports);
    server_->dispatcher.Add(*program_);
    const Export& found = *server_->exports.table().Resolve("/").found;
    root = found.PaddedHandleOf(found.file_system().Root());
  }

  template <class Procedure>
  typename Procedure::Results Call(const typename Procedure::Arguments& arguments) {
    std::optional<rpc::Message> reply;
    Spawn([](TestServer& to, rpc::Message call, std::optional<rpc::Message>& into) -> Task<> {
      into.emplace(co_await to.dispatcher.HandleCall(std::move(call), to.peer));
    }(*server_, server_->EncodeCall<Procedure>(arguments), reply));
    while (!reply) loop_.context().run_one();
    Answer answer{.message = std::move(*reply), .header = {}};
    xdr::Decoder decoder(answer.message);
    EXPECT_TRUE(rpc::DecodeReplyHeader(decoder, answer.header));
    return server_->ResultsOf<Procedure>(std::move(answer));
  }
  std::filesystem::path exported() const { return scratch_ / "export"; }

  std::optional<fhandle> root;

 private:
  std::filesystem::path scratch_;
  Workers pool_{2};
  Loop loop_;
  asio::executor_work_guard<asio::io_context::executor_type> work_{loop_.context().get_executor()};
  std::optional<TestServer> server_;
  std::optional<Program> program_;
};

TEST_F(ServedDirectoryTest, WritesAndReadsAFile) {
  const auto made = Call<NFSPROC_CREATE>({{*root, "file"}, Mode(0100644)});
  ASSERT_EQ(made.status(), NFS_OK);
  const auto data = xdr::Payload<NFS_MAXDATA>::Borrowed(std::string_view("hello"));
  const auto written = Call<NFSPROC_WRITE>({made.ok().file, 0, 3, 0, data});
  ASSERT_EQ(written.status(), NFS_OK);
  EXPECT_EQ(written.attributes().size, 8u);
  struct stat stat;
  ASSERT_EQ(::stat((exported() / "file").c_str(), &stat), 0);
  EXPECT_EQ(stat.st_size, 8);
  EXPECT_EQ(stat.st_mode, 0100644u);
  EXPECT_EQ(written.attributes().fileid, static_cast<uint32_t>(stat.st_ino ^ (stat.st_ino >> 32)));
  const auto read = Call<NFSPROC_READ>({made.ok().file, 2, 100, 0});
  EXPECT_EQ(read.status(), NFS_OK);
  EXPECT_EQ(read.ok().attributes.size, 8u);
}

TEST_F(ServedDirectoryTest, HandlesOutliveTheServer) {
  const auto made = Call<NFSPROC_CREATE>({{*root, "file"}, Mode(0100644)});
  const fhandle before = *root;
  Start();
  EXPECT_EQ(*root, before);
  EXPECT_EQ(Call<NFSPROC_GETATTR>(made.ok().file).status(), NFS_OK);
  fhandle forged = made.ok().file;
  forged[8] ^= std::byte{1};  // in the signature
  EXPECT_EQ(Call<NFSPROC_GETATTR>(forged).status(), NFSERR_STALE);
}

// As a client does that has kept a listing, and removes the names.
TEST_F(ServedDirectoryTest, EachCookieLeadsToTheNextNameAfterItsOwnIsGone) {
  for (int i = 0; i < 600; ++i) std::ofstream(exported() / ("a name of some length " + std::to_string(i))).put('x');
  std::vector<std::pair<std::string, uint32_t>> listed;
  for (bool eof = false; !eof;) {
    const auto read = Call<NFSPROC_READDIR>({*root, listed.empty() ? 0 : listed.back().second, 4096});
    ASSERT_EQ(read.status(), NFS_OK);
    for (const auto& entry : read.ok().entries) listed.emplace_back(entry.name, entry.cookie);
    eof = read.ok().eof;
  }
  ASSERT_EQ(listed.size(), 602u);
  for (size_t at = 0; at + 1 < listed.size(); ++at) {
    const auto& [name, cookie] = listed[at];
    if (name != "." && name != "..") {
      ASSERT_EQ((Call<NFSPROC_REMOVE>({*root, name})), NFS_OK);
    }
    const auto rest = Call<NFSPROC_READDIR>({*root, cookie, 100});
    ASSERT_EQ(rest.status(), NFS_OK) << at;
    ASSERT_FALSE(rest.ok().entries.empty()) << at;
    ASSERT_EQ(rest.ok().entries[0].name, listed[at + 1].first) << at;
  }
}

TEST_F(ServedDirectoryTest, ListsAndRemovesManyNames) {
  std::set<std::string> wanted;
  for (int i = 0; i < 600; ++i) {
    const std::string name = "a name of some length " + std::to_string(i);
    std::ofstream(exported() / name).put('x');
    wanted.insert(name);
  }
  std::set<std::string> listed;
  uint32_t cookie = 0;
  for (bool eof = false; !eof;) {
    const auto read = Call<NFSPROC_READDIR>({*root, cookie, 4096});
    ASSERT_EQ(read.status(), NFS_OK);
    ASSERT_TRUE(read.ok().eof || !read.ok().entries.empty());
    for (const auto& entry : read.ok().entries) {
      cookie = entry.cookie;
      if (entry.name == "." || entry.name == "..") continue;
      EXPECT_TRUE(listed.emplace(entry.name).second) << entry.name << " came twice";
      EXPECT_EQ((Call<NFSPROC_REMOVE>({*root, entry.name})), NFS_OK);
    }
    eof = read.ok().eof;
  }
  EXPECT_EQ(listed, wanted);
  EXPECT_TRUE(std::filesystem::is_empty(exported()));
}

}  // namespace
}  // namespace penstock::nfs::v2
