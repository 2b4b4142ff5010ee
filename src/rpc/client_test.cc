#include "rpc/client.h"

#include <gtest/gtest.h>

namespace penstock::rpc {
namespace {

TEST(RandomXid, DiffersEachTime) { EXPECT_FALSE(RandomXid() == RandomXid() && RandomXid() == RandomXid()); }

}  // namespace
}  // namespace penstock::rpc
