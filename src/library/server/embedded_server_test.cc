// Servers of the C API, used by clients of this process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <clocale>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <latch>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "base/signal.h"
#include "base/workers.h"
#include "client/mount.h"
#include "library/server/memory_test_support.h"
#include "penstock/server.h"
#include "rdma/iwarp/provider.h"
#include "server/test_server.h"

namespace penstock::library {
namespace {

using client::Protocol;
using client::Version;

struct FreeServer {
  void operator()(penstock_server* server) const { penstock_server_free(server); }
};
using OwnedServer = std::unique_ptr<penstock_server, FreeServer>;

// On ports that the system chooses, with a short grace period.
penstock_server_options OptionsWith(const std::string& state) {
  penstock_server_options options = PENSTOCK_SERVER_OPTIONS_INIT;
  options.state_directory = state.c_str();
  options.tcp = options.rdma = options.mount = "127.0.0.1:0";
  options.threads = 2;
  options.grace_seconds = options.lease_seconds = 1;
  return options;
}

OwnedServer Make(const penstock_server_options& options) {
  penstock_server* made = nullptr;
  EXPECT_EQ(penstock_server_new(&options, &made), 0) << penstock_error_text();
  return OwnedServer(made);
}

constexpr const char* kAll = "*(rw,no_root_squash,insecure)";

uint16_t PortOf(const OwnedServer& server, penstock_service service) {
  std::array<char, 64> text{};
  EXPECT_GT(penstock_server_address(server.get(), service, 0, text.data(), text.size()), 0) << penstock_error_text();
  return static_cast<uint16_t>(std::stoi(std::string(std::strrchr(text.data(), ':') + 1)));
}

// Runs `use` with a mount of an export. Returns the error of mounting or of `use`, or nothing.
using Use = std::function<Task<client::Result<void>>(client::Mount&)>;
std::optional<client::Error> WithMount(const OwnedServer& server, const std::string& path, Protocol protocol,
                                       Version version, const Use& use) {
  Loop loop;
  Workers workers(2);
  rdma::iwarp::Provider provider(loop);
  client::Url url;
  url.host = "127.0.0.1";
  url.protocol = protocol;
  url.version = version;
  url.port = PortOf(server, protocol == Protocol::kRdma ? PENSTOCK_SERVICE_RDMA : PENSTOCK_SERVICE_TCP);
  url.mount_port = PortOf(server, PENSTOCK_SERVICE_MOUNT);
  url.path = path;
  url.uid = url.gid = 0;
  const client::MountOptions options{
      .retry = {.first_delay = std::chrono::milliseconds(5), .longest_delay = std::chrono::milliseconds(50)},
      .provider = &provider};
  std::optional<client::Error> error;
  Spawn([](Loop& l, Workers& w, const client::Url& u, const client::MountOptions& o, const Use& f,
           std::optional<client::Error>& out) -> Task<void> {
    auto mount = co_await client::Mount::Open(l, w, u, o);
    if (!mount) {
      out = mount.error();
    } else {
      const auto used = co_await f(**mount);
      if (!used) out = used.error();
      co_await (*mount)->Unmount();
      mount->reset();
    }
    l.Finish();
  }(loop, workers, url, options, use, error));
  loop.Run();
  workers.Join();
  return error;
}
std::string MessageOf(const std::optional<client::Error>& error) { return error ? error->message : "no error"; }

// Looks up `path` below the root of the export, which is a directory of the server's tree in version 4.
Task<client::Result<client::Node>> Find(client::Mount& mount, std::string path, bool follow = true) {
  co_return co_await mount.Resolve(mount.path() + "/" + path, follow);
}

Task<client::Result<std::string>> ReadAll(client::Mount& mount, std::string path) {
  PENSTOCK_CO_TRY(const client::Node node, co_await Find(mount, path));
  PENSTOCK_CO_TRY(const auto file, co_await mount.OpenFile(node, path, client::Access::kRead));
  std::string text(node.attributes.size, '\0');
  size_t done = 0;
  while (done < text.size()) {
    const Bytes rest = std::as_writable_bytes(std::span(text)).subspan(done);
    const auto reply = co_await file->Read(done, rest.first(std::min<size_t>(rest.size(), mount.sizes().read)));
    if (!reply) co_return std::unexpected(reply.error());
    if (reply->count == 0) break;
    done += reply->count;
  }
  PENSTOCK_CO_CHECK(co_await file->Close());
  co_return text;
}

Task<client::Result<void>> WriteAll(client::Mount& mount, std::string name, std::string text) {
  PENSTOCK_CO_TRY(const client::Node root, co_await Find(mount, ""));
  PENSTOCK_CO_TRY(const auto file, co_await mount.CreateFile(root.handle, name, 0644));
  size_t done = 0;
  while (done < text.size()) {
    const ConstBytes rest = AsBytes(text).subspan(done);
    const auto reply = co_await file->Write(done, rest.first(std::min<size_t>(rest.size(), mount.sizes().write)));
    if (!reply) {
      (void)co_await file->Close();
      co_return std::unexpected(reply.error());
    }
    done += reply->count;
  }
  PENSTOCK_CO_CHECK(co_await file->Commit());
  co_return co_await file->Close();
}

Task<client::Result<std::set<std::string>>> NamesIn(client::Mount& mount) {
  std::set<std::string> names;
  const std::function<void(client::Entry)> add = [&](client::Entry entry) { names.insert(entry.name); };
  PENSTOCK_CO_TRY(const client::Node root, co_await Find(mount, ""));
  PENSTOCK_CO_CHECK(co_await mount.List(root.handle, "/", add));
  co_return names;
}

// ---- with each version and transport

class HostedFilesTest : public testing::TestWithParam<std::tuple<Protocol, Version, unsigned>> {
 protected:
  void Serve(MemoryFiles settings) {
    settings.flags = std::get<2>(GetParam());
    files_ = MakeMemoryFiles(std::move(settings));
    server_ = Make(OptionsWith(state_));
    ASSERT_EQ(penstock_server_export(server_.get(), "/files", kAll, files_.get()), 0) << penstock_error_text();
    ASSERT_EQ(penstock_server_start(server_.get()), 0) << penstock_error_text();
  }
  std::optional<client::Error> With(const Use& use) {
    return WithMount(server_, "/files", std::get<0>(GetParam()), std::get<1>(GetParam()), use);
  }

