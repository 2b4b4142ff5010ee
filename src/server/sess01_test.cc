// Clients with sessions of 2004 (docs/sessions-2004.md) and a whole server, over real sockets.
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <filesystem>
#include <vector>

#include "base/log.h"
#include "server/test_server.h"

namespace penstock::server {
namespace {

using client::Access;
using client::BackChannelPlace;
using client::File;
using client::LockKind;
using client::Mount;
using client::Node;
using testing::HasSubstr;
using Outcome = client::Result<void>;

Task<Outcome> Write(File& file, std::string text) {
  PENSTOCK_CO_TRY(const auto written, co_await file.Write(0, AsBytes(text)));
  EXPECT_EQ(written.count, text.size());
  co_return Outcome();
}

// Creates, writes, reads, renames and removes a file.
Task<Outcome> UseFiles(Mount& mount) {
  PENSTOCK_CO_TRY(const Node top, co_await Find(mount, ""));
  PENSTOCK_CO_TRY(const auto file, co_await mount.CreateFile(top.handle, "file", 0644));
  PENSTOCK_CO_CHECK(co_await Write(*file, "some data"));
  PENSTOCK_CO_CHECK(co_await file->Commit());
  PENSTOCK_CO_TRY(const std::string text, co_await ReadAll(*file));
  EXPECT_EQ(text, "some data");
  PENSTOCK_CO_CHECK(co_await file->Close());
  PENSTOCK_CO_TRY(const Node made, co_await mount.MakeDirectory(top.handle, "folder", 0755));
  PENSTOCK_CO_CHECK(co_await mount.Rename(top.handle, "file", made.handle, "other"));
  std::vector<std::string> names;
  PENSTOCK_CO_CHECK(co_await mount.List(made.handle, "folder", [&](const auto& each) { names.push_back(each.name); }));
  EXPECT_EQ(names, std::vector<std::string>{"other"});
  PENSTOCK_CO_CHECK(co_await mount.Remove(made.handle, "other"));
  co_return co_await mount.RemoveDirectory(top.handle, "folder");
}

// Shuts down the connections of this process to a port. Returns their number.
size_t LoseConnections(uint16_t port) {
  size_t lost = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int descriptor = std::stoi(entry.path().filename().string());
    sockaddr_in peer{};
    socklen_t size = sizeof peer;
    if (::getpeername(descriptor, reinterpret_cast<sockaddr*>(&peer), &size) != 0) continue;
    if (peer.sin_family == AF_INET && ntohs(peer.sin_port) == port) lost += ::shutdown(descriptor, SHUT_RDWR) == 0;
  }
  return lost;
}

class Sess01Test : public ServerTest {
 protected:
  ~Sess01Test() override {
    log::SetSink({});
    if (server_) StopServer();
  }

  // Starts a server and runs `use` with a mount of it.
  void Run(Use use) {
    if (!server_) StartServer();
    const auto error = WithMount(std::move(use));
    EXPECT_FALSE(error) << error->message;
  }
  void RunFiles() {
    Run([](Mount& mount, Workers&) { return UseFiles(mount); });
  }
  size_t LoseConnections() {
    const Addresses& at = server_->addresses();
    return server::LoseConnections((protocol() == Protocol::kRdma ? at.rdma : at.tcp).front().port());
  }
  void WriteFile(std::string_view text) { server::WriteFile(tree() / "file", text); }
  // Collects the messages of the log.
  void Listen() {
    log::SetSink([this](const log::Record& record) { said_ += std::string(record.message) + "\n"; }, log::Level::kInfo);
  }
  size_t CountOf(std::string_view text) const {
    size_t count = 0;
    for (size_t at = said_.find(text); at != said_.npos; at = said_.find(text, at + 1)) ++count;
    return count;
  }

