// Files, directories and attributes on a whole server, through the client library, over real sockets: the behaviour
// that users of both rely on.
#include "server/server.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <optional>
#include <semaphore>
#include <sstream>
#include <thread>
#include <tuple>

#include "client/copy.h"
#include "server/test_server.h"

namespace penstock::server {
namespace {

using testing::HasSubstr;

std::string Pattern(size_t size) {
  std::string text(size, '\0');
  uint32_t word = 1;
  for (size_t at = 0; at < size; at += sizeof(word)) {
    word = word * 1664525 + 1013904223;
    std::memcpy(text.data() + at, &word, std::min(sizeof(word), size - at));
  }
  return text;
}

struct OpenFile {
  explicit OpenFile(const std::filesystem::path& path)
      : file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644)) {}
  FileDescriptor file;
};

// Closes `file`, and returns the error of `copied`, or else the error of closing.
Task<client::Result<void>> Closed(client::File& file, client::Result<uint64_t> copied) {
  client::Result<void> closed = co_await file.Close();
  if (!copied) co_return std::unexpected(std::move(copied).error());
  co_return closed;
}

Task<client::Result<void>> Put(client::Mount& mount, Workers& workers, std::filesystem::path from, std::string name,
                               client::CopyOptions options) {
  const OpenFile source(from);
  PENSTOCK_CO_TRY(const client::Node directory, co_await Find(mount, ""));
  PENSTOCK_CO_TRY(const auto file, co_await mount.CreateFile(directory.handle, name, 0640));
  auto copied = co_await client::Upload(mount, workers, source.file.get(), std::filesystem::file_size(from), *file,
                                        std::move(options));
  co_return co_await Closed(*file, std::move(copied));
}

// Not a coroutine: see CONTRIBUTING.md, Style 11.
Task<client::Result<void>> Put(client::Mount& mount, Workers& workers, std::filesystem::path from, std::string name) {
  return Put(mount, workers, std::move(from), std::move(name), client::CopyOptions());
}

Task<client::Result<void>> Get(client::Mount& mount, Workers& workers, std::string name, std::filesystem::path to) {
  const OpenFile target(to);
  PENSTOCK_CO_TRY(const client::Node node, co_await Find(mount, name));
  PENSTOCK_CO_TRY(const auto file, co_await mount.OpenFile(node, name, client::Access::kRead));
  client::CopyOptions options;
  auto copied = co_await client::Download(mount, workers, *file, target.file.get(), std::move(options));
  co_return co_await Closed(*file, std::move(copied));
}