  const TemporaryDirectory directory_;
  const std::string state_ = (directory_.path() / "state").string();
  OwnedFileSystem files_;
  OwnedServer server_;
};

TEST_P(HostedFilesTest, ClientsDoEverything) {
  Serve({});
  std::string long_text(3'000'000, '\0');
  for (size_t i = 0; i < long_text.size(); ++i) long_text[i] = static_cast<char>(i * 7 + i / 251);
  const Use use = [&](client::Mount& mount) -> Task<client::Result<void>> {
    PENSTOCK_CO_TRY(const client::Node top, co_await Find(mount, ""));
    const client::Handle root = top.handle;
    PENSTOCK_CO_CHECK(co_await WriteAll(mount, "file", long_text));
    PENSTOCK_CO_TRY(const std::string read, co_await ReadAll(mount, "file"));
    EXPECT_TRUE(read == long_text);
    PENSTOCK_CO_TRY(const client::Node directory, co_await mount.MakeDirectory(root, "directory", 0755));
    PENSTOCK_CO_CHECK(co_await mount.MakeSymlink(root, "link", "file"));
    PENSTOCK_CO_TRY(const client::Node link, co_await Find(mount, "link", false));
    PENSTOCK_CO_TRY(const std::string target, co_await mount.ReadLink(link.handle, "link"));
    EXPECT_EQ(target, "file");
    PENSTOCK_CO_TRY(const client::Node file, co_await Find(mount, "link"));
    PENSTOCK_CO_CHECK(co_await mount.Link(file.handle, directory.handle, "second"));
    PENSTOCK_CO_CHECK(co_await mount.Rename(directory.handle, "second", root, "renamed"));
    const client::NewAttributes values{.mode = 0600, .size = 5};
    PENSTOCK_CO_CHECK(co_await mount.SetAttributes(file.handle, "file", values));
    PENSTOCK_CO_TRY(const client::Attributes attributes, co_await mount.GetAttributes(file.handle, "file"));
    EXPECT_EQ(attributes.size, 5u);
    EXPECT_EQ(attributes.mode, 0600u);
    EXPECT_EQ(attributes.links, 2u);
    PENSTOCK_CO_TRY(auto names, co_await NamesIn(mount));
    EXPECT_THAT(names, testing::ElementsAre("directory", "file", "link", "renamed"));
    PENSTOCK_CO_CHECK(co_await mount.RemoveDirectory(root, "directory"));
    for (const char* name : {"file", "link", "renamed"}) PENSTOCK_CO_CHECK(co_await mount.Remove(root, name));
    PENSTOCK_CO_TRY(names, co_await NamesIn(mount));
    EXPECT_THAT(names, testing::IsEmpty());
    co_return client::Result<void>();
  };
  EXPECT_EQ(MessageOf(With(use)), "no error");
}

TEST_P(HostedFilesTest, ListsManyEntriesOnce) {
  Serve({});
  const Use use = [&](client::Mount& mount) -> Task<client::Result<void>> {
    PENSTOCK_CO_TRY(const client::Node root, co_await Find(mount, ""));
    std::set<std::string> made;
    for (int i = 0; i < 400; ++i) {
      const std::string name = "entry" + std::to_string(i);
      PENSTOCK_CO_CHECK(co_await mount.MakeDirectory(root.handle, name, 0755));
      made.insert(name);
    }
    PENSTOCK_CO_TRY(const auto names, co_await NamesIn(mount));
    EXPECT_EQ(names, made);
    co_return client::Result<void>();
  };
  EXPECT_EQ(MessageOf(With(use)), "no error");
}

TEST_P(HostedFilesTest, ErrorsOfTheHostComeThrough) {
  std::atomic<int> error = 0;
  Serve({.capacity = 1 << 20, .hook = [&](std::string_view operation) {
           return operation == "read" || operation == "create" ? error.load() : 0;
         }});
  const Use use = [&](client::Mount& mount) -> Task<client::Result<void>> {
    PENSTOCK_CO_TRY(const client::Node root, co_await Find(mount, ""));
    const auto full = co_await WriteAll(mount, "large", std::string(2 << 20, 'x'));
    EXPECT_TRUE(!full && full.error().status == client::Status::kNoSpace) << (full ? "" : full.error().message);
    PENSTOCK_CO_CHECK(co_await mount.Remove(root.handle, "large"));
    PENSTOCK_CO_CHECK(co_await WriteAll(mount, "small", "text"));
    error = EIO;
    const auto unreadable = co_await ReadAll(mount, "small");
    EXPECT_TRUE(!unreadable && static_cast<int>(*unreadable.error().status) == 5) << "NFS3ERR_IO, NFS4ERR_IO";
    error = EROFS;
    const auto refused = co_await WriteAll(mount, "another", "text");
    EXPECT_TRUE(!refused && refused.error().status == client::Status::kReadOnly);
    error = 0;
    const auto missing = co_await Find(mount, "missing");
    EXPECT_TRUE(!missing && missing.error().status == client::Status::kNotFound);
    const auto taken = co_await mount.MakeDirectory(root.handle, "small", 0755);
    EXPECT_TRUE(!taken && taken.error().status == client::Status::kExists);
    co_return client::Result<void>();
  };
  EXPECT_EQ(MessageOf(With(use)), "no error");
}

INSTANTIATE_TEST_SUITE_P(Library, HostedFilesTest,
                         testing::Combine(testing::Values(Protocol::kTcp, Protocol::kRdma),
                                          testing::Values(Version::k3, Version::k40, Version::k41, Version::k42),
                                          testing::Values(0u, unsigned{PENSTOCK_FS_NONBLOCKING})));

// ---- with one version

class EmbeddedServerTest : public testing::Test {
 protected:
  static std::optional<client::Error> With(const OwnedServer& server, const std::string& path, const Use& use) {
    return WithMount(server, path, Protocol::kTcp, Version::k41, use);
  }
  // Reads a file, in a mount of its own.
  static std::string ReadFrom(const OwnedServer& server, const std::string& path, const std::string& name) {
    std::string text = "nothing";
    const auto error = With(server, path, [&](client::Mount& mount) -> Task<client::Result<void>> {
      PENSTOCK_CO_TRY(text, co_await ReadAll(mount, name));
      co_return client::Result<void>();
    });
    return error ? error->message : text;
  }
  static std::string WriteTo(const OwnedServer& server, const std::string& path, const std::string& name,
                             const std::string& text) {
    const Use use = [&](client::Mount& mount) { return WriteAll(mount, name, text); };
    return MessageOf(With(server, path, use));
  }
  std::string State(const std::string& name) const { return directory_.path() / name; }

