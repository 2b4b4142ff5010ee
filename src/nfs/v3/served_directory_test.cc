// NFSv3 over a directory of this machine, for behaviour that a file system in memory does not have. Its calls wait for
// a thread pool, its data stays in files, and its handles outlive the server.
#include <sys/stat.h>
#include <unistd.h>

#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <filesystem>
#include <set>

#include "base/loop.h"
#include "base/test_descriptors.h"
#include "base/workers.h"
#include "fs/posix/file_system.h"
#include "nfs/v3/nfs_test.h"

namespace penstock::nfs::v3 {
namespace {

class ServedDirectoryTest : public testing::Test {
 protected:
  ServedDirectoryTest() {
    std::string name = std::filesystem::temp_directory_path() / "penstock-nfs-XXXXXX";
    scratch_ = ::mkdtemp(name.data());
    std::filesystem::create_directory(scratch_ / "export");
    std::filesystem::create_directory(scratch_ / "state");
    Start();
    root = server->RootOf("/");
  }
  ~ServedDirectoryTest() override {
    server.reset();
    std::error_code ignored;
    std::filesystem::remove_all(scratch_, ignored);
  }

  // Starts a server. If one runs, ends it and starts another over the same directory.
  void Start() {
    server.reset();
    server.emplace();
    auto opened = fs::posix::FileSystem::Open(scratch_ / "export", pool_,
                                              {.state_directory = scratch_ / "state", .file_range_from = 4096});
    ASSERT_TRUE(opened) << opened.error().message;
    ASSERT_TRUE(server->exports.Add("/", std::shared_ptr(std::move(*opened)), {.squash = Squash::kNone}));
    server->SetIdentity({.machine = "client", .uid = ::geteuid(), .gid = ::getegid(), .groups = {}});
    server->peer.loop = &loop_;
    server->peer.buffers = &loop_.buffers();
  }

  template <class Procedure>
  Answer Ask(const typename Procedure::Arguments& arguments) {
    std::optional<rpc::Message> reply;
    Spawn([](TestServer& to, rpc::Message call, std::optional<rpc::Message>& into) -> Task<> {
      into.emplace(co_await to.dispatcher.HandleCall(std::move(call), to.peer));
    }(*server, server->EncodeCall<Procedure>(arguments), reply));
    while (!reply) loop_.context().run_one();
    Answer answer{.message = std::move(*reply), .header = {}};
    xdr::Decoder decoder(answer.message);
    EXPECT_TRUE(rpc::DecodeReplyHeader(decoder, answer.header));
    return answer;
  }
  template <class Procedure>
  typename Procedure::Results Call(const typename Procedure::Arguments& arguments) {
    return server->ResultsOf<Procedure>(Ask<Procedure>(arguments));
  }
  nfs_fh3 MakeFile(std::string_view name) {
    const auto made = Call<NFSPROC3_CREATE>({{root, name}, createhow3(GUARDED, sattr3{.mode = 0644})});
    EXPECT_EQ(made.status(), NFS3_OK);
    return *made.resok().obj;
  }
  WRITE3res Write(const nfs_fh3& file, std::string_view data) {
    const auto count = static_cast<uint32_t>(data.size());
    return Call<NFSPROC3_WRITE>({file, 0, count, FILE_SYNC, xdr::Payload<>::Borrowed(data)});
  }

  std::optional<TestServer> server;
  nfs_fh3 root;

 private:
  std::filesystem::path scratch_;
  Workers pool_{2};
  Loop loop_;
  asio::executor_work_guard<asio::io_context::executor_type> work_ = asio::make_work_guard(loop_.context());
};

TEST_F(ServedDirectoryTest, ReturnsLargeReadsAsFileRanges) {
  const nfs_fh3 file = MakeFile("file");
  const std::string contents(4096, 'x');
  ASSERT_EQ(Write(file, contents).status(), NFS3_OK);
  const Answer answer = Ask<NFSPROC3_READ>({file, 0, 4096});
  ASSERT_EQ(answer.message.items.size(), 1u);
  const Data& data = answer.message.items[0].data;
  EXPECT_TRUE(data.is_file());
  std::string read(data.size(), '\0');
  EXPECT_TRUE(data.CopyTo(std::as_writable_bytes(std::span(read))));
  EXPECT_EQ(read, contents);
}

TEST_F(ServedDirectoryTest, ReturnsCompleteEntriesFromOtherThreads) {
  std::set<std::string> expected{".", ".."};
  for (int i = 0; i < 100; ++i) MakeFile(*expected.insert("file " + std::to_string(i)).first);
  std::set<std::string> seen;
  cookie3 cookie = 0;
  cookieverf3 verifier{};
  for (bool eof = false; !eof;) {
    const auto read = Call<NFSPROC3_READDIRPLUS>({root, cookie, verifier, 4096, 2000});
    ASSERT_EQ(read.status(), NFS3_OK);
    for (const auto& entry : read.resok().reply.entries) {
      EXPECT_TRUE(seen.insert(std::string(entry.name)).second) << entry.name;
      EXPECT_TRUE(entry.name_handle && entry.name_attributes) << entry.name;
      cookie = entry.cookie;
    }
    verifier = read.resok().cookieverf;
    eof = read.resok().reply.eof;
  }
  EXPECT_EQ(seen, expected);
}

TEST_F(ServedDirectoryTest, ReadDirectoryPlusAnswersJukeboxWithoutDescriptors) {
  for (int i = 0; i < 30; ++i) MakeFile("file " + std::to_string(i));
  EXPECT_EQ((Call<NFSPROC3_READDIR>({root, 0, {}, 4096}).status()), NFS3_OK);  // makes the server open the directory
  const NoFreeDescriptors none;
  EXPECT_EQ((Call<NFSPROC3_READDIRPLUS>({root, 0, {}, 4096, 4096}).status()), NFS3ERR_JUKEBOX);
  EXPECT_EQ((Call<NFSPROC3_READDIR>({root, 0, {}, 4096}).resok().reply.entries.size()), 32u);
}

TEST_F(ServedDirectoryTest, HandlesAndCreateVerifiersOutliveTheServer) {
  const nfs_fh3 file = MakeFile("file");
  ASSERT_EQ(Write(file, "contents").status(), NFS3_OK);
  const CREATE3args exclusive{{root, "exclusive"}, createhow3(EXCLUSIVE, createverf3{std::byte{7}, std::byte{1}})};
  const auto made = Call<NFSPROC3_CREATE>(exclusive);
  ASSERT_EQ(made.status(), NFS3_OK);

  Start();
  const Answer read = Ask<NFSPROC3_READ>({file, 0, 100});
  EXPECT_EQ(server->ResultsOf<NFSPROC3_READ>(read).resok().data.text(), "contents");
  const auto again = Call<NFSPROC3_CREATE>(exclusive);
  ASSERT_EQ(again.status(), NFS3_OK);
  EXPECT_EQ(again.resok().obj, made.resok().obj);
  const CREATE3args other{{root, "exclusive"}, createhow3(EXCLUSIVE, createverf3{std::byte{8}})};
  EXPECT_EQ(Call<NFSPROC3_CREATE>(other).status(), NFS3ERR_EXIST);
}

TEST_F(ServedDirectoryTest, VerifierChangesWhenUnstableWritesMayBeLost) {
  const nfs_fh3 file = MakeFile("file");
  const writeverf3 before = Write(file, "contents").resok().verf;
  Start();
  EXPECT_NE(Write(file, "contents").resok().verf, before);
}

}  // namespace
}  // namespace penstock::nfs::v3
