// Tests of files that are opened for more while they are open.
#include <gmock/gmock.h>

#include <cerrno>

#include "client/mount_test_support.h"
#include "protocol/nfs4.h"

namespace penstock::client::v4 {
namespace {

using namespace std::chrono_literals;

class WidenTest : public MountTestBase, public testing::WithParamInterface<Version> {
 protected:
  WidenTest() : MountTestBase({.lease = 2s}) {
    Open(UrlOf(GetParam()));
    Do(Create("file", "contents")->Close());
    file = OpenFile("file", Access::kRead);
    Do(file->Lock("one", {0, 10}, LockKind::kShared));
  }
  static bool opens_by_name() { return GetParam() == Version::k40; }
  Node Now(std::string_view name) { return Do(mount->Lookup(root(), name)); }
  // Whether another open file gets a lock.
  bool IsFree(std::string_view name, LockKind kind) {
    const auto other = OpenFile(name);
    const bool locked = Run(other->Lock("two", {0, 10}, kind)).has_value();
    Do(other->Close());
    return locked;
  }
  size_t Count(nfs4::nfs_opnum4 operation) const { return service.CountCalls(CompoundsWith(operation)); }

  std::unique_ptr<File> file;
};
INSTANTIATE_TEST_SUITE_P(Version, WidenTest, testing::Values(Version::k40, Version::k41, Version::k42),
                         [](const auto& test) { return NameOf(test.param); });

TEST_P(WidenTest, AnOwnerWithASharedLockGetsAnExclusiveOne) {
  EXPECT_EQ(ErrorOf(file->Lock("one", {0, 10}, LockKind::kExclusive)).number, EBADF);
  Do(file->Widen(Now("file")));
  EXPECT_TRUE(IsFree("file", LockKind::kShared)) << "the lock is still a shared one";
  EXPECT_FALSE(IsFree("file", LockKind::kExclusive)) << "and it is there";
  Do(file->Lock("one", {0, 10}, LockKind::kExclusive));
  EXPECT_FALSE(IsFree("file", LockKind::kShared));
  EXPECT_TRUE(Write(*file, "CONT"));
  EXPECT_EQ(Read(*file), "CONTents");
  Do(file->Close());
  EXPECT_TRUE(IsFree("file", LockKind::kExclusive));
}

TEST_P(WidenTest, TheServerIsAskedOnce) {
  const size_t before = Count(nfs4::nfs_opnum4::OP_OPEN);
  for (int i = 0; i < 3; ++i) Do(file->Widen(Now("file")));
  EXPECT_EQ(Count(nfs4::nfs_opnum4::OP_OPEN), before + 1);
  Do(file->Close());
}

TEST_P(WidenTest, AWidenedFileIsReclaimed) {
  Do(file->Widen(Now("file")));
  Do(file->Lock("one", {0, 10}, LockKind::kExclusive));
  service.Restart();
  EXPECT_TRUE(Write(*file, "CONT"));
  EXPECT_FALSE(IsFree("file", LockKind::kShared));
  Do(file->Close());
}

TEST_P(WidenTest, ARenamedFileIsOpenedByItsNewName) {
  Do(mount->Rename(root(), "file", root(), "renamed"));
  Do(Create("file", "another one")->Close());
  Do(file->Widen(Now("renamed")));
  Do(file->Lock("one", {0, 10}, LockKind::kExclusive));
  EXPECT_FALSE(IsFree("renamed", LockKind::kShared));
  EXPECT_TRUE(IsFree("file", LockKind::kExclusive));
  Do(file->Close());
}

// Another client has renamed or removed it. Minor version 0 has nothing but the name.
TEST_P(WidenTest, AFileWhoseNameLeadsElsewhereStaysAsItIs) {
  const Node before = Now("file");
  Do(mount->Rename(root(), "file", root(), "renamed"));
  for (const bool is_another : {false, true}) {
    if (is_another) Do(Create("file", "another one")->Close());
    const size_t closed = Count(nfs4::nfs_opnum4::OP_CLOSE);
    const Result<void> widened = Run(file->Widen(before));
    EXPECT_EQ(widened.has_value(), !opens_by_name());
    if (widened) continue;
    EXPECT_EQ(widened.error().status, Status::kNotSupported);
    EXPECT_EQ(Count(nfs4::nfs_opnum4::OP_CLOSE), closed + (is_another ? 1 : 0)) << "the other file is closed";
    EXPECT_EQ(Read(*file), "contents");
    EXPECT_FALSE(Write(*file, "CONT"));
  }
  EXPECT_FALSE(IsFree("renamed", LockKind::kExclusive));
  Do(file->Unlock("one", {0, 10}));
  EXPECT_TRUE(IsFree("renamed", LockKind::kExclusive));
  Do(file->Close());
}

}  // namespace
}  // namespace penstock::client::v4