  const TemporaryDirectory directory_;
};

TEST_F(EmbeddedServerTest, AFunctionThatHangsDoesNotDisturbOthers) {
  std::latch hangs(1), may_end(1);
  std::atomic<bool> shall_hang = true;
  const OwnedFileSystem files = MakeMemoryFiles({.hook = [&](std::string_view operation) {
    if (operation == "read" && shall_hang.exchange(false)) {
      hangs.count_down();
      may_end.wait();
    }
    return 0;
  }});
  const std::string state = State("state");
  const OwnedServer server = Make(OptionsWith(state));
  ASSERT_EQ(penstock_server_export(server.get(), "/files", kAll, files.get()), 0);
  ASSERT_EQ(penstock_server_start(server.get()), 0) << penstock_error_text();
  ASSERT_EQ(WriteTo(server, "/files", "file", "text"), "no error");
  std::string slow;
  std::thread reader([&] { slow = ReadFrom(server, "/files", "file"); });
  hangs.wait();
  EXPECT_EQ(ReadFrom(server, "/files", "file"), "text");
  EXPECT_EQ(WriteTo(server, "/files", "other", "more"), "no error");
  may_end.count_down();
  reader.join();
  EXPECT_EQ(slow, "text");
}

TEST_F(EmbeddedServerTest, TwoServersShareAFileSystemAndHaveTheirOwnLogs) {
  struct Log {
    std::mutex mutex;
    std::string text;
    static void Take(void* context, penstock_log_level, const char* module, const char* message) {
      Log& log = *static_cast<Log*>(context);
      const std::lock_guard lock(log.mutex);
      log.text.append(module).append(": ").append(message).append("\n");
    }
  } one_log, two_log;
  const OwnedFileSystem files = MakeMemoryFiles();
  const std::string one_state = State("one"), two_state = State("two");
  penstock_server_options options = OptionsWith(one_state);
  options.log = &Log::Take;
  options.log_context = &one_log;
  const OwnedServer one = Make(options);
  options.state_directory = two_state.c_str();
  options.log_context = &two_log;
  OwnedServer two = Make(options);
  for (const OwnedServer* const each : {&one, &std::as_const(two)}) {
    ASSERT_EQ(penstock_server_export(each->get(), "/files", "*(rw,no_root_squash,insecure) 192.0.2.1(ro)", files.get()),
              0);
    ASSERT_EQ(penstock_server_start(each->get()), 0) << penstock_error_text();
  }
  EXPECT_EQ(WriteTo(one, "/files", "file", "text"), "no error");
  EXPECT_EQ(ReadFrom(two, "/files", "file"), "text");
  // A refusal is in the log of the server that refuses.
  EXPECT_THAT(ReadFrom(one, "/nowhere", "file"), testing::Not("text"));
  ASSERT_EQ(penstock_server_export_directory(two.get(), "/none", "/nonexistent", kAll), -ENOENT);
  EXPECT_THAT(penstock_error_text(), testing::HasSubstr("/nonexistent"));
  two.reset();
  EXPECT_EQ(ReadFrom(one, "/files", "file"), "text");
  const std::lock_guard lock(two_log.mutex);
  EXPECT_EQ(two_log.text, "");
}

TEST_F(EmbeddedServerTest, ExportsOfOneFileSystemAreOneTreeWithHandlesOfTheirOwn) {
  const OwnedFileSystem files = MakeMemoryFiles();
  const std::string state = State("state");
  const OwnedServer server = Make(OptionsWith(state));
  ASSERT_EQ(penstock_server_export(server.get(), "/one", kAll, files.get()), 0);
  ASSERT_EQ(penstock_server_export(server.get(), "/two", "*(ro,insecure)", files.get()), 0);
  ASSERT_EQ(penstock_server_start(server.get()), 0) << penstock_error_text();
  EXPECT_EQ(WriteTo(server, "/one", "file", "text"), "no error");
  EXPECT_EQ(ReadFrom(server, "/two", "file"), "text");
  EXPECT_THAT(WriteTo(server, "/two", "file", "changed"), testing::HasSubstr("read-only"));
}

TEST_F(EmbeddedServerTest, ExportsComeAndGoWhileItRuns) {
  std::latch ended(1);
  OwnedFileSystem files = MakeMemoryFiles({.ended = [&] { ended.count_down(); }});
  const std::string state = State("state");
  const OwnedServer server = Make(OptionsWith(state));
  ASSERT_EQ(penstock_server_start(server.get()), 0) << penstock_error_text();
  ASSERT_EQ(penstock_server_export(server.get(), "/files", kAll, files.get()), 0) << penstock_error_text();
  EXPECT_EQ(penstock_server_export(server.get(), "/files", kAll, files.get()), -EEXIST);
  files.reset();
  EXPECT_EQ(WriteTo(server, "/files", "file", "text"), "no error");
  EXPECT_EQ(ReadFrom(server, "/files", "file"), "text");
  ASSERT_EQ(penstock_server_unexport(server.get(), "/files"), 0) << penstock_error_text();
  EXPECT_EQ(penstock_server_unexport(server.get(), "/files"), -ENOENT);
  EXPECT_NE(ReadFrom(server, "/files", "file"), "text");
  ended.wait();  // the server has given up the last reference
}

TEST_F(EmbeddedServerTest, StartsAndStopsAgainAndAgain) {
  const OwnedFileSystem files = MakeMemoryFiles();
  const std::string state = State("state");
  const OwnedServer server = Make(OptionsWith(state));
  ASSERT_EQ(penstock_server_export(server.get(), "/files", kAll, files.get()), 0);
  for (int i = 0; i < 20; ++i) {
    ASSERT_EQ(penstock_server_start(server.get()), 0) << penstock_error_text();
    EXPECT_EQ(penstock_server_start(server.get()), -EALREADY);
    if (i == 0) {
      EXPECT_EQ(WriteTo(server, "/files", "file", "text"), "no error");
    }
    if (i % 5 == 0) {
      EXPECT_EQ(ReadFrom(server, "/files", "file"), "text") << i;
    }
    ASSERT_EQ(penstock_server_stop(server.get()), 0);
    ASSERT_EQ(penstock_server_stop(server.get()), 0);
  }
  std::array<char, 64> text{};
  EXPECT_EQ(penstock_server_address(server.get(), PENSTOCK_SERVICE_TCP, 0, text.data(), text.size()), -ENOTCONN);
}

TEST_F(EmbeddedServerTest, ServesADirectoryWhateverTheUmask) {
  const std::filesystem::path served = directory_.path() / "served";
  std::filesystem::create_directory(served);
  const std::string state = State("state");
  const OwnedServer server = Make(OptionsWith(state));
  ASSERT_EQ(penstock_server_export_directory(server.get(), "/files", served.c_str(), kAll), 0);
  ASSERT_EQ(penstock_server_start(server.get()), 0) << penstock_error_text();
  const mode_t before = ::umask(077);
  EXPECT_EQ(WriteTo(server, "/files", "file", "text"), "no error");
  EXPECT_EQ(::umask(before), mode_t{077}) << "the server leaves it as it is";
  struct stat made{};
  ASSERT_EQ(::stat((served / "file").c_str(), &made), 0);
  EXPECT_EQ(made.st_mode & 07777, 0644u);
}

// What the file of a thread in /proc says.
std::string StatusLine(const std::filesystem::path& task, std::string_view key) {
  std::ifstream file(task / "status");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(key)) return line.substr(line.find_first_not_of(" \t", key.size()));
  }
  return {};
}

