#include "fs/ceph/handles.h"

#include <gtest/gtest.h>

#include "fs/ceph/test_client.h"
#include "fs/suite/fixture.h"

namespace penstock::fs::ceph {
namespace {

constexpr InodeNumber kRoot{1, kNoSnapshot};
constexpr InodeNumber kLive{0x10000000001, kNoSnapshot};
constexpr InodeNumber kOld{0x10000000001, 2};

TEST(CephHandlesTest, AHandleLeadsToItsInodeAndSnapshot) {
  const Handles handles({1, 2}, "/export", kRoot, 7);
  for (const InodeNumber& number : {kRoot, kLive, kOld}) EXPECT_EQ(handles.NumberOf(handles.Of(number)), number);
  EXPECT_NE(*handles.Identify(handles.Of(kLive)), *handles.Identify(handles.Of(kOld)));
}

TEST(CephHandlesTest, ServersWithOneKeyUnderstandEachOther) {
  const Handles one({1, 2}, "/export", kRoot, 7), two({1, 2}, "/export", kRoot, 7);
  EXPECT_EQ(one.Of(kLive), two.Of(kLive));
}

TEST(CephHandlesTest, AnotherExportOrKeyOrRootRefusesTheHandle) {
  const Handles handles({1, 2}, "/export", kRoot, 7);
  for (const Handles& other : {Handles({1, 2}, "/other", kRoot, 7), Handles({1, 3}, "/export", kRoot, 7),
                               Handles({1, 2}, "/export", kLive, 7)}) {
    EXPECT_EQ(suite::ErrorOf(other.NumberOf(handles.Of(kLive))), Error::kBadHandle);
  }
}

TEST(CephHandlesTest, AHandleIsStaleWhenOtherDirectoriesAreCovered) {
  const std::vector<std::byte> some{std::byte{1}}, others{std::byte{2}};
  const Handles none({1, 2}, "/export", kRoot, 7), one({1, 2}, "/export", kRoot, 7, some),
      other({1, 2}, "/export", kRoot, 7, others);
  EXPECT_EQ(one.NumberOf(one.Of(kLive)), kLive);
  for (const Handles* each : {&none, &other}) {
    EXPECT_EQ(suite::ErrorOf(one.NumberOf(each->Of(kLive))), Error::kStale);
    EXPECT_EQ(suite::ErrorOf(each->NumberOf(one.Of(kLive))), Error::kStale);
  }
  EXPECT_EQ(*one.Identify(one.Of(kLive)), *none.Identify(none.Of(kLive)));
}

TEST(CephHandlesTest, EveryChangedOctetIsRefused) {
  const Handles handles({1, 2}, "/export", kRoot, 7);
  for (const InodeNumber& number : {kLive, kOld}) {
    const Handle handle = handles.Of(number);
    for (size_t i = 0; i < handle.size(); ++i) {
      std::vector<std::byte> octets(handle.bytes().begin(), handle.bytes().end());
      octets[i] ^= std::byte{1};
      EXPECT_FALSE(handles.NumberOf(*Handle::FromBytes(octets))) << i;
      EXPECT_FALSE(handles.NumberOf(*Handle::FromBytes(handle.bytes().first(i)))) << i;
    }
  }
}

TEST(CephHandlesTest, TheKeyIsMadeOnceAndKept) {
  const auto cluster = std::make_shared<TestCluster>();
  TestClient one(cluster), two(cluster);
  const auto key = LoadHandleKey(one, nullptr);
  ASSERT_TRUE(key);
  EXPECT_EQ(*LoadHandleKey(two, nullptr), *key);
}

TEST(CephHandlesTest, TwoServersThatMakeAKeyAtTheSameTimeUseTheFirstOne) {
  const auto cluster = std::make_shared<TestCluster>();
  TestClient one(cluster), two(cluster);
  SipKey first{};
  cluster->before_set = [&] { first = *LoadHandleKey(two, nullptr); };
  EXPECT_EQ(*LoadHandleKey(one, nullptr), first);
}

TEST(CephHandlesTest, ADamagedKeyIsAnError) {
  const auto cluster = std::make_shared<TestCluster>();
  cluster->xattrs[kHandleKey].resize(5);
  TestClient client(cluster);
  const auto key = LoadHandleKey(client, nullptr);
  ASSERT_FALSE(key);
  EXPECT_NE(key.error().message.find(kHandleKey), std::string::npos);
}

}  // namespace
}  // namespace penstock::fs::ceph
