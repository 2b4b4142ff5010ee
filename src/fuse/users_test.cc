// Tests of the mounts of a tree's users.
#include "fuse/users.h"

#include <gtest/gtest.h>

#include <optional>

#include "client/mount_test_support.h"

namespace penstock::fuse {
namespace {

using std::chrono::milliseconds;

class UsersTest : public client::MountTestBase {
 protected:
  UsersTest() : MountTestBase(client::TestService::Options()) {
    Open(UrlOf(client::Version::k42));
    const auto open = [this](User user) -> Task<client::Result<std::unique_ptr<client::Mount>>> {
      client::Url url = UrlOf(client::Version::k42);
      url.uid = user.uid;
      url.gid = user.gid;
      co_return co_await client::Mount::Open(loop, workers, url, options);
    };
    users.emplace(loop, *mount, User{.uid = 7, .gid = 7, .groups = {}}, open, milliseconds(20));
  }
  ~UsersTest() override {
    Run(users->Unmount());
    Unmount();
  }

  size_t Clients() const { return service.CountCalls(client::CompoundsWith(nfs4::nfs_opnum4::OP_EXCHANGE_ID)); }
  size_t Ended() const { return service.CountCalls(client::CompoundsWith(nfs4::nfs_opnum4::OP_DESTROY_CLIENTID)); }
  Users::MountPointer MountOf(uint32_t uid) { return Do(users->MountOf({.uid = uid, .gid = uid, .groups = {}})); }

  std::optional<Users> users;
};

TEST_F(UsersTest, EachUserHasOneMount) {
  EXPECT_EQ(MountOf(7).get(), mount.get());
  const Users::MountPointer first = MountOf(1);
  EXPECT_EQ(MountOf(1), first);
  EXPECT_NE(MountOf(2), first);
  EXPECT_EQ(Clients(), 3u);
}

TEST_F(UsersTest, AMountThatNobodyHoldsIsUnmountedAfterAWhileAndOpenedAgain) {
  Users::MountPointer held = MountOf(1);
  MountOf(2);
  EXPECT_TRUE(TurnUntil(loop, [&] { return Ended() == 1; }));
  EXPECT_TRUE(Run(held->Ping()));
  EXPECT_EQ(MountOf(1), held);
  EXPECT_EQ(Clients(), 3u);
  held.reset();
  EXPECT_TRUE(TurnUntil(loop, [&] { return Ended() == 2; }));
  EXPECT_TRUE(Run(MountOf(1)->Ping()));
  EXPECT_EQ(Clients(), 4u);
}

TEST_F(UsersTest, AbortEndsAlsoAMountThatIsBeingUnmounted) {
  const auto ending = client::CompoundsWith(nfs4::nfs_opnum4::OP_DESTROY_SESSION);
  service.HoldCall(ending);
  MountOf(1);
  EXPECT_TRUE(TurnUntil(loop, [&] { return service.CountCalls(ending) == 1; }));
  users->Abort();
  Run(users->Unmount());
}

}  // namespace
}  // namespace penstock::fuse