std::set<std::string> Tasks() {
  std::set<std::string> tasks;
  for (const auto& each : std::filesystem::directory_iterator("/proc/self/task")) tasks.insert(each.path());
  return tasks;
}

TEST_F(EmbeddedServerTest, LeavesTheProcessAsItIs) {
  struct sigaction pipe_before{}, pipe_after{};
  rlimit limit_before{}, limit_after{};
  ASSERT_EQ(::sigaction(SIGPIPE, nullptr, &pipe_before), 0);
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit_before), 0);
  const std::string locale_before = ::setlocale(LC_ALL, nullptr);
  const std::set<std::string> tasks_before = Tasks();
  const std::filesystem::path served = directory_.path() / "served";
  std::filesystem::create_directory(served);
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  {
    const OwnedFileSystem files = MakeMemoryFiles();
    const std::string state = State("state");
    penstock_server_options options = OptionsWith(state);
    options.metrics = "127.0.0.1:0";
    const OwnedServer server = Make(options);
    ASSERT_EQ(penstock_server_export(server.get(), "/files", kAll, files.get()), 0);
    ASSERT_EQ(penstock_server_export_directory(server.get(), "/served", served.c_str(), kAll), 0);
    ASSERT_EQ(penstock_server_start(server.get()), 0) << penstock_error_text();
    EXPECT_EQ(WriteTo(server, "/files", "file", "text"), "no error");
    EXPECT_EQ(WriteTo(server, "/served", "file", "text"), "no error");
    for (const std::string& task : Tasks()) {
      if (tasks_before.contains(task)) continue;
      const std::string name = StatusLine(task, "Name:");
      // libmicrohttpd names its threads, until they have served the first connection.
      EXPECT_TRUE(name.starts_with("penstock-") || name.starts_with("MHD-")) << name;
      const uint64_t blocked = std::stoull(StatusLine(task, "SigBlk:"), nullptr, 16);
      for (const int signal : {SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGALRM, SIGCHLD, SIGIO, SIGPIPE, SIGXFSZ}) {
        EXPECT_NE(blocked >> (signal - 1) & 1, 0u) << name << " takes " << ::strsignal(signal);
      }
    }
  }
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  ASSERT_EQ(::sigaction(SIGPIPE, nullptr, &pipe_after), 0);
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit_after), 0);
  EXPECT_EQ(pipe_after.sa_handler, pipe_before.sa_handler);
  EXPECT_EQ(limit_after.rlim_cur, limit_before.rlim_cur);
  EXPECT_EQ(::setlocale(LC_ALL, nullptr), locale_before);
  EXPECT_EQ(Tasks(), tasks_before) << "all threads of the server have ended";
}

