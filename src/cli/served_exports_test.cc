#include "cli/served_exports.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <optional>

#include "base/loop.h"
#include "base/test_temporary_directory.h"
#include "fs/ceph/test_client.h"

namespace penstock::cli {
namespace {

using testing::HasSubstr;

class ServedCephfsTest : public testing::Test {
 protected:
  static nfs::ExportSpec Spec(const std::string& path, const std::string& directory, const std::string& place = "") {
    nfs::ExportSpec spec;
    spec.path = path;
    spec.directory = directory;
    spec.place = place;
    return spec;
  }
  // As one reload after the other: what `last_` holds is still served.
  SetupResult<std::vector<server::Export>> Open(std::vector<nfs::ExportSpec> specs) {
    findings_.clear();
    auto opened = exports_.Open(std::move(specs), findings_);
    if (opened) last_ = *opened;
    return opened;
  }

  const TemporaryDirectory state_;
  const TemporaryDirectory directory_;
  const std::shared_ptr<fs::ceph::TestCluster> cluster_ = std::make_shared<fs::ceph::TestCluster>();
  fs::ceph::TestModule module_{cluster_};
  bool has_module_ = true;
  Workers pool_{2};
  ServedExports exports_{
      pool_, {.state_directory = state_.path()}, "", nullptr, "", [this]() -> SetupResult<fs::ceph::Module*> {
        if (!has_module_) return std::unexpected(SetupError{"no module"});
        return &module_;
      }};
  std::vector<Finding> findings_;
  std::vector<server::Export> last_;
};

TEST_F(ServedCephfsTest, ServesDirectoriesOfThisHostAndOfCephfsTogether) {
  const auto opened = Open({Spec("/a", directory_.path()), Spec("/b", "ceph:/x"), Spec("/c", "ceph:/x")});
  ASSERT_TRUE(opened) << opened.error().message;
  ASSERT_EQ(opened->size(), 3u);
  EXPECT_EQ((*opened)[1].path, "/b");
  EXPECT_FALSE((*opened)[1].file_system->Root() == (*opened)[2].file_system->Root()) << "a handle is of one export";
}

TEST_F(ServedCephfsTest, AReloadKeepsAnExportThatStays) {
  ASSERT_TRUE(Open({Spec("/b", "ceph:/x")}));
  const auto before = last_.front().file_system;
  ASSERT_TRUE(Open({Spec("/b", "ceph:/x"), Spec("/c", "ceph:/y")}));
  EXPECT_EQ(last_.front().file_system, before);
  ASSERT_TRUE(Open({Spec("/b", "ceph:/y")}));
  EXPECT_NE(last_.front().file_system, before);
}

TEST_F(ServedCephfsTest, AnExportLeavesOutTheDirectoryOfAnotherOneBelowIt) {
  Loop loop;
  const auto error_of_lookup = [&](const server::Export& each) {
    std::optional<std::optional<fs::Error>> error;
    const auto look_up = [&]() -> Task<> {
      const fs::RequestContext root{fs::ceph::kAsRoot, &loop};
      const auto found = co_await each.file_system->Lookup(root, each.file_system->Root(), "file");
      error = found.result ? std::nullopt : std::optional(found.result.error());
    };
    const asio::executor_work_guard<asio::io_context::executor_type> work(loop.context().get_executor());
    Spawn(look_up());
    while (!error) loop.context().run_one();
    return *error;
  };
  ASSERT_TRUE(Open({Spec("/a", "ceph:/x"), Spec("/b", "ceph:/other")}));
  EXPECT_EQ(error_of_lookup(last_[0]), std::nullopt);
  const auto before = last_[0].file_system;
  ASSERT_TRUE(Open({Spec("/a", "ceph:/x"), Spec("/b", "ceph:/x/file?user=other")}));
  EXPECT_NE(last_[0].file_system, before);
  EXPECT_EQ(error_of_lookup(last_[0]), fs::Error::kCovered);
  EXPECT_EQ(error_of_lookup(last_[1]), std::nullopt);
}

TEST_F(ServedCephfsTest, AClusterThatIsGoneKeepsNoOtherExportOfATableFromBeingServed) {
  cluster_->mounts = false;
  const auto opened = Open({Spec("/a", directory_.path(), "exports:1"), Spec("/b", "ceph:/x", "exports:2")});
  ASSERT_TRUE(opened) << opened.error().message;
  EXPECT_EQ(opened->size(), 1u);
  ASSERT_EQ(findings_.size(), 1u);
  EXPECT_EQ(ToString(findings_.front()), "exports:2: warning: /b is not exported: the cluster accepts nobody");
}

TEST_F(ServedCephfsTest, OnTheCommandLineAClusterThatIsGoneIsAnError) {
  cluster_->mounts = false;
  const auto opened = Open({Spec("/b", "ceph:/x")});
  ASSERT_FALSE(opened);
  EXPECT_THAT(opened.error().message, HasSubstr("the cluster accepts nobody"));
}

TEST_F(ServedCephfsTest, TellsWhyTheModuleIsNotThere) {
  has_module_ = false;
  const auto opened = Open({Spec("/b", "ceph:/x")});
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().message, "ceph:/x: no module");
}

}  // namespace
}  // namespace penstock::cli
