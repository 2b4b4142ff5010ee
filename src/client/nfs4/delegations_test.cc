// Delegations that OPEN gives, and those of a file system that moves, between the client and the server of this
// library. See also recall_any_test.cc, and src/server/delegations_test.cc.
#include <gtest/gtest.h>

#include <memory>
#include <optional>

#include "base/signal.h"
#include "client/mount_test_support.h"

namespace penstock::client::v4 {
namespace {

using namespace std::chrono_literals;
using nfs4::nfs_opnum4;

// The server gives a delegation instead of an open (RFC 9754 §4).
class DelegatedInsteadTest : public MountTestBase {
 protected:
  DelegatedInsteadTest() : MountTestBase({.delegations = 10}) {
    Open(UrlOf(Version::k42));
    Do(Create("file", "text")->Close());
    Do(Create("other")->Close());
    Do(Create("more")->Close());
    Unmount();
    Open(UrlOf(Version::k42));
    file = Do(mount->Lookup(root(), "file"));
    opens = Count(nfs_opnum4::OP_OPEN);
    returns = Count(nfs_opnum4::OP_DELEGRETURN);
  }
  ~DelegatedInsteadTest() override {
    opened.reset();
    Unmount();
  }

  size_t Count(nfs_opnum4 operation) const { return service.CountCalls(CompoundsWith(operation)); }
  // Opens the file. The reply comes when `meanwhile` has returned.
  template <class Meanwhile>
  void OpenFileDuring(Meanwhile meanwhile) {
    Signal may_come;
    service.DelayReply(CompoundsWith(nfs_opnum4::OP_OPEN), [&]() -> Task<void> { co_await may_come; });
    std::optional<Result<std::unique_ptr<File>>> out;
    Spawn([](Mount& of, const Node& node, std::optional<Result<std::unique_ptr<File>>>& result) -> Task<void> {
      result.emplace(co_await of.OpenFile(node, "file", Access::kBoth));
    }(*mount, file, out));
    EXPECT_TRUE(TurnUntil(loop, [&] { return Count(nfs_opnum4::OP_OPEN) == opens + 1; }));
    TurnFor(loop, 10ms);
    meanwhile();
    may_come.Notify();
    EXPECT_TRUE(TurnUntil(loop, [&] { return out.has_value(); }));
    opened = *std::move(*out);
  }
  // Whether the client knows the attributes without a call.
  bool KnowsAttributes() {
    const size_t before = Count(nfs_opnum4::OP_GETATTR);
    Do(mount->GetAttributes(file.handle, "file"));
    return Count(nfs_opnum4::OP_GETATTR) == before;
  }

  Node file;
  std::unique_ptr<File> opened;
  size_t opens = 0;  // before the test
  size_t returns = 0;
};

TEST_F(DelegatedInsteadTest, IsKeptIfANameChangesWhileTheOpenIsUnderWay) {
  const size_t asked = Count(nfs_opnum4::OP_GETATTR);
  OpenFileDuring([&] { Do(mount->Rename(root(), "other", root(), "more")); });
  EXPECT_TRUE(TurnUntil(loop, [&] { return Count(nfs_opnum4::OP_GETATTR) == asked + 1; }));
  TurnFor(loop, 10ms);
  EXPECT_TRUE(KnowsAttributes());
  EXPECT_EQ(MountTestBase::Read(*opened), "text");
  Do(opened->Close());
  EXPECT_EQ(Count(nfs_opnum4::OP_OPEN), opens + 1);
  EXPECT_EQ(Count(nfs_opnum4::OP_CLOSE), 0u);
  EXPECT_EQ(Count(nfs_opnum4::OP_DELEGRETURN), returns);
}

TEST_F(DelegatedInsteadTest, IsReturnedIfTheAttributesCannotBeFoundOut) {
  OpenFileDuring([&] {
    Do(mount->Rename(root(), "other", root(), "more"));
    service.FailOperation(nfs_opnum4::OP_GETATTR, nfs4::nfsstat4::NFS4ERR_IO);
  });
  EXPECT_TRUE(TurnUntil(loop, [&] { return Count(nfs_opnum4::OP_DELEGRETURN) == returns + 1; }));
  EXPECT_EQ(Count(nfs_opnum4::OP_OPEN), opens + 2) << "the open is claimed";
  EXPECT_EQ(MountTestBase::Read(*opened), "text");
  Do(opened->Close());
}

}  // namespace
}  // namespace penstock::client::v4