TEST_F(EmbeddedServerTest, TellsWhatIsWrong) {
  penstock_server* made = nullptr;
  EXPECT_EQ(penstock_server_new(nullptr, &made), -EINVAL);
  penstock_server_options options = PENSTOCK_SERVER_OPTIONS_INIT;
  EXPECT_EQ(penstock_server_new(&options, &made), -EINVAL);
  EXPECT_THAT(penstock_error_text(), testing::HasSubstr("state directory"));
  const std::string state = State("state");
  for (const char* address : {"127.0.0.1", "::1:2049", "[127.0.0.1]:1", "127.0.0.1:70000", "127.0.0.1:1,", "host:1"}) {
    options = OptionsWith(state);
    options.tcp = address;
    EXPECT_EQ(penstock_server_new(&options, &made), -EINVAL) << address;
    EXPECT_EQ(made, nullptr);
  }
  options = OptionsWith(state);
  options.tcp = options.rdma = "";
  EXPECT_EQ(penstock_server_new(&options, &made), -EINVAL);
  const OwnedServer server = Make(OptionsWith(state));
  const OwnedFileSystem files = MakeMemoryFiles();
  const auto add = [&](const char* path, const char* clients) {
    return penstock_server_export(server.get(), path, clients, files.get());
  };
  for (const char* clients :
       {"", "  ", "*(rw", "*(nonsense)", "*(rw)\n/etc *(rw)", "*(crossmnt)", "#*(rw)", "-rw", "192.0.2.1 (rw)"}) {
    EXPECT_EQ(add("/files", clients), -EINVAL) << clients;
  }
  for (const char* path : {"", "files", "/a/../b"}) EXPECT_EQ(add(path, kAll), -EINVAL) << path;
  EXPECT_EQ(add(nullptr, kAll), -EINVAL);
  EXPECT_EQ(penstock_server_start(nullptr), -EINVAL);
}

