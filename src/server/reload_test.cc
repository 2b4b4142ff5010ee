// The exports of a server are replaced while clients use them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "fs/memory/file_system.h"
#include "server/server.h"
#include "server/test_server.h"

namespace penstock::server {
namespace {

using testing::HasSubstr;

class ReloadTest : public ServerTest {
 protected:
  static std::shared_ptr<fs::memory::FileSystem> NewTree() {
    return std::make_shared<fs::memory::FileSystem>(fs::memory::Options{.root_mode = 0777});
  }
  static Export Exported(std::string path, std::shared_ptr<fs::FileSystem> tree, nfs::ExportOptions options = {}) {
    return {.path = std::move(path),
            .admissions = {{.clients = {}, .options = std::move(options)}},
            .file_system = std::move(tree)};
  }
  void Start(std::vector<Export> exports) {
    options_ = ServerOptions();
    auto state_directory = StateDirectory::Open(options_.state_directory);
    ASSERT_TRUE(state_directory) << state_directory.error().message;
    auto made = Server::Make(options_, {.state_directory = *std::move(state_directory),
                                        .pool = std::make_shared<Workers>(4),
                                        .exports = std::move(exports)});
    ASSERT_TRUE(made) << made.error().message;
    server_ = *std::move(made);
    server_->Start();
  }
  // Replaces the exports on a thread of its own, as a program does, while this one serves the client.
  void Replace(std::vector<Export> exports) {
    std::thread([&] {
      const auto replaced = server_->Reload(options_, std::move(exports));
      EXPECT_TRUE(replaced) << replaced.error().message;
    }).join();
  }
  // Waits until nobody holds the file system any more.
  static bool IsReleased(const std::weak_ptr<fs::memory::FileSystem>& tree) {
    for (int i = 0; i < 500 && !tree.expired(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    return tree.expired();
  }

  TestOptions options_;
};

TEST_P(ReloadTest, ClientsOfAnExportThatStaysNoticeNothing) {
  const auto tree = NewTree();
  Start({Exported("/tree", tree)});
  const auto error = WithMount([&](client::Mount& mount, Workers&) -> Task<client::Result<void>> {
    PENSTOCK_CO_TRY(const client::Node top, co_await Find(mount, ""));
    PENSTOCK_CO_CHECK(co_await mount.MakeDirectory(top.handle, "before", 0755));
    Replace({Exported("/more", NewTree()), Exported("/tree", tree)});
    PENSTOCK_CO_CHECK(co_await mount.MakeDirectory(top.handle, "after", 0755));
    PENSTOCK_CO_CHECK(co_await Find(mount, "before"));
    co_return client::Result<void>();
  });
  EXPECT_FALSE(error) << error->message;
}

TEST_P(ReloadTest, ChangedOptionsHoldForTheNextCall) {
  const auto tree = NewTree();
  Start({Exported("/tree", tree)});
  const auto error = WithMount([&](client::Mount& mount, Workers&) -> Task<client::Result<void>> {
    PENSTOCK_CO_TRY(const client::Node top, co_await Find(mount, ""));
    Replace({Exported("/tree", tree, {.read_only = true})});
    co_await ExpectRefusal(mount.MakeDirectory(top.handle, "new", 0755), client::Status::kReadOnly);
    Replace({Exported("/tree", tree)});
    PENSTOCK_CO_CHECK(co_await mount.MakeDirectory(top.handle, "new", 0755));
    co_return client::Result<void>();
  });
  EXPECT_FALSE(error) << error->message;
}

TEST_P(ReloadTest, HandlesOfARemovedExportAreStaleAndItsFileSystemIsReleased) {
  auto tree = NewTree();
  const auto other = NewTree();
  const std::weak_ptr<fs::memory::FileSystem> released = tree;
  Start({Exported("/tree", tree)});
  tree.reset();
  delegations_ = 0;
  const auto error = WithMount([&](client::Mount& mount, Workers&) -> Task<client::Result<void>> {
    PENSTOCK_CO_TRY(const client::Node top, co_await Find(mount, ""));
    PENSTOCK_CO_TRY(const auto file, co_await mount.CreateFile(top.handle, "open", 0644));
    Replace({Exported("/other", other)});
    co_await ExpectRefusal(mount.GetAttributes(top.handle, "top"), client::Status::kStale);
    EXPECT_TRUE(IsReleased(released));
    co_return client::Result<void>();
  });
  EXPECT_FALSE(error) << error->message;
}

// RFC 8881 §11.3: the file system is absent now, and version 4 tells so. Other versions have no such error.
TEST_P(ReloadTest, HandlesOfAnExportThatBecomesAReferralHaveMovedAndItsFileSystemIsReleased) {
  auto tree = NewTree();
  const std::weak_ptr<fs::memory::FileSystem> released = tree;
  Start({Exported("/tree", tree)});
  tree.reset();
  delegations_ = 0;
  const auto error = WithMount([&](client::Mount& mount, Workers&) -> Task<client::Result<void>> {
    PENSTOCK_CO_TRY(const client::Node top, co_await Find(mount, ""));
    PENSTOCK_CO_TRY(const auto file, co_await mount.CreateFile(top.handle, "open", 0644));
    const client::Handle handle = file->node().handle;
    nfs::ExportOptions elsewhere;
    elsewhere.locations = {.referral = true, .list = *nfs::ParseLocations("/tree@far")};
    Replace({Exported("/tree", nullptr, elsewhere)});
    const bool is_version_3 = mount.version() == "3";
    const auto refusal = is_version_3 ? client::Status::kStale : client::Status::kMoved;
    co_await ExpectRefusal(mount.GetAttributes(top.handle, "top"), refusal);
    co_await ExpectRefusal(mount.GetAttributes(handle, "open"), refusal);
    EXPECT_TRUE(IsReleased(released));
    co_await ExpectRefusal(file->Commit(), refusal);
    co_return client::Result<void>();
  });
  EXPECT_FALSE(error) << error->message;
}

TEST_P(ReloadTest, ExportsThatCannotBeServedChangeNothing) {
  const auto tree = NewTree();
  Start({Exported("/tree", tree)});
  const auto error = WithMount([&](client::Mount& mount, Workers&) -> Task<client::Result<void>> {
    PENSTOCK_CO_TRY(const client::Node top, co_await Find(mount, ""));
    const auto twice = server_->Reload(options_, {Exported("/a", tree), Exported("/a", tree)});
    EXPECT_THAT(twice.error().message, HasSubstr("\"/a\" is exported twice"));
    const auto tls =
        server_->Reload(options_, {Exported("/a", tree, {.protections = *nfs::Protections::Parse("tls")})});
    EXPECT_THAT(tls.error().message, HasSubstr("needs a certificate"));
    PENSTOCK_CO_CHECK(co_await mount.MakeDirectory(top.handle, "new", 0755));
    co_return client::Result<void>();
  });
  EXPECT_FALSE(error) << error->message;
}

INSTANTIATE_TEST_SUITE_P(ServerTest, ReloadTest,
                         testing::Combine(testing::Values(Protocol::kTcp, Protocol::kRdma),
                                          testing::Values(Version::k3, Version::k40, Version::k42)),
                         [](const auto& tested) {
                           return NameOf(std::get<0>(tested.param)) + NameOf(std::get<1>(tested.param));
                         });

}  // namespace
}  // namespace penstock::server
