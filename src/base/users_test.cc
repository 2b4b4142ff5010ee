#include "base/users.h"

#include <gtest/gtest.h>

namespace penstock {
namespace {

TEST(Users, FindsTheHostsUsers) {
  const Found<User> root = FindUserNamed("root");
  ASSERT_TRUE(root && *root);
  EXPECT_EQ((*root)->uid, 0u);
  EXPECT_EQ((*root)->gid, 0u);
  EXPECT_EQ((*FindUser(0))->name, "root");
  EXPECT_FALSE(FindUserNamed("nobody is called like this").value());
  EXPECT_FALSE(FindUser(0xFFFF'FFF0).value());
}

TEST(Groups, FindsTheHostsGroups) {
  EXPECT_EQ((*FindGroupNamed("root"))->gid, 0u);
  EXPECT_EQ((*FindGroup(0))->name, "root");
  EXPECT_FALSE(FindGroupNamed("nobody is called like this").value());
  EXPECT_FALSE(FindGroup(0xFFFF'FFF0).value());
}

}  // namespace
}  // namespace penstock
