// The whole server and the client library in one process, over real sockets: what users of both can rely on.
#include "server/server.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <optional>
#include <thread>
#include <tuple>

#include "client/copy.h"
#include "client/mount.h"
#include "rdma/iwarp/provider.h"

namespace penstock::server {
namespace {

using client::Protocol;
using client::Version;
using testing::HasSubstr;

class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    char name[] = "/var/tmp/penstock-server-test-XXXXXX";
    path_ = ::mkdtemp(name);
  }
  ~TemporaryDirectory() { std::filesystem::remove_all(path_); }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

std::string Pattern(size_t size) {
  std::string text(size, '\0');
  uint32_t state = 1;
  for (char& c : text) c = static_cast<char>((state = state * 1664525 + 1013904223) >> 24);
  return text;
}

void WriteFile(const std::filesystem::path& path, std::string_view text) {
  std::ofstream(path, std::ios::binary).write(text.data(), static_cast<std::streamsize>(text.size()));
}

std::string ReadFile(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class ServerTest : public testing::TestWithParam<std::tuple<Protocol, Version>> {
 protected:
  ServerTest() { std::filesystem::create_directory(tree()); }

  static Protocol protocol() { return std::get<0>(GetParam()); }
  static Version version() { return std::get<1>(GetParam()); }

  std::filesystem::path tree() const { return directory_.path() / "tree"; }

  Options ServerOptions() const {
    Options options;
    options.exports.push_back({.path = "/tree", .directory = tree(), .options = {}});
    options.exports.back().options.squash = nfs::Squash::kNone;
    options.tcp_port = addresses_.tcp.port();
    options.rdma_port = addresses_.rdma.port();
    options.mount_port = addresses_.mount.port();
    options.threads = 2;
    options.state_directory = directory_.path() / "state";
    return options;
  }

  // The first time on ports that the system chooses, then on the same.
  void StartServer() {
    auto made = Server::Make(ServerOptions());
    ASSERT_TRUE(made) << made.error().message;
    server_ = *std::move(made);
    addresses_ = server_->addresses();
    server_->Start();
  }

  client::Url Url(std::string path) const {
    client::Url url;
    url.host = "127.0.0.1";
    url.protocol = protocol();
    url.version = version();
    url.port = (protocol() == Protocol::kRdma ? addresses_.rdma : addresses_.tcp).port();
    url.mount_port = addresses_.mount.port();
    url.path = std::move(path);
    return url;
  }

  // Runs `use` with a mount of the export; gives the error of either, or nothing.
  using Use = std::function<Task<client::Result<void>>(client::Mount&, asio::thread_pool&)>;
  std::optional<client::Error> WithMount(Use use) {
    Loop loop;
    asio::thread_pool workers(2);
    rdma::iwarp::Provider provider(loop);
    const client::Url url = Url("/tree");
    const client::MountOptions options{
        .retry = {.first_delay = std::chrono::milliseconds(5), .longest_delay = std::chrono::milliseconds(50)},
        .provider = &provider};
    std::optional<client::Error> error;
    Spawn([](Loop& l, asio::thread_pool& w, const client::Url& u, const client::MountOptions& o, Use& f,
             std::optional<client::Error>& out) -> Task<void> {
      auto mount = co_await client::Mount::Open(l, w, u, o);
      if (!mount) {
        out = mount.error();
      } else {
        const auto used = co_await f(**mount, w);
        if (!used) out = used.error();
        co_await (*mount)->Unmount();
        mount->reset();
      }
      l.Finish();
    }(loop, workers, url, options, use, error));
    loop.Run();
    workers.join();
    return error;
  }

  const TemporaryDirectory directory_;
  Addresses addresses_{};
  std::unique_ptr<Server> server_;
};

struct OpenFile {
  explicit OpenFile(const std::filesystem::path& path)
      : file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644)) {}
  FileDescriptor file;
};

// What the tests call `path` lies in the export, which is where the mount's URL leads.
Task<client::Result<client::Node>> Find(client::Mount& mount, std::string path, bool follow = true) {
  co_return co_await mount.Resolve(mount.path() + "/" + path, follow);
}

// Closes `file`, and gives the error of what was done with it, or else of that.
Task<client::Result<void>> Closed(client::File& file, client::Result<uint64_t> copied) {
  client::Result<void> closed = co_await file.Close();
  if (!copied) co_return std::unexpected(std::move(copied).error());
  co_return closed;
}

Task<client::Result<void>> Put(client::Mount& mount, asio::thread_pool& workers, std::filesystem::path from,
                               std::string name, client::CopyOptions options) {
  const OpenFile source(from);
  PENSTOCK_CO_TRY(const client::Node directory, co_await Find(mount, ""));
  PENSTOCK_CO_TRY(const auto file, co_await mount.CreateFile(directory.handle, name, 0640));
  auto copied = co_await client::Upload(mount, workers, source.file.get(), std::filesystem::file_size(from), *file,
                                        std::move(options));
  co_return co_await Closed(*file, std::move(copied));
}

