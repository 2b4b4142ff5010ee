// CB_RECALL_ANY (RFC 8881 §20.6) between the client and the server of this library: the server limits its delegations,
// and the client chooses those that it returns.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/task.h"
#include "client/mount_test_support.h"

namespace penstock::client::v4 {
namespace {

using nfs4::nfs_opnum4;

// The server asks for delegations when there are fourteen, and is content with twelve.
class RecallAnyTest : public MountTestBase, public testing::WithParamInterface<Version> {
 protected:
  RecallAnyTest() : MountTestBase({.delegations = 16}) { Open(UrlOf(GetParam())); }
  ~RecallAnyTest() override {
    if (!bystander) return;
    std::swap(mount, bystander);
    Unmount();
    std::swap(mount, bystander);
  }

  // Another client gets delegations of two files.
  void AddBystander() {
    bystander = *TryToOpen(UrlOf(GetParam()));
    for (const char* const name : {"its first", "its second"}) {
      const auto file = Do(bystander->CreateFile(bystander->root(), name, 0644));
      Do(file->Close());
      kept.push_back(Do(bystander->Lookup(bystander->root(), name)).handle);
      Do(bystander->GetAttributes(kept.back(), name));
    }
    ASSERT_EQ(service.delegations(), 2u);
  }
  void CreateFiles(size_t count) {
    for (size_t i = 0; i < count; ++i) {
      const std::string name = "file " + std::to_string(files.size());
      Do(Create(name)->Close());
      files.push_back(Do(mount->Lookup(root(), name)).handle);
    }
  }
  // Whether a mount knows the attributes of a file without a call: it has a delegation.
  bool Knows(Mount& by, const Handle& file) {
    const auto count = [&] { return service.CountCalls(CompoundsWith(nfs_opnum4::OP_GETATTR)); };
    Do(by.GetAttributes(file, "file"));
    const size_t before = count();
    Do(by.GetAttributes(file, "file"));
    return count() == before;
  }
  size_t Returns() const { return service.CountCalls(CompoundsWith(nfs_opnum4::OP_DELEGRETURN)); }

  std::unique_ptr<Mount> bystander;
  std::vector<Handle> kept;   // the files of the bystander
  std::vector<Handle> files;  // those of the hoarder
};
INSTANTIATE_TEST_SUITE_P(Version, RecallAnyTest, testing::Values(Version::k41, Version::k42),
                         [](const auto& test) { return NameOf(test.param); });

TEST_P(RecallAnyTest, TheHoarderReturnsItsLeastRecentlyUsedDelegations) {
  AddBystander();
  CreateFiles(11);
  Do(mount->GetAttributes(files[0], "file"));  // so that it is not the least recently used one
  EXPECT_EQ(Returns(), 0u);
  CreateFiles(1);
  ASSERT_TRUE(TurnUntil(loop, [&] { return service.delegations() == 12; }));
  EXPECT_EQ(Returns(), 2u);
  EXPECT_TRUE(Knows(*mount, files[0]));
  EXPECT_FALSE(Knows(*mount, files[1]));
  EXPECT_FALSE(Knows(*mount, files[2]));
  for (size_t i = 3; i < files.size(); ++i) EXPECT_TRUE(Knows(*mount, files[i])) << i;
  for (const Handle& file : kept) EXPECT_TRUE(Knows(*bystander, file));
}

TEST_P(RecallAnyTest, OpenFilesStayOpenWhenTheirDelegationsAreReturned) {
  std::vector<std::unique_ptr<File>> open;
  for (size_t i = 0; i < 14; ++i) open.push_back(Create("open " + std::to_string(i), "text"));
  ASSERT_TRUE(TurnUntil(loop, [&] { return service.delegations() == 12; }));
  for (const auto& file : open) {
    EXPECT_EQ(Read(*file), "text");
    Do(file->Close());
  }
}

TEST_P(RecallAnyTest, TheHoarderGetsNewDelegationsAfterwards) {
  CreateFiles(14);
  ASSERT_TRUE(TurnUntil(loop, [&] { return service.delegations() == 12; }));
  // The server notices that the pressure is over when it looks again.
  ASSERT_TRUE(TurnUntil(loop, [&] {
    CreateFiles(1);
    return service.delegations() == 13;
  }));
}

// The server counts a delegation when it executes the OPEN, and the client when it gets the reply.
TEST_P(RecallAnyTest, ADelegationWhoseReplyIsOnItsWayCounts) {
  CreateFiles(13);
  OneShot<> released;
  service.DelayReply(CompoundsWith(nfs_opnum4::OP_OPEN), [&]() -> Task<void> { co_await released; });
  std::unique_ptr<File> last;
  Spawn([](Mount& by, std::unique_ptr<File>& out) -> Task<void> {
    auto created = co_await by.CreateFile(by.root(), "last", 0644);
    EXPECT_TRUE(created);
    if (created) out = *std::move(created);
  }(*mount, last));
  ASSERT_TRUE(TurnUntil(loop, [&] { return Returns() == 1; }));
  EXPECT_EQ(service.delegations(), 13u);
  released.Set();
  ASSERT_TRUE(TurnUntil(loop, [&] { return last != nullptr; }));
  EXPECT_TRUE(TurnUntil(loop, [&] { return service.delegations() == 12; }));
  Do(last->Close());
}

}  // namespace
}  // namespace penstock::client::v4
