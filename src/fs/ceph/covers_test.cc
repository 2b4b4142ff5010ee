#include "fs/ceph/covers.h"

#include <gtest/gtest.h>

#include "fs/ceph/test_client.h"

namespace penstock::fs::ceph {
namespace {

class CephCoversTest : public testing::Test {
 protected:
  SetupResult<Covers> Make(std::vector<std::string> paths) {
    Inode* root = nullptr;
    EXPECT_GE(client_.Root(root), 0);
    auto covers = Covers::Make(client_, root, paths);
    client_.Put(root);
    return covers;
  }
  const std::shared_ptr<TestCluster> cluster_ = std::make_shared<TestCluster>();
  TestClient client_{cluster_};
};

TEST_F(CephCoversTest, ADirectoryIsCoveredInEverySnapshotAndSoIsItsPlace) {
  const auto covers = Make({"file"});
  ASSERT_TRUE(covers);
  EXPECT_TRUE(covers->Has(TestCluster::kFile));
  EXPECT_TRUE(covers->Has({TestCluster::kFile.ino, 5}));
  EXPECT_FALSE(covers->Has(TestCluster::kRoot));
  EXPECT_TRUE(covers->HasPlace(TestCluster::kRoot, "file"));
  EXPECT_TRUE(covers->HasPlace({TestCluster::kRoot.ino, 5}, "file"));
  EXPECT_FALSE(covers->HasPlace(TestCluster::kRoot, "other"));
  EXPECT_FALSE(covers->HasPlace(TestCluster::kFile, "file"));
  EXPECT_EQ(cluster_->references, 0u);
}

TEST_F(CephCoversTest, TheFirstMissingComponentOfAPathIsCovered) {
  for (const char* path : {"missing", "missing/below"}) {
    const auto covers = Make({path});
    ASSERT_TRUE(covers);
    EXPECT_TRUE(covers->HasPlace(TestCluster::kRoot, "missing"));
    EXPECT_FALSE(*covers == *Make({"file"}));
  }
  EXPECT_EQ(cluster_->references, 0u);
}

TEST_F(CephCoversTest, ASnapshotMayHaveTheNameOfACoveredDirectory) {
  const auto covers = Make({"file"});
  ASSERT_TRUE(covers);
  EXPECT_FALSE(covers->HasPlace({TestCluster::kRoot.ino, kSnapshotDirectory}, "file"));
}

TEST_F(CephCoversTest, KnowsTheDirectoriesAboveACoveredOne) {
  const auto covers = Make({"file"});
  ASSERT_TRUE(covers);
  EXPECT_TRUE(covers->IsAbove(TestCluster::kRoot));
  EXPECT_FALSE(covers->IsAbove(TestCluster::kFile));
}

TEST_F(CephCoversTest, AnErrorOfTheClusterIsAnError) {
  Inode* root = nullptr;
  ASSERT_GE(client_.Root(root), 0);
  cluster_->error = -EIO;
  const auto covers = Covers::Make(client_, root, std::vector<std::string>{"file"});
  ASSERT_FALSE(covers);
  EXPECT_NE(covers.error().message.find("file"), std::string::npos);
  client_.Put(root);
}

}  // namespace
}  // namespace penstock::fs::ceph
