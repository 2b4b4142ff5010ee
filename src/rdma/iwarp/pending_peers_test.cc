#include "rdma/iwarp/pending_peers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace penstock::rdma::iwarp {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

struct PendingPeersTest : testing::Test {
  using Place = std::unique_ptr<PendingPeers::Place>;

  Place Add(const char* address, std::string name) {
    return peers.Add(asio::ip::make_address(address), [this, name = std::move(name)] { dropped.push_back(name); });
  }

  std::vector<std::string> dropped;
  PendingPeers peers{4};
};

TEST_F(PendingPeersTest, DropsNoPeerWhilePlacesAreFree) {
  const Place a = Add("10.0.0.1", "a"), b = Add("10.0.0.1", "b"), c = Add("10.0.0.1", "c");
  Place d = Add("10.0.0.1", "d");
  d.reset();
  const Place e = Add("10.0.0.1", "e");
  EXPECT_THAT(dropped, IsEmpty());
  EXPECT_EQ(peers.size(), 4u);
}

TEST_F(PendingPeersTest, DropsTheOldestPeerOfTheHostWithMostPeers) {
  const Place other = Add("10.0.0.2", "other");
  const Place a = Add("10.0.0.1", "a"), b = Add("10.0.0.1", "b"), c = Add("10.0.0.1", "c");
  const Place third = Add("10.0.0.3", "third");
  EXPECT_THAT(dropped, ElementsAre("a"));
  const Place fourth = Add("10.0.0.4", "fourth");
  EXPECT_THAT(dropped, ElementsAre("a", "b"));
  EXPECT_EQ(peers.size(), 4u);
}

TEST_F(PendingPeersTest, CountsTheNewPeerForItsHost) {
  const Place a = Add("10.0.0.1", "a"), b = Add("10.0.0.2", "b");
  const Place c = Add("10.0.0.1", "c"), d = Add("10.0.0.2", "d");
  const Place e = Add("10.0.0.2", "e");
  EXPECT_THAT(dropped, ElementsAre("b"));
  const Place f = Add("10.0.0.1", "f");
  EXPECT_THAT(dropped, ElementsAre("b", "a"));
}

TEST_F(PendingPeersTest, DropsTheOldestPeerOfAllIfHostsHaveEqualCounts) {
  const Place a = Add("10.0.0.9", "a"), b = Add("10.0.0.8", "b"), c = Add("10.0.0.7", "c"), d = Add("10.0.0.6", "d");
  const Place e = Add("10.0.0.5", "e");
  EXPECT_THAT(dropped, ElementsAre("a"));
}

TEST_F(PendingPeersTest, CountsAddressesOfOneHostTogether) {
  const Place other = Add("2001:db8:1:3::1", "other");
  const Place a = Add("2001:db8:1:2::1", "a"), b = Add("2001:db8:1:2::2", "b");
  const Place c = Add("10.0.0.1", "c");
  const Place d = Add("::ffff:10.0.0.1", "d");
  EXPECT_THAT(dropped, ElementsAre("a"));
}

TEST_F(PendingPeersTest, NewCallbackKeepsTheAgeOfThePlace) {
  const Place a = Add("10.0.0.1", "coming in");
  const Place b = Add("10.0.0.1", "b"), c = Add("10.0.0.1", "c"), d = Add("10.0.0.1", "d");
  a->set_on_dropped([this] { dropped.emplace_back("come in"); });
  const Place e = Add("10.0.0.1", "e");
  EXPECT_THAT(dropped, ElementsAre("come in"));
}

TEST_F(PendingPeersTest, CallbackMayDestroyItsPlace) {
  Place a = Add("10.0.0.1", "a");
  a->set_on_dropped([&] { a.reset(); });
  const Place b = Add("10.0.0.1", "b"), c = Add("10.0.0.1", "c"), d = Add("10.0.0.1", "d"), e = Add("10.0.0.1", "e");
  EXPECT_FALSE(a);
  EXPECT_EQ(peers.size(), 4u);
}

TEST_F(PendingPeersTest, DropOneDropsAllPeersOneByOne) {
  const Place a = Add("10.0.0.1", "a"), b = Add("10.0.0.2", "b"), c = Add("10.0.0.2", "c");
  while (peers.DropOne()) {
  }
  EXPECT_THAT(dropped, ElementsAre("b", "a", "c"));
  EXPECT_EQ(peers.size(), 0u);
}

}  // namespace
}  // namespace penstock::rdma::iwarp
