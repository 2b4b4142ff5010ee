#include "rpc/connection_table.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace penstock::rpc {
namespace {

using namespace std::chrono_literals;
using Refusal = ConnectionTable::Refusal;

class ConnectionTableTest : public testing::Test {
 protected:
  // Returns the place of an idle connection, or null if it is refused.
  std::unique_ptr<ConnectionTable::Place> Admit(const char* address) {
    auto [place, refusal] = table_.Admit(asio::ip::make_address(address), now_);
    last_ = refusal;
    if (!place) return nullptr;
    place->set_on_evicted([this, name = std::string(address)] { evicted_.push_back(name); });
    place->HandleIdle(now_);
    return std::move(place);
  }

  ConnectionTable table_{{.connections = 4, .per_address = 2, .idle_limit = 10s}};
  TimePoint now_{1h};
  Refusal last_ = Refusal::kNone;
  std::vector<std::string> evicted_;
};

TEST_F(ConnectionTableTest, EnforcesTheLimitsOfAnAddressAndOfTheServer) {
  auto a = Admit("10.0.0.1"), b = Admit("10.0.0.1");
  EXPECT_FALSE(Admit("10.0.0.1"));
  EXPECT_EQ(last_, Refusal::kAddressFull);
  auto c = Admit("10.0.0.2"), d = Admit("10.0.0.3");
  EXPECT_EQ(table_.connections(), 4u);
  EXPECT_FALSE(Admit("10.0.0.4"));
  EXPECT_EQ(last_, Refusal::kServerFull);
  a.reset();
  EXPECT_TRUE(Admit("10.0.0.4"));
  EXPECT_TRUE(Admit("10.0.0.1"));
  EXPECT_TRUE(evicted_.empty());
}

TEST_F(ConnectionTableTest, FullServerEvictsTheLongestIdleConnection) {
  auto a = Admit("10.0.0.1");
  now_ += 1s;
  auto b = Admit("10.0.0.2"), c = Admit("10.0.0.3"), d = Admit("10.0.0.4");
  now_ += 8s;
  EXPECT_FALSE(Admit("10.0.0.5")) << "none has been idle for long enough";
  now_ += 1s;
  auto e = Admit("10.0.0.5");
  EXPECT_TRUE(e);
  EXPECT_EQ(evicted_, std::vector<std::string>{"10.0.0.1"});
  a.reset();
  EXPECT_EQ(table_.connections(), 4u) << "it was uncounted when it was evicted";
}

TEST_F(ConnectionTableTest, KeepsBusyConnections) {
  auto a = Admit("10.0.0.1"), b = Admit("10.0.0.2"), c = Admit("10.0.0.3"), d = Admit("10.0.0.4");
  for (auto* place : {&a, &b, &c}) (*place)->HandleBusy();
  now_ += 1h;
  auto e = Admit("10.0.0.5");
  EXPECT_EQ(evicted_, std::vector<std::string>{"10.0.0.4"});
  e->HandleBusy();
  EXPECT_FALSE(Admit("10.0.0.6"));
}

TEST_F(ConnectionTableTest, FullAddressEvictsItsOwnConnection) {
  auto a = Admit("10.0.0.2");
  now_ += 1s;
  auto b = Admit("10.0.0.1"), c = Admit("10.0.0.1");
  now_ += 1h;
  auto d = Admit("10.0.0.1");
  EXPECT_TRUE(d);
  EXPECT_EQ(evicted_, std::vector<std::string>{"10.0.0.1"});
}

TEST_F(ConnectionTableTest, CountsAnIpv6Slash64AsOneAddress) {
  auto a = Admit("2001:db8::1"), b = Admit("2001:db8::ffff:2");
  EXPECT_FALSE(Admit("2001:db8:0:0:1::"));
  EXPECT_TRUE(Admit("2001:db8:0:1::1"));
  auto c = Admit("::ffff:10.0.0.1"), d = Admit("10.0.0.1");
  EXPECT_FALSE(Admit("::ffff:10.0.0.1"));
}

TEST_F(ConnectionTableTest, ListsTheConnectionsThatAreDescribedWithTheirIdleTimes) {
  auto undescribed = Admit("10.0.0.9");
  auto a = Admit("10.0.0.1"), b = Admit("10.0.0.2");
  Peer peer;
  peer.connection = 2;
  peer.address = SocketAddress(asio::ip::make_address("10.0.0.2"), 700);
  peer.transport = TransportKind::kRdma;
  b->Describe(peer);
  peer.connection = 1;
  peer.address = SocketAddress(asio::ip::make_address("10.0.0.1"), 701);
  peer.transport = TransportKind::kTcp;
  a->Describe(peer);
  peer.protection = Protection::kTls;
  a->Describe(peer);
  b->HandleBusy();
  now_ += 3s;
  const auto listed = table_.List(now_);
  ASSERT_EQ(listed.size(), 2u);
  EXPECT_EQ(listed[0].number, 1u);
  EXPECT_EQ(listed[0].peer.port(), 701);
  EXPECT_EQ(listed[0].protection, Protection::kTls);
  EXPECT_EQ(listed[0].idle, 3s);
  EXPECT_EQ(listed[1].transport, TransportKind::kRdma);
  EXPECT_EQ(listed[1].idle, std::nullopt);
}

TEST_F(ConnectionTableTest, AdmitsOnlyKnownAddressesWhileItDrains) {
  auto known = Admit("10.0.0.1");
  table_.SetDraining(true);
  EXPECT_TRUE(table_.is_draining());
  EXPECT_FALSE(Admit("10.0.0.2"));
  EXPECT_EQ(last_, Refusal::kDraining);
  EXPECT_TRUE(Admit("10.0.0.1"));
  known.reset();
  EXPECT_TRUE(Admit("10.0.0.1")) << "a client that has lost its connection is no new one";
  table_.SetDraining(false);
  EXPECT_TRUE(Admit("10.0.0.2"));
}

TEST(ConnectionTable, LimitsAnAddressToAQuarterByDefault) {
  ConnectionTable table({.connections = 8});
  const IpAddress address = asio::ip::make_address("10.0.0.1");
  auto a = table.Admit(address, TimePoint{}), b = table.Admit(address, TimePoint{});
  EXPECT_EQ(table.Admit(address, TimePoint{}).refusal, Refusal::kAddressFull);
  ConnectionTable small({.connections = 1});
  EXPECT_TRUE(small.Admit(address, TimePoint{}).place);
}

}  // namespace
}  // namespace penstock::rpc