TEST_P(ServerTest, UploadsAndDownloadsFilesOfEverySize) {
  StartServer();
  for (const size_t size : {0, 1, 3, 4095, 4096, 4097, 65537, (1 << 20) + 3, 9 << 20}) {
    const std::string text = Pattern(size);
    const std::filesystem::path source = directory_.path() / "source";
    const std::filesystem::path back = directory_.path() / "back";
    WriteFile(source, text);
    WriteFile(back, Pattern(100));  // longer than some of the files, so that Get must truncate it
    const auto error = WithMount([&](client::Mount& mount, Workers& workers) -> Task<client::Result<void>> {
      PENSTOCK_CO_CHECK(co_await Put(mount, workers, source, "file"));
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

// Clients of RFC 8166 do not notice how many receives the server begins with.
TEST_P(ServerTest, ServesOrdinaryClientsAlsoWithOneReceiveFirst) {
  TestOptions options = ServerOptions();
  options.one_receive_first = true;
  StartServer(options);
  const std::string text = Pattern(3 << 20);
  const std::filesystem::path source = directory_.path() / "source";
  WriteFile(source, text);
  const auto error = WithMount([&](client::Mount& mount, Workers& workers) -> Task<client::Result<void>> {
    PENSTOCK_CO_CHECK(co_await Put(mount, workers, source, "file"));
    co_return co_await Get(mount, workers, "file", directory_.path() / "back");
  });
  ASSERT_FALSE(error) << error->message;
  EXPECT_TRUE(ReadFile(directory_.path() / "back") == text);
}

TEST_P(ServerTest, ResolvesPathsThroughSymbolicLinks) {
  std::filesystem::create_directories(tree() / "a/b");
  WriteFile(tree() / "a/b/file", "here");
  std::filesystem::create_symlink("b", tree() / "a/relative");
  std::filesystem::create_symlink("/tree/a", tree() / "absolute");
  std::filesystem::create_symlink("/etc/passwd", tree() / "out");
  std::filesystem::create_symlink("loop", tree() / "loop");
  StartServer();
  const auto error = WithMount([](client::Mount& mount, Workers&) -> Task<client::Result<void>> {
    for (const char* path : {"a/b/file", "/a//b/./file", "a/relative/file", "absolute/relative/../b/file"}) {
      const auto node = co_await Find(mount, path);
      EXPECT_TRUE(node && node->attributes.size == 4) << path;
    }
    const auto link = co_await Find(mount, "a/relative", false);
    EXPECT_TRUE(link && link->attributes.type == client::FileType::kSymlink);
    const auto out = co_await Find(mount, "out");
    // In version 4 the path can lead out of an export, but the server has no such file.
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

TEST_P(ServerTest, ListsEveryEntryOfALongDirectory) {
  for (int i = 0; i < 3000; ++i) WriteFile(tree() / ("a-rather-long-name-" + std::to_string(i)), "x");
  StartServer();
  std::vector<std::string> names;
  const auto error = WithMount([&names](client::Mount& mount, Workers&) -> Task<client::Result<void>> {
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

TEST_P(ServerTest, ReportsThePortsThatTheSystemChose) {
  TestOptions options = ServerOptions();
  options.listen = Addresses::At(asio::ip::address_v4::loopback(), 0, 0, 0);
  WriteFile(tree() / "file", "x");
  StartServer(options);
  const auto error = WithMount([](client::Mount& mount, Workers&) -> Task<client::Result<void>> {
    PENSTOCK_CO_TRY(const client::Node file, co_await Find(mount, "file"));
    EXPECT_EQ(file.attributes.size, 1u);
    co_return client::Result<void>();
  });
  EXPECT_FALSE(error) << error->message;
}

TEST_P(ServerTest, CreatesRenamesAndRemovesNames) {
  StartServer();
  const auto error = WithMount([](client::Mount& mount, Workers&) -> Task<client::Result<void>> {
    PENSTOCK_CO_TRY(const client::Node top, co_await Find(mount, ""));
    PENSTOCK_CO_TRY(const client::Node one, co_await mount.MakeDirectory(top.handle, "one", 0750));
    EXPECT_EQ(one.attributes.type, client::FileType::kDirectory);
    EXPECT_EQ(one.attributes.mode, 0750u);
    co_await ExpectRefusal(mount.MakeDirectory(top.handle, "one", 0750), client::Status::kExists);
    PENSTOCK_CO_TRY(const client::Node two, co_await mount.MakeDirectory(top.handle, "two", 0755));
    PENSTOCK_CO_TRY(const auto file, co_await mount.CreateFile(one.handle, "file", 0644));
    PENSTOCK_CO_CHECK(co_await file->Close());

    PENSTOCK_CO_CHECK(co_await mount.Link(file->node().handle, two.handle, "again"));
    PENSTOCK_CO_TRY(const client::Node again, co_await Find(mount, "two/again"));
    EXPECT_EQ(again.attributes.links, 2u);
    PENSTOCK_CO_TRY(const client::Node link, co_await mount.MakeSymlink(top.handle, "link", "two/again"));
    EXPECT_EQ(link.attributes.type, client::FileType::kSymlink);
    PENSTOCK_CO_TRY(const std::string text, co_await mount.ReadLink(link.handle, "link"));
    EXPECT_EQ(text, "two/again");
    PENSTOCK_CO_TRY(const client::Node followed, co_await Find(mount, "link"));
    EXPECT_EQ(followed.handle, again.handle);

    PENSTOCK_CO_CHECK(co_await mount.Rename(one.handle, "file", two.handle, "moved"));
    co_await ExpectRefusal(mount.Lookup(one.handle, "file"), client::Status::kNotFound);
    co_await ExpectRefusal(mount.Rename(one.handle, "file", two.handle, "moved"), client::Status::kNotFound);

    co_await ExpectRefusal(mount.RemoveDirectory(top.handle, "two"), client::Status::kNotEmpty);
    co_await ExpectRefusal(mount.RemoveDirectory(two.handle, "moved"), client::Status::kNotDirectory);
    co_await ExpectRefusal(mount.Remove(top.handle, "one"), client::Status::kIsDirectory);
    PENSTOCK_CO_CHECK(co_await mount.Remove(two.handle, "moved"));
    PENSTOCK_CO_CHECK(co_await mount.Remove(two.handle, "again"));
    PENSTOCK_CO_CHECK(co_await mount.Remove(top.handle, "link"));
    PENSTOCK_CO_CHECK(co_await mount.RemoveDirectory(top.handle, "two"));
    co_return co_await mount.RemoveDirectory(top.handle, "one");
  });
  EXPECT_FALSE(error) << error->message;
  EXPECT_TRUE(std::filesystem::is_empty(tree()));
}

TEST_P(ServerTest, SetsAttributes) {
  StartServer();
  WriteFile(tree() / "file", Pattern(5000));
  const std::string owner = std::to_string(::geteuid() == 0 ? 1234 : ::geteuid());
  const std::string group = std::to_string(::geteuid() == 0 ? 1235 : ::getegid());
  const auto error = WithMount([&](client::Mount& mount, Workers&) -> Task<client::Result<void>> {
    PENSTOCK_CO_TRY(const client::Node file, co_await Find(mount, "file"));
    const client::NewAttributes what{.mode = 0604,
                                     .owner = owner,
                                     .group = group,
                                     .size = 4097,
                                     .accessed = client::ServerTime(),
                                     .modified = client::Time{981173106, 500}};
    PENSTOCK_CO_CHECK(co_await mount.SetAttributes(file.handle, "file", what));
    PENSTOCK_CO_TRY(const client::Attributes changed, co_await mount.GetAttributes(file.handle, "file"));
    EXPECT_EQ(changed.mode, 0604u);
    EXPECT_EQ(changed.owner, owner);
    EXPECT_EQ(changed.group, group);
    EXPECT_EQ(changed.size, 4097u);
    EXPECT_EQ(changed.modified.seconds, 981173106);
    // The other attributes stay the same.
    const client::NewAttributes mode{.mode = 0600};
    PENSTOCK_CO_CHECK(co_await mount.SetAttributes(file.handle, "file", mode));
    PENSTOCK_CO_TRY(const client::Attributes again, co_await mount.GetAttributes(file.handle, "file"));
    EXPECT_EQ(again.mode, 0600u);
    EXPECT_EQ(again.size, 4097u);
    EXPECT_EQ(again.modified.seconds, 981173106);
    const client::NewAttributes nobody{.owner = "no such name"};
    const auto refused = co_await mount.SetAttributes(file.handle, "file", nobody);
    EXPECT_FALSE(refused);
    co_return client::Result<void>();
  });
  EXPECT_FALSE(error) << error->message;
  EXPECT_TRUE(ReadFile(tree() / "file") == Pattern(4097));
}

// Unstable writes before the restart may be lost. The client notices the new write verifier and writes the data again.
TEST_P(ServerTest, AnUploadContinuesAfterTheServerRestarts) {
  StartServer();
  const std::filesystem::path source = directory_.path() / "source";
  const std::string text = Pattern(24 << 20);
  WriteFile(source, text);
  std::atomic<bool> half_way = false;
  std::atomic<bool> done = false;
  std::optional<client::Error> error;
  std::thread client([&] {
    error = WithMount([&](client::Mount& mount, Workers& workers) -> Task<client::Result<void>> {
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

TEST_P(ServerTest, ServesManyClientsAtTheSameTime) {
  StartServer();
  WriteFile(tree() / "file", Pattern(3 << 20));
  std::vector<std::thread> clients;
  for (int i = 0; i < 6; ++i) {
    clients.emplace_back([this, i] {
      const std::filesystem::path back = directory_.path() / ("back-" + std::to_string(i));
      const auto error = WithMount([&](client::Mount& mount, Workers& workers) -> Task<client::Result<void>> {
        for (int round = 0; round < 3; ++round) {
          PENSTOCK_CO_CHECK(co_await Get(mount, workers, "file", back));
          PENSTOCK_CO_CHECK(co_await Put(mount, workers, back, "copy-" + std::to_string(i)));
        }
        co_return client::Result<void>();
      });
      EXPECT_FALSE(error) << error->message;
    });
  }
  for (std::thread& client : clients) client.join();
  for (int i = 0; i < 6; ++i) EXPECT_TRUE(ReadFile(tree() / ("copy-" + std::to_string(i))) == Pattern(3 << 20)) << i;
}

TEST_P(ServerTest, TheErrorNamesAMissingExport) {
  StartServer();
  Loop loop;
  Workers workers(1);
  rdma::iwarp::Provider provider(loop);
  const client::Url url = Url("/elsewhere");
  std::string message;
  Spawn([](Loop& l, Workers& w, const client::Url& u, rdma::Provider& p, std::string& out) -> Task<void> {
    // Not in the call: g++ 12 copies such a temporary octet by octet.
    const client::MountOptions options{.retry = {}, .provider = &p};
    const auto mount = co_await client::Mount::Open(l, w, u, options);
    if (!mount) {
      out = mount.error().message;
    } else {
      // With version 4 the client mounts the whole tree of the server, so the error comes later.
      const auto found = co_await (*mount)->Resolve((*mount)->path());
      if (!found) out = found.error().message;
      co_await (*mount)->Unmount();
    }
    l.Finish();
  }(loop, workers, url, provider, message));
  loop.Run();
  EXPECT_THAT(message, HasSubstr("elsewhere"));
}

INSTANTIATE_TEST_SUITE_P(All, ServerTest,
                         testing::Combine(testing::Values(Protocol::kTcp, Protocol::kRdma),
                                          testing::Values(Version::k3, Version::k40, Version::k41)),
                         [](const auto& tested) {
                           return std::string(std::get<0>(tested.param) == Protocol::kTcp ? "Tcp" : "Rdma") +
                                  NameOf(std::get<1>(tested.param));
                         });

}  // namespace
}  // namespace penstock::server
