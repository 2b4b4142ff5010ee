#include "fs/posix/identity.h"

#include <gtest/gtest.h>
#include <sys/fsuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <thread>

namespace penstock::fs::posix {
namespace {

// The thread belongs to the host of the library. With new credentials, even of the same contents, it and the threads
// that it starts could not use RDMA devices that are open.
TEST(ServerIdentity, TheThreadThatAsksKeepsItsCredentials) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root acts as others";
  std::thread([] {
    // Only this thread: glibc would change all of them.
    constexpr std::array<gid_t, 2> kGroups{12, 12345};
    ASSERT_EQ(::syscall(SYS_setgroups, kGroups.size(), kGroups.data()), 0);
    const ServerIdentity identity;
    std::array<gid_t, 3> groups{};
    ASSERT_EQ(::getgroups(groups.size(), groups.data()), 2);
    EXPECT_EQ(groups[0], 12u);
    EXPECT_EQ(groups[1], 12345u);
    EXPECT_EQ(::setfsuid(static_cast<uid_t>(-1)), 0);
    EXPECT_EQ(::setfsgid(static_cast<gid_t>(-1)), 0);
  }).join();
}

TEST(ServerIdentity, RootActsAsItsCallersUnlessAnotherRuleIsGiven) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root acts as others";
  EXPECT_TRUE(ServerIdentity().acts_as_callers());
  EXPECT_FALSE(ServerIdentity(CallerRights::kChecked).acts_as_callers());
  EXPECT_FALSE(ServerIdentity(CallerRights::kOfServer).acts_as_callers());
}

}  // namespace
}  // namespace penstock::fs::posix
