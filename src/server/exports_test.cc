// The exports of a whole server: nested directories, and errors of Server::Make().
#include "server/server.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "fs/memory/file_system.h"
#include "server/test_server.h"

namespace penstock::server {
namespace {

using testing::HasSubstr;

// An export below another export. A directory with an export of its own is served only by that export.
class NestedExportsTest : public ServerTest {
 protected:
  NestedExportsTest() {
    std::filesystem::create_directories(secret());
    std::filesystem::create_directory(tree() / "open");
    WriteFile(secret() / "file", "secret");
    WriteFile(tree() / "open/file", "open");
  }
  std::filesystem::path secret() const { return tree() / "secret"; }

  // Exports secret() under `path` to one host that is not this one. The path is irrelevant: the directory counts.
  TestOptions NestedOptions(std::string path) const {
    TestOptions options = ServerOptions();
    options.exports.push_back({.path = std::move(path), .directory = secret()});
    options.exports.back().admissions.front().clients = nfs::ClientSpec(*nfs::Network::Parse("192.0.2.1"));
    return options;
  }
};

TEST_P(NestedExportsTest, DeniesAccessToTheDirectoryOfANestedExport) {
  for (const char* const path : {"/tree/secret", "/elsewhere"}) {
    StartServer(NestedOptions(path));
    const auto error = WithMount([](client::Mount& mount, Workers&) -> Task<client::Result<void>> {
      PENSTOCK_CO_TRY(const client::Node top, co_await Find(mount, ""));
      PENSTOCK_CO_CHECK(co_await Find(mount, "open/file"));
      co_await ExpectRefusal(mount.Lookup(top.handle, "secret"), client::Status::kAccess);
      co_await ExpectRefusal(Find(mount, "secret/file"), client::Status::kAccess);
      co_await ExpectRefusal(mount.Rename(top.handle, "secret", top.handle, "mine"), client::Status::kAccess);
      co_await ExpectRefusal(mount.Rename(top.handle, "open", top.handle, "secret"), client::Status::kAccess);
      co_await ExpectRefusal(mount.RemoveDirectory(top.handle, "secret"), client::Status::kAccess);
      co_return client::Result<void>();
    });
    EXPECT_FALSE(error) << error->message;
    StopServer();
  }
  EXPECT_EQ(ReadFile(secret() / "file"), "secret");
}

// A local program moves the directory, and makes another one in its place.
TEST_P(NestedExportsTest, DeniesAccessToANestedExportThatWasMovedOrReplaced) {
  StartServer(NestedOptions("/elsewhere"));
  std::filesystem::rename(secret(), tree() / "open/moved");
  std::filesystem::create_directory(secret());
  WriteFile(secret() / "file", "secret");
  const auto error = WithMount([](client::Mount& mount, Workers&) -> Task<client::Result<void>> {
    co_await ExpectRefusal(Find(mount, "open/moved/file"), client::Status::kAccess);
    co_await ExpectRefusal(Find(mount, "secret/file"), client::Status::kAccess);
    co_return client::Result<void>();
  });
  EXPECT_FALSE(error) << error->message;
}

// The client got the handles before the directory had an export of its own.
TEST_P(NestedExportsTest, HandlesBecomeStaleWhenTheirDirectoryGetsAnExportOfItsOwn) {
  delegations_ = 0;
  StartServer();
  const auto error = WithMount([this](client::Mount& mount, Workers&) -> Task<client::Result<void>> {
    PENSTOCK_CO_TRY(const client::Node directory, co_await Find(mount, "secret"));
    PENSTOCK_CO_TRY(const client::Node file, co_await Find(mount, "secret/file"));
    StopServer();
    StartServer(NestedOptions("/tree/secret"));
    co_await ExpectRefusal(mount.GetAttributes(file.handle, "file"), client::Status::kStale);
    co_await ExpectRefusal(mount.GetAttributes(directory.handle, "directory"), client::Status::kStale);
    co_await ExpectRefusal(mount.Lookup(directory.handle, "file"), client::Status::kStale);
    co_return client::Result<void>();
  });
  EXPECT_FALSE(error) << error->message;
}

// With two exports of one directory, the export in the handle decides.
TEST_P(NestedExportsTest, AHandleGivesTheRightsOfTheExportThatItNames) {
  TestOptions options = ServerOptions();
  TermsOf(options.exports.front()).read_only = true;
  options.exports.push_back({.path = "/other", .directory = tree()});
  options.exports.back().admissions.front().clients = nfs::ClientSpec(*nfs::Network::Parse("192.0.2.1"));
  StartServer(options);
  const nfs::ExportId other =
      std::ranges::find(server_->exports().table().all(), "/other", &nfs::Export::path)->get()->id();
  const auto error = WithMount([other](client::Mount& mount, Workers&) -> Task<client::Result<void>> {
    PENSTOCK_CO_TRY(const client::Node top, co_await Find(mount, ""));
    co_await ExpectRefusal(mount.MakeDirectory(top.handle, "new", 0755), client::Status::kReadOnly);
    const ConstBytes octets = top.handle.bytes();
    std::vector<std::byte> changed(octets.begin(), octets.end());
    StoreBig(changed.data() + 1, other.value());
    client::Handle theirs;
    theirs.Assign(changed);
    co_await ExpectRefusal(mount.MakeDirectory(theirs, "new", 0755), client::Status::kStale);
    co_await ExpectRefusal(mount.Lookup(theirs, "open"), client::Status::kStale);
    co_return client::Result<void>();
  });
  EXPECT_FALSE(error) << error->message;
  EXPECT_FALSE(std::filesystem::exists(tree() / "new"));
}

INSTANTIATE_TEST_SUITE_P(All, NestedExportsTest,
                         testing::Combine(testing::Values(Protocol::kTcp), testing::Values(Version::k3, Version::k41)),
                         [](const auto& tested) { return std::string(NameOf(std::get<1>(tested.param))); });

class ServerSetUpTest : public ServerTest {};

TEST_P(ServerSetUpTest, TheErrorNamesAMissingDirectory) {
  TestOptions options = ServerOptions();
  options.exports.front().directory = "/nowhere/at/all";
  const auto made = MakeServer(options);
  ASSERT_FALSE(made);
  EXPECT_THAT(made.error().message, HasSubstr("/nowhere/at/all"));
}

TEST_P(ServerSetUpTest, RejectsAKerberosExportWithoutAKeytab) {
  ::setenv("KRB5_KTNAME", "FILE:/nowhere/at/all.keytab", 1);
  TestOptions options = ServerOptions();
  TermsOf(options.exports.front()).security = {nfs::SecurityFlavor::kKrb5p, nfs::SecurityFlavor::kSys};
  const auto made = MakeServer(options);
  ::unsetenv("KRB5_KTNAME");
  ASSERT_FALSE(made);
  EXPECT_THAT(made.error().message, HasSubstr("export \"/tree\" with sec=krb5p:sys needs Kerberos (--keytab)"));
}

TEST_P(ServerSetUpTest, RejectsProtectedNetworksThatNoExportUses) {
  TestOptions options = ServerOptions();
  options.ccm_from.push_back(*nfs::Network::Parse("10.0.0.0/8"));
  const auto made = MakeServer(options);
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().message, "--ccm-from is without effect: no export has the option sec=ccm");
}

// A file system may use the pool to its end, see Parts.
TEST_P(ServerSetUpTest, AFailureDestroysFileSystemsBeforeTheirPool) {
  TestOptions options = ServerOptions();
  options.trace = "/nowhere/at/all";
  bool had_pool = false;
  {
    auto state_directory = StateDirectory::Open(options.state_directory);
    ASSERT_TRUE(state_directory);
    Parts parts{.state_directory = *std::move(state_directory), .pool = std::make_shared<Workers>(1)};
    const auto destroy = [&had_pool, pool = std::weak_ptr(parts.pool)](const fs::FileSystem* files) {
      had_pool = !pool.expired();
      delete files;
    };
    parts.exports.push_back({"/tree", {{}}, std::shared_ptr<fs::FileSystem>(new fs::memory::FileSystem(), destroy)});
    EXPECT_FALSE(Server::Make(options, std::move(parts)));
  }
  EXPECT_TRUE(had_pool);
}

TEST_P(ServerSetUpTest, TheErrorNamesABusyPort) {
  StartServer();
  for (auto list : {&Addresses::tcp, &Addresses::rdma, &Addresses::mount}) {
    TestOptions options = ServerOptions();
    options.listen = Addresses::At(asio::ip::address_v4::loopback(), 0, 0, 0);
    options.state_directory = directory_.path() / "other state";
    options.listen.*list = ServerOptions().listen.*list;
    const auto made = MakeServer(options);
    ASSERT_FALSE(made);
    EXPECT_THAT(made.error().message,
                HasSubstr(fmt::format("127.0.0.1 port {}", (options.listen.*list).front().port())));
  }
}

INSTANTIATE_TEST_SUITE_P(SetUp, ServerSetUpTest, testing::Values(std::tuple(Protocol::kTcp, Version::k3)),
                         [](const auto&) { return std::string("Tcp"); });

}  // namespace
}  // namespace penstock::server