  std::string said_;
};

TEST_P(Sess01Test, UsesFilesWithEachPlaceOfTheBackChannel) {
  for (const auto place : {BackChannelPlace::kOwn, BackChannelPlace::kShared, BackChannelPlace::kOff}) {
    session_.back = place;
    RunFiles();
  }
}

TEST_P(Sess01Test, UsesFilesOverSeveralChannels) {
  session_.channels = 4;
  Run([](Mount& mount, Workers&) -> Task<Outcome> {
    EXPECT_EQ(mount.version(), "4.1-sess01");
    PENSTOCK_CO_CHECK(co_await UseFiles(mount));
    PENSTOCK_CO_TRY(const Node top, co_await Find(mount, ""));
    // More requests at once than the session allows.
    std::vector<Outcome> done;
    for (int i = 0; i < 200; ++i) {
      Spawn([](Mount& on, client::Handle in, std::string name, std::vector<Outcome>& out) -> Task<> {
        const auto made = co_await on.MakeDirectory(in, name, 0755);
        out.push_back(made ? Outcome() : std::unexpected(made.error()));
      }(mount, top.handle, fmt::format("folder {}", i), done));
    }
    while (done.size() < 200) co_await Sleep(mount.loop(), std::chrono::milliseconds(1));
    for (const Outcome& each : done) EXPECT_TRUE(each) << each.error().message;
    co_return Outcome();
  });
}

TEST_P(Sess01Test, StepsUpIfTheUrlAsksForIt) {
  Listen();
  session_.channels = 3;
  RunFiles();
  EXPECT_EQ(CountOf("stepped up"), protocol() == Protocol::kStepUp ? 3u : 0u) << said_;
}

TEST_P(Sess01Test, StaysOnTcpIfTheServerDoesNotStepUp) {
  Listen();
  TestOptions options = ServerOptions();
  options.step_up = false;
  StartServer(options);
  RunFiles();
  EXPECT_EQ(CountOf("stepped up"), 0u);
}

TEST_P(Sess01Test, GoesOnAfterItsConnectionsAreLost) {
  for (const auto place : {BackChannelPlace::kOwn, BackChannelPlace::kShared, BackChannelPlace::kOff}) {
    session_.back = place;
    session_.channels = 2;
    Run([this](Mount& mount, Workers&) -> Task<Outcome> {
      PENSTOCK_CO_TRY(const Node top, co_await Find(mount, ""));
      PENSTOCK_CO_TRY(const auto file, co_await mount.CreateFile(top.handle, "kept open", 0644));
      PENSTOCK_CO_CHECK(co_await file->Lock("me", {0, 10}, LockKind::kExclusive));
      for (int i = 0; i < 5; ++i) {
        EXPECT_GE(LoseConnections(), 1u);
        PENSTOCK_CO_CHECK(co_await UseFiles(mount));
      }
      EXPECT_GE(mount.reconnections(), 5u);
      PENSTOCK_CO_CHECK(co_await Write(*file, "text"));
      PENSTOCK_CO_CHECK(co_await file->Unlock("me", {0, 10}));
      PENSTOCK_CO_CHECK(co_await file->Close());
      co_return co_await mount.Remove(top.handle, "kept open");
    });
  }
}

// Each request is executed once, although its connection may be lost at any time: a directory that is made twice would
// exist already.
TEST_P(Sess01Test, ExecutesRequestsOnceWhileConnectionsAreLost) {
  session_.channels = 2;
  Run([this](Mount& mount, Workers&) -> Task<Outcome> {
    PENSTOCK_CO_TRY(const Node top, co_await Find(mount, ""));
    size_t running = 0;
    std::vector<std::string> failures;
    for (int i = 0; i < 100; ++i) {
      ++running;
      Spawn([](Mount& on, client::Handle in, std::string name, std::vector<std::string>& out, size_t& left) -> Task<> {
        for (int round = 0; round < 5; ++round) {
          const auto made = co_await on.MakeDirectory(in, name, 0755);
          if (!made) out.push_back(made.error().message);
          const auto removed = co_await on.RemoveDirectory(in, name);
          if (!removed) out.push_back(removed.error().message);
        }
        --left;
      }(mount, top.handle, fmt::format("folder {}", i), failures, running));
    }
    for (int i = 0; i < 20 && running > 0; ++i) {
      co_await Sleep(mount.loop(), std::chrono::milliseconds(7));
      LoseConnections();
    }
    while (running > 0) co_await Sleep(mount.loop(), std::chrono::milliseconds(1));
    EXPECT_EQ(failures, std::vector<std::string>());
    co_return Outcome();
  });
}

TEST_P(Sess01Test, ReturnsARecalledDelegation) {
  for (const auto place : {BackChannelPlace::kOwn, BackChannelPlace::kShared}) {
    session_.back = place;
    WriteFile("hello");
    Run([this](Mount& mount, Workers& workers) -> Task<Outcome> {
      PENSTOCK_CO_TRY(const Node node, co_await Find(mount, "file"));
      PENSTOCK_CO_TRY(const auto file, co_await mount.OpenFile(node, "file", Access::kRead));
      PENSTOCK_CO_TRY(const client::Attributes before, co_await mount.GetAttributes(node.handle, "file"));
      EXPECT_EQ(before.size, 5u);
      const auto overwrite = [](Mount& other, Workers&) -> Task<Outcome> {
        PENSTOCK_CO_TRY(const Node same, co_await Find(other, "file"));
        PENSTOCK_CO_TRY(const auto theirs, co_await other.OpenFile(same, "file", Access::kBoth));
        PENSTOCK_CO_CHECK(co_await Write(*theirs, "other data"));
        co_return co_await theirs->Close();
      };
      const TimePoint start = mount.loop().Now();
      PENSTOCK_CO_CHECK(co_await WithAnotherMount(mount, workers, overwrite));
      EXPECT_LT(mount.loop().Now() - start, grace_ / 2) << "the delegation was revoked, not returned";
      PENSTOCK_CO_TRY(const client::Attributes after, co_await mount.GetAttributes(node.handle, "file"));
      EXPECT_EQ(after.size, 10u);
      PENSTOCK_CO_TRY(const std::string text, co_await ReadAll(*file));
      EXPECT_EQ(text, "other data");
      co_return co_await file->Close();
    });
  }
}

TEST_P(Sess01Test, KnowsTheAttributesOfADelegatedFileWithoutTheServer) {
  WriteFile("hello");
  Run([this](Mount& mount, Workers&) -> Task<Outcome> {
    PENSTOCK_CO_TRY(const Node node, co_await Find(mount, "file"));
    PENSTOCK_CO_TRY(const auto file, co_await mount.OpenFile(node, "file", Access::kRead));
    StopServer();
    PENSTOCK_CO_TRY(const client::Attributes known, co_await mount.GetAttributes(node.handle, "file"));
    EXPECT_EQ(known.size, 5u);
    StartServer();
    co_return co_await file->Close();
  });
}

// The server recalls the delegation over the back channel that the client has bound instead of a lost one.
TEST_P(Sess01Test, ReturnsADelegationThatIsRecalledAfterTheBackChannelWasLost) {
  for (const auto place : {BackChannelPlace::kOwn, BackChannelPlace::kShared}) {
    session_.back = place;
    WriteFile("hello");
    Run([this](Mount& mount, Workers& workers) -> Task<Outcome> {
      PENSTOCK_CO_TRY(const Node node, co_await Find(mount, "file"));
      PENSTOCK_CO_TRY(const auto file, co_await mount.OpenFile(node, "file", Access::kRead));
      EXPECT_GE(LoseConnections(), 1u);
      const auto remove = [](Mount& other, Workers&) -> Task<Outcome> {
        PENSTOCK_CO_TRY(const Node same, co_await Find(other, "file"));
        PENSTOCK_CO_TRY(const auto theirs, co_await other.OpenFile(same, "file", Access::kBoth));
        co_return co_await theirs->Close();
      };
      const TimePoint start = mount.loop().Now();
      PENSTOCK_CO_CHECK(co_await WithAnotherMount(mount, workers, remove));
      EXPECT_LT(mount.loop().Now() - start, grace_ / 2) << "the delegation was revoked, not returned";
      co_return co_await file->Close();
    });
  }
}

TEST_P(Sess01Test, GetsNoDelegationWithoutABackChannel) {
  session_.back = BackChannelPlace::kOff;
  WriteFile("hello");
  Run([this](Mount& mount, Workers&) -> Task<Outcome> {
    PENSTOCK_CO_TRY(const Node node, co_await Find(mount, "file"));
    PENSTOCK_CO_TRY(const auto file, co_await mount.OpenFile(node, "file", Access::kRead));
    WriteFile("longer than before");
    PENSTOCK_CO_TRY(const client::Attributes after, co_await mount.GetAttributes(node.handle, "file"));
    EXPECT_EQ(after.size, 18u);
    co_return co_await file->Close();
  });
}

TEST_P(Sess01Test, ReclaimsItsOpensAndLocksAfterTheServerRestarts) {
  grace_ = std::chrono::seconds(4);  // the lease as well, which a client on a busy machine must renew
  session_.channels = 2;
  Run([this](Mount& mount, Workers& workers) -> Task<Outcome> {
    PENSTOCK_CO_TRY(const Node top, co_await Find(mount, ""));
    PENSTOCK_CO_TRY(const auto file, co_await mount.CreateFile(top.handle, "file", 0644));
    PENSTOCK_CO_CHECK(co_await file->Lock("me", {0, 10}, LockKind::kExclusive));
    RestartServer();
    PENSTOCK_CO_CHECK(co_await Write(*file, "after the restart"));
    const auto probe = [](Mount& other, Workers&) -> Task<Outcome> {
      PENSTOCK_CO_TRY(const Node node, co_await Find(other, "file"));
      PENSTOCK_CO_TRY(const auto same, co_await other.OpenFile(node, "file", Access::kBoth));
      co_await ExpectRefusal(same->Lock("you", {5, 1}, LockKind::kExclusive), client::Status::kDenied);
      co_return co_await same->Close();
    };
    PENSTOCK_CO_CHECK(co_await WithAnotherMount(mount, workers, probe));
    PENSTOCK_CO_CHECK(co_await file->Unlock("me", {0, 10}));
    co_return co_await file->Close();
  });
}

TEST_P(Sess01Test, MakesANewSessionAfterItsLeaseHasExpired) {
  grace_ = std::chrono::seconds(1);
  Run([this](Mount& mount, Workers&) -> Task<Outcome> {
    PENSTOCK_CO_CHECK(co_await UseFiles(mount));
    // This client's loop does not run meanwhile, so that it cannot renew the lease. The server forgets a client whose
    // lease is over when another one asks for its name; here it forgets everything.
    StopServer();
    std::filesystem::remove_all(directory_.path() / "state");
    StartServer();
    co_return co_await UseFiles(mount);
  });
}

// The server may keep no reply in memory, so it recalls credits of a session as soon as the session has kept replies.
TEST_P(Sess01Test, ExecutesEachRequestOnceWhileCreditsAreRecalled) {
  std::atomic<bool> recalled = false;
  log::SetSink(
      [&recalled](const log::Record& record) {
        if (record.message == "the server wants no more than 4 requests at once") recalled = true;
      },
      log::Level::kDebug);
  grace_ = std::chrono::seconds(8);
  TestOptions options = ServerOptions();
  options.nfs4.max_kept_octets = 0;
  options.nfs4.max_slots = 8;
  StartServer(options);
  session_.channels = 3;
  const auto recall_limit = options.nfs4.credit_recall_limit();
  Run([&recalled, recall_limit](Mount& mount, Workers&) -> Task<Outcome> {
    PENSTOCK_CO_TRY(const Node top, co_await Find(mount, ""));
    constexpr size_t kWorkers = 40;
    struct Load {
      size_t made = 0, ended = 0;
      bool stop = false;
    } load;
    for (size_t i = 0; i < kWorkers; ++i) {
      Spawn([](Mount& on, client::Handle in, size_t number, Load& all) -> Task<> {
        // A directory that is made twice exists, and one that is removed twice does not.
        for (size_t n = 0; !all.stop; ++n) {
          const std::string name = fmt::format("folder {} {}", number, n);
          const auto folder = co_await on.MakeDirectory(in, name, 0755);
          EXPECT_TRUE(folder) << folder.error().message;
          const auto removed = co_await on.RemoveDirectory(in, name);
          EXPECT_TRUE(removed) << removed.error().message;
          ++all.made;
        }
        ++all.ended;
      }(mount, top.handle, i, load));
    }
    while (!recalled) co_await Sleep(mount.loop(), std::chrono::milliseconds(10));
    const size_t before = load.made;
    while (load.made < before + 2 * kWorkers) co_await Sleep(mount.loop(), std::chrono::milliseconds(10));
    load.stop = true;
    while (load.ended < kWorkers) co_await Sleep(mount.loop(), std::chrono::milliseconds(10));
    // The server closes no connection when the time for the recall is over.
    co_await Sleep(mount.loop(), recall_limit + std::chrono::seconds(2));
    EXPECT_EQ(mount.reconnections(), 0u);
    co_return co_await UseFiles(mount);
  });
  EXPECT_TRUE(std::filesystem::is_empty(tree()));
}

TEST_P(Sess01Test, ExecutesRequestsWithoutPersistence) {
  session_.persist = false;
  session_.back = BackChannelPlace::kOff;
  RunFiles();
}

TEST_P(Sess01Test, SplitsCompoundsThatAreLargerThanItsChannel) {
  if (protocol() != Protocol::kTcp) GTEST_SKIP() << "over RDMA, chunks take what is larger than a Send";
  Listen();
  log::SetSink([this](const log::Record& record) { said_ += std::string(record.message) + "\n"; }, log::Level::kDebug);
  TestOptions options = ServerOptions();
  options.nfs4.max_request = 2048;
  options.nfs4.max_response = 1024;
  StartServer(options);
  session_.channels = 2;
  RunFiles();
  EXPECT_GT(CountOf("a chain of"), 0u);
}

TEST_P(Sess01Test, SaysThatTheServerDoesNotOfferTheSessions) {
  TestOptions options = ServerOptions();
  options.nfs4.bound_sessions = false;
  StartServer(options);
  const auto error = WithMount([](Mount&, Workers&) -> Task<Outcome> { co_return Outcome(); });
  ASSERT_TRUE(error);
  EXPECT_THAT(error->message, HasSubstr("the server does not offer the sessions of 2004"));
}

const auto kModels =
    testing::Values(std::tuple(Protocol::kTcp, Version::kSess01), std::tuple(Protocol::kRdma, Version::kSess01),
                    std::tuple(Protocol::kStepUp, Version::kSess01));
const auto kNameOfModel = [](const auto& tested) { return NameOf(std::get<0>(tested.param)); };
INSTANTIATE_TEST_SUITE_P(Models, Sess01Test, kModels, kNameOfModel);

}  // namespace

// The tests of whole servers in server_test.cc and locks_test.cc.
INSTANTIATE_TEST_SUITE_P(Sess01, ServerTest, kModels, kNameOfModel);

}  // namespace penstock::server