Task<client::Result<void>> Get(client::Mount& mount, asio::thread_pool& workers, std::string name,
                               std::filesystem::path to) {
  const OpenFile target(to);
  PENSTOCK_CO_TRY(const client::Node node, co_await Find(mount, name));
  PENSTOCK_CO_TRY(const auto file, co_await mount.OpenFile(node, name, client::Access::kRead));
  auto copied = co_await client::Download(mount, workers, *file, target.file.get());
  co_return co_await Closed(*file, std::move(copied));
}

TEST_P(ServerTest, FilesOfEverySizeGoThereAndComeBack) {
  StartServer();
  for (const size_t size : {0, 1, 3, 4095, 4096, 4097, 65537, (1 << 20) + 3, 9 << 20}) {
    const std::string text = Pattern(size);
    const std::filesystem::path source = directory_.path() / "source";
    const std::filesystem::path back = directory_.path() / "back";
    WriteFile(source, text);
    WriteFile(back, Pattern(100));  // longer than some: must be cut
    const auto error = WithMount([&](client::Mount& mount, asio::thread_pool& workers) -> Task<client::Result<void>> {
      PENSTOCK_CO_CHECK(co_await Put(mount, workers, source, "file", {}));
      co_return co_await Get(mount, workers, "file", back);
    });
    ASSERT_FALSE(error) << error->message;
    EXPECT_TRUE(ReadFile(tree() / "file") == text) << size;
    EXPECT_TRUE(ReadFile(back) == text) << size;
  }
  struct stat status{};
  ASSERT_EQ(::stat((tree() / "file").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0640u);
}

TEST_P(ServerTest, PathsAreResolvedThroughSymbolicLinks) {
  std::filesystem::create_directories(tree() / "a/b");
  WriteFile(tree() / "a/b/file", "here");
  std::filesystem::create_symlink("b", tree() / "a/relative");
  std::filesystem::create_symlink("/tree/a", tree() / "absolute");
  std::filesystem::create_symlink("/etc/passwd", tree() / "out");
  std::filesystem::create_symlink("loop", tree() / "loop");
  StartServer();
  const auto error = WithMount([](client::Mount& mount, asio::thread_pool&) -> Task<client::Result<void>> {
    for (const char* path : {"a/b/file", "/a//b/./file", "a/relative/file", "absolute/relative/../b/file"}) {
      const auto node = co_await Find(mount, path);
      EXPECT_TRUE(node && node->attributes.size == 4) << path;
    }
    const auto link = co_await Find(mount, "a/relative", false);
    EXPECT_TRUE(link && link->attributes.type == client::FileType::kSymlink);
    const auto out = co_await Find(mount, "out");
    // Version 4 knows no exports: there it is a path like any other, and nothing is there.
    EXPECT_THAT(out ? "" : out.error().message,
                HasSubstr(version() == Version::k3 ? "out of the export" : "no such file"));
    const auto loop = co_await Find(mount, "loop");
    EXPECT_TRUE(!loop && loop.error().message.find("too many symbolic links") != std::string::npos);
    const auto missing = co_await Find(mount, "a/missing");
    EXPECT_TRUE(!missing && missing.error().status == client::Status::kNotFound);
    co_return client::Result<void>();
  });
  EXPECT_FALSE(error) << error->message;
}

TEST_P(ServerTest, LongDirectoriesAreListedWhole) {
  for (int i = 0; i < 3000; ++i) WriteFile(tree() / ("a-rather-long-name-" + std::to_string(i)), "x");
  StartServer();
  std::vector<std::string> names;
  const auto error = WithMount([&names](client::Mount& mount, asio::thread_pool&) -> Task<client::Result<void>> {
    PENSTOCK_CO_TRY(const client::Node directory, co_await Find(mount, ""));
    co_return co_await mount.List(directory.handle, "/", [&names](client::Entry entry) {
      EXPECT_TRUE(entry.attributes && entry.attributes->size == 1);
      names.push_back(std::move(entry.name));
    });
  });
  EXPECT_FALSE(error) << error->message;
  std::ranges::sort(names);
  EXPECT_EQ(std::ranges::unique(names).size(), 0u);
  EXPECT_EQ(names.size(), 3000u);
}

// What was written before the restart is on the server's word only, and that went with it: the verifier tells.
TEST_P(ServerTest, AnUploadOutlivesTheServersRestart) {
  StartServer();
  const std::filesystem::path source = directory_.path() / "source";
  const std::string text = Pattern(24 << 20);
  WriteFile(source, text);
  std::atomic<bool> half_way = false;
  std::atomic<bool> done = false;
  std::optional<client::Error> error;
  std::thread client([&] {
    error = WithMount([&](client::Mount& mount, asio::thread_pool& workers) -> Task<client::Result<void>> {
      client::CopyOptions options;
      options.in_flight = 2;
      options.progress = [&](uint64_t written, uint64_t total) { half_way = half_way || written > total / 2; };
      auto result = co_await Put(mount, workers, source, "file", std::move(options));
      EXPECT_GE(mount.reconnections(), 1u);
      co_return result;
    });
    done = true;
  });
  while (!half_way && !done) std::this_thread::yield();
  server_->Stop();
  server_.reset();
  StartServer();
  client.join();
  EXPECT_FALSE(error) << error->message;
  EXPECT_TRUE(ReadFile(tree() / "file") == text);
}

TEST_P(ServerTest, ServesManyClientsAtATime) {
  StartServer();
  WriteFile(tree() / "file", Pattern(3 << 20));
  std::vector<std::thread> clients;
  for (int i = 0; i < 6; ++i) {
    clients.emplace_back([this, i] {
      const std::filesystem::path back = directory_.path() / ("back-" + std::to_string(i));
      const auto error = WithMount([&](client::Mount& mount, asio::thread_pool& workers) -> Task<client::Result<void>> {
        for (int round = 0; round < 3; ++round) {
          PENSTOCK_CO_CHECK(co_await Get(mount, workers, "file", back));
          PENSTOCK_CO_CHECK(co_await Put(mount, workers, back, "copy-" + std::to_string(i), {}));
        }
        co_return client::Result<void>();
      });
      EXPECT_FALSE(error) << error->message;
    });
  }
  for (std::thread& client : clients) client.join();
  for (int i = 0; i < 6; ++i) EXPECT_TRUE(ReadFile(tree() / ("copy-" + std::to_string(i))) == Pattern(3 << 20)) << i;
}

TEST_P(ServerTest, AnExportThatIsNotThereIsNamed) {
  StartServer();
  Loop loop;
  asio::thread_pool workers(1);
  rdma::iwarp::Provider provider(loop);
  const client::Url url = Url("/elsewhere");
  std::string message;
  Spawn([](Loop& l, asio::thread_pool& w, const client::Url& u, rdma::Provider& p, std::string& out) -> Task<void> {
    const auto mount = co_await client::Mount::Open(l, w, u, {.retry = {}, .provider = &p});
    if (!mount) {
      out = mount.error().message;
    } else {
      // Version 4 mounts all that the server has.
      const auto found = co_await (*mount)->Resolve((*mount)->path());
      if (!found) out = found.error().message;
      co_await (*mount)->Unmount();
    }
    l.Finish();
  }(loop, workers, url, provider, message));
  loop.Run();
  EXPECT_THAT(message, HasSubstr("elsewhere"));
}

std::string NameOf(Version version) {
  switch (version) {
    case Version::k3:
      return "3";
    case Version::k40:
      return "40";
    case Version::k41:
      return "41";
    case Version::k42:
      return "42";
  }
  return "";
}

INSTANTIATE_TEST_SUITE_P(All, ServerTest,
                         testing::Combine(testing::Values(Protocol::kTcp, Protocol::kRdma),
                                          testing::Values(Version::k3, Version::k40, Version::k41)),
                         [](const auto& tested) {
                           return std::string(std::get<0>(tested.param) == Protocol::kTcp ? "Tcp" : "Rdma") +
                                  NameOf(std::get<1>(tested.param));
                         });

class ServerSetUpTest : public ServerTest {};

TEST_P(ServerSetUpTest, AMissingDirectoryIsNamed) {
  Options options = ServerOptions();
  options.exports.front().directory = "/nowhere/at/all";
  const auto made = Server::Make(options);
  ASSERT_FALSE(made);
  EXPECT_THAT(made.error().message, HasSubstr("/nowhere/at/all"));
}

TEST_P(ServerSetUpTest, ABusyPortIsNamed) {
  StartServer();
  for (auto port : {&Options::tcp_port, &Options::rdma_port, &Options::mount_port}) {
    Options options = ServerOptions();
    options.tcp_port = options.rdma_port = options.mount_port = 0;
    options.*port = ServerOptions().*port;
    const auto made = Server::Make(options);
    ASSERT_FALSE(made);
    EXPECT_THAT(made.error().message, HasSubstr(std::to_string(options.*port)));
  }
}

INSTANTIATE_TEST_SUITE_P(SetUp, ServerSetUpTest, testing::Values(std::tuple(Protocol::kTcp, Version::k3)),
                         [](const auto&) { return std::string("Tcp"); });

}  // namespace
}  // namespace penstock::server