TEST_F(EmbeddedServerTest, FailsToStartWithTheErrnoOfTheReason) {
  const std::string one_state = State("one"), two_state = State("two");
  const OwnedServer one = Make(OptionsWith(one_state));
  ASSERT_EQ(penstock_server_start(one.get()), 0) << penstock_error_text();
  const OwnedServer same_directory = Make(OptionsWith(one_state));
  EXPECT_EQ(penstock_server_start(same_directory.get()), -EBUSY);
  penstock_server_options options = OptionsWith(two_state);
  const std::string taken = "127.0.0.1:" + std::to_string(PortOf(one, PENSTOCK_SERVICE_TCP));
  options.tcp = taken.c_str();
  const OwnedServer same_port = Make(options);
  EXPECT_EQ(penstock_server_start(same_port.get()), -EADDRINUSE);
  EXPECT_THAT(penstock_error_text(), testing::HasSubstr("127.0.0.1"));
  const OwnedServer without_directory = Make(OptionsWith(two_state));
  ASSERT_EQ(penstock_server_export_directory(without_directory.get(), "/none", "/nonexistent", kAll), 0);
  EXPECT_EQ(penstock_server_start(without_directory.get()), -ENOENT);
  ASSERT_EQ(penstock_server_unexport(without_directory.get(), "/none"), 0);
  EXPECT_EQ(penstock_server_start(without_directory.get()), 0) << penstock_error_text();
}

