#include "metrics/clients.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

namespace penstock::metrics {
namespace {

using namespace std::chrono_literals;

IpAddress Host(size_t n) { return asio::ip::make_address(fmt::format("10.0.{}.{}", n / 250, n % 250 + 1)); }

std::map<std::string, uint64_t> OperationsOf(const ClientTable& table) {
  std::map<std::string, uint64_t> found;
  table.ForEach([&](const std::optional<IpAddress>& address, const ClientSums& sums) {
    found[address ? address->to_string() : "other"] = sums.operations;
  });
  return found;
}

TEST(ClientTableTest, AddsUpTheSharesOfTheLoops) {
  ClientTable table(2);
  const auto client = table.Enter(Host(0));
  EXPECT_EQ(table.Enter(Host(0)), client);
  EXPECT_EQ(table.Enter(asio::ip::make_address("::ffff:10.0.0.1")), client);
  client->share(0).Record(1, 1us, 10, 0);
  client->share(1).Record(2, 1ms, 0, 5);
  table.ForEach([&](const std::optional<IpAddress>& address, const ClientSums& sums) {
    if (!address) return;
    EXPECT_EQ(sums.operations, 3u);
    EXPECT_EQ(sums.nanoseconds, 1'001'000u);
    EXPECT_EQ(sums.read_octets, 10u);
    EXPECT_EQ(sums.written_octets, 5u);
    EXPECT_EQ(sums.connections, 3u);
  });
}

TEST(ClientTableTest, CountsClientsWithoutRoomTogether) {
  ClientTable table(1);
  for (size_t i = 0; i < ClientTable::kMost; ++i) table.Enter(Host(i))->share(0).Record(1, 1us, 0, 0);
  EXPECT_EQ(table.Enter(Host(1000)), table.others());
  table.others()->share(0).Record(7, 1us, 0, 0);
  const auto found = OperationsOf(table);
  EXPECT_EQ(found.size(), ClientTable::kMost + 1);
  EXPECT_EQ(found.at("other"), 7u);
}

TEST(ClientTableTest, AClientThatLeftFirstMakesRoomAndKeepsItsCounts) {
  ClientTable table(1);
  std::vector<std::shared_ptr<ClientTable::Client>> clients;
  for (size_t i = 0; i < ClientTable::kMost; ++i) {
    clients.push_back(table.Enter(Host(i)));
    clients.back()->share(0).Record(i + 1, 1us, 0, 0);
  }
  clients[5]->share(0).Record(0, 1s, 0, 0);
  table.Leave(*clients[5]);
  table.Leave(*clients[3]);
  EXPECT_NE(table.Enter(Host(1000)), table.others());
  auto found = OperationsOf(table);
  EXPECT_EQ(found.at("other"), 6u);
  EXPECT_FALSE(found.contains(Host(5).to_string()));
  EXPECT_EQ(found.at(Host(3).to_string()), 4u);
  EXPECT_EQ(found.at(Host(1000).to_string()), 0u);
  table.ForEach([&](const std::optional<IpAddress>& address, const ClientSums& sums) {
    if (address) return;
    EXPECT_EQ(sums.nanoseconds, 1'000'001'000u);
  });
}

TEST(ClientTableTest, AClientThatReturnsGoesOnCounting) {
  ClientTable table(1);
  const auto client = table.Enter(Host(0));
  client->share(0).Record(4, 1us, 0, 0);
  table.Leave(*client);
  EXPECT_EQ(table.Enter(Host(0)), client);
  EXPECT_EQ(OperationsOf(table).at(Host(0).to_string()), 4u);
}

}  // namespace
}  // namespace penstock::metrics
