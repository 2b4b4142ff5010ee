// Tests of the client of a server that revokes its state (RFC 8881 §8.5, §18.46.3).
#include <gtest/gtest.h>

#include <array>
#include <cerrno>

#include "client/mount_test_support.h"
#include "protocol/nfs4.h"

namespace penstock::client::v4 {
namespace {

using namespace std::chrono_literals;
using nfs4::nfs_opnum4;

class RevokedStateTest : public MountTestBase, public testing::WithParamInterface<Version> {
 protected:
  RevokedStateTest() : MountTestBase({.lease = 2s}) {
    options.delegations = 0;
    Open(UrlOf(GetParam()));
  }
  ~RevokedStateTest() override { Unmount(); }

  size_t frees() const { return service.CountCalls(CompoundsWith(nfs_opnum4::OP_FREE_STATEID)); }
  size_t tests() const { return service.CountCalls(CompoundsWith(nfs_opnum4::OP_TEST_STATEID)); }
  // The server revokes everything, and says so.
  void Revoke() {
    service.RevokeState();
    service.SetStatusFlags(nfs4::SEQ4_STATUS_ADMIN_STATE_REVOKED);
  }
};
INSTANTIATE_TEST_SUITE_P(Version, RevokedStateTest, testing::Values(Version::k41, Version::k42),
                         [](const auto& test) { return NameOf(test.param); });

TEST_P(RevokedStateTest, OpensAndLocksThatNobodyUsesAreAcknowledged) {
  const auto unlocked = Create("unlocked", "text");
  const auto locked = Create("locked", "text");
  Do(locked->Lock("one", {0, 4}, LockKind::kExclusive));
  Do(locked->Lock("two", {4, 4}, LockKind::kExclusive));
  Do(locked->Unlock("two", {4, 4}));
  Revoke();
  Do(mount->GetAttributes(root(), "root"));
  EXPECT_TRUE(TurnUntil(loop, [&] { return frees() == 4; })) << "two opens, and the locks of two owners";
  service.SetStatusFlags(0);
  EXPECT_EQ(Read(*unlocked), "text") << "it is opened again";
  std::array<std::byte, 4> octets{};
  EXPECT_EQ(ErrorOf(locked->Read(0, octets)).number, ENOLCK);
  EXPECT_EQ(ErrorOf(locked->Lock("one", {0, 4}, LockKind::kExclusive)).number, ENOLCK);
  EXPECT_EQ(Read(*locked), "text");
  Do(unlocked->Close());
  Do(locked->Close());
  EXPECT_EQ(frees(), 4u);
}

TEST_P(RevokedStateTest, AnOpenThatAUseFindsRevokedIsAcknowledged) {
  const auto used = Create("used", "text");
  const auto closed = Create("closed", "text");
  Do(closed->Lock("owner", {0, 4}, LockKind::kExclusive));
  service.RevokeState();
  EXPECT_EQ(Read(*used), "text");
  EXPECT_TRUE(TurnUntil(loop, [&] { return frees() == 1; }));
  Do(closed->Close());
  EXPECT_TRUE(TurnUntil(loop, [&] { return frees() == 3; })) << "the open and its locks";
  Do(used->Close());
}

TEST_P(RevokedStateTest, AFlagAboutOtherStateIsLookedIntoSeldom) {
  const auto file = Create("file", "text");
  service.SetStatusFlags(nfs4::SEQ4_STATUS_ADMIN_STATE_REVOKED);
  for (int i = 0; i < 100; ++i) Do(mount->GetAttributes(root(), "root"));
  EXPECT_EQ(tests(), 1u);
  EXPECT_TRUE(TurnUntil(loop, [&] { return tests() > 1; })) << "after half a lease time";
  EXPECT_EQ(frees(), 0u);
  Do(file->Close());
}

}  // namespace
}  // namespace penstock::client::v4