TEST_F(EmbeddedServerTest, FunctionsOfAFileSystemMayNotSteerTheServer) {
  penstock_server* steered = nullptr;
  std::atomic<int> result = 0;
  const OwnedFileSystem files = MakeMemoryFiles({.hook = [&](std::string_view operation) {
    if (operation == "write") result = penstock_server_stop(steered);
    return 0;
  }});
  const std::string state = State("state");
  const OwnedServer server = Make(OptionsWith(state));
  steered = server.get();
  ASSERT_EQ(penstock_server_export(server.get(), "/files", kAll, files.get()), 0);
  ASSERT_EQ(penstock_server_start(server.get()), 0) << penstock_error_text();
  EXPECT_EQ(WriteTo(server, "/files", "file", "text"), "no error");
  EXPECT_EQ(result, -EDEADLK);
}

TEST_F(EmbeddedServerTest, AChildProcessCannotUseTheServerOfItsParent) {
  const std::string state = State("state");
  const OwnedServer server = Make(OptionsWith(state));
  ASSERT_EQ(penstock_server_start(server.get()), 0) << penstock_error_text();
  const pid_t child = ::fork();
  if (child == 0) {
    const int result = penstock_server_stop(server.get());
    penstock_server_free(server.get());
    ::_exit(result == -EPERM ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

TEST_F(EmbeddedServerTest, StructuresOfOtherVersionsAreUnderstood) {
  const std::string state = State("state");
  penstock_server_options options = OptionsWith(state);
  penstock_server* made = nullptr;
  // An older header has fewer members.
  options.size = offsetof(penstock_server_options, nfs2);
  options.nfs2 = 77;
  ASSERT_EQ(penstock_server_new(&options, &made), 0) << penstock_error_text();
  penstock_server_free(made);
  options.size = 0;
  EXPECT_EQ(penstock_server_new(&options, &made), -EINVAL);
  // A newer header has more.
  struct Newer {
    penstock_server_options known;
    uint64_t unknown = 0;
  } newer{.known = OptionsWith(state)};
  newer.known.size = sizeof newer;
  ASSERT_EQ(penstock_server_new(&newer.known, &made), 0) << penstock_error_text();
  penstock_server_free(made);
  newer.unknown = 1;
  EXPECT_EQ(penstock_server_new(&newer.known, &made), -E2BIG);
}

TEST_F(EmbeddedServerTest, FileSystemsNeedTheirFunctions) {
  penstock_file_system* made = nullptr;
  penstock_file_system_ops ops = PENSTOCK_FILE_SYSTEM_OPS_INIT;
  bool destroyed = false;
  ops.destroy = [](void* self) { *static_cast<bool*>(self) = true; };
  EXPECT_EQ(penstock_file_system_new(&ops, &destroyed, nullptr, &made), -EINVAL);
  EXPECT_FALSE(destroyed) << "it still belongs to the host";
  ops.root = [](void*, penstock_handle*) { return -EIO; };
  ops.get_attributes = [](void*, const penstock_caller*, const penstock_handle*, penstock_attributes*) { return -EIO; };
  ops.lookup = [](void*, const penstock_caller*, const penstock_handle*, const char*, penstock_handle*) {
    return -EIO;
  };
  ops.read = [](void*, const penstock_caller*, const penstock_handle*, void*, size_t, uint64_t) {
    return int64_t{-EIO};
  };
  ops.read_directory = [](void*, const penstock_caller*, const penstock_handle*, uint64_t, penstock_add_entry*, void*) {
    return -EIO;
  };
  penstock_file_system_options options = PENSTOCK_FILE_SYSTEM_OPTIONS_INIT;
  options.flags = 0x80;
  EXPECT_EQ(penstock_file_system_new(&ops, &destroyed, &options, &made), -EINVAL);
  ASSERT_EQ(penstock_file_system_new(&ops, &destroyed, nullptr, &made), 0) << penstock_error_text();
  const std::string state = State("state");
  OwnedServer server = Make(OptionsWith(state));
  ASSERT_EQ(penstock_server_export(server.get(), "/files", kAll, made), 0);
  EXPECT_LT(penstock_server_start(server.get()), 0) << "its root cannot be read";
  EXPECT_THAT(penstock_error_text(), testing::HasSubstr("root"));
  penstock_file_system_free(made);
  EXPECT_FALSE(destroyed) << "the server exports it";
  server.reset();
  EXPECT_TRUE(destroyed);
}

}  // namespace
}  // namespace penstock::library
