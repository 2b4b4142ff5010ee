#include "nfs/host_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <future>
#include <map>
#include <utility>

#include "nfs/exports.h"
#include "nfs/test_server.h"

namespace penstock::nfs {
namespace {

// Databases in memory, which may fail to answer.
class TestHosts final : public HostDatabase {
 public:
  Result<std::vector<IpAddress>, NoAnswer> AddressesOf(const std::string& name) override {
    ++questions;
    if (meanwhile) std::exchange(meanwhile, nullptr)();
    if (is_down) return std::unexpected(NoAnswer{EAGAIN});
    const auto found = addresses.find(name);
    return found == addresses.end() ? std::vector<IpAddress>() : found->second;
  }
  Result<std::vector<std::string>, NoAnswer> NamesOf(const IpAddress& address) override {
    ++questions;
    if (is_down) return std::unexpected(NoAnswer{EAGAIN});
    const auto found = names.find(address);
    return found == names.end() ? std::vector<std::string>() : found->second;
  }
  bool IsInNetgroup(const std::string& group, const std::string& host) override {
    return netgroups.contains({group, host});
  }

  std::map<std::string, std::vector<IpAddress>> addresses;
  std::map<IpAddress, std::vector<std::string>> names;
  std::set<std::pair<std::string, std::string>> netgroups;
  bool is_down = false;
  std::atomic<int> questions = 0;
  std::function<void()> meanwhile;  // happens while the next question about a name has no answer
};

class HostNamesTest : public testing::Test {
 protected:
  HostNamesTest() {
    database.addresses["a.lab.example"] = {address};
    database.names[address] = {"A.lab.example"};
    database.addresses["A.lab.example"] = {address};
    database.netgroups.insert({"trusted", "a.lab.example"});
  }
  void LookFor(std::initializer_list<const char*> specs) {
    std::vector<ClientSpec> all;
    for (const char* each : specs) all.push_back(*ClientSpec::Parse(each));
    names.LookFor(all);
  }
  bool Has(const char* spec) {
    if (names.Lacks(address)) Spawn(names.Load(nullptr, address, {}));
    return ClientSpec::Parse(spec)->Has(address, names.Of(address).get());
  }

  const IpAddress address = asio::ip::make_address("192.0.2.1");
  TestHosts database;
  TimePoint now{};
  HostNames names{database, [this] { return now; }, nullptr};
};

TEST_F(HostNamesTest, AsksNothingUnlessAnExportNeedsNames) {
  LookFor({"*", "192.0.2.0/24"});
  EXPECT_FALSE(names.Lacks(address));
  EXPECT_EQ(database.questions, 0);
}

TEST_F(HostNamesTest, FindsHostsPatternsAndNetgroups) {
  LookFor({"a.lab.example", "*.lab.example", "@trusted", "@others"});
  EXPECT_TRUE(names.Lacks(address));
  EXPECT_TRUE(Has("a.lab.example"));
  EXPECT_TRUE(Has("*.lab.example"));
  EXPECT_TRUE(Has("@trusted"));
  EXPECT_FALSE(Has("@others"));
}

// The owner of an address may call it whatever he likes.
TEST_F(HostNamesTest, DoesNotBelieveANameThatLeadsElsewhere) {
  database.addresses["A.lab.example"] = {asio::ip::make_address("198.51.100.1")};
  LookFor({"*.lab.example", "@trusted"});
  EXPECT_FALSE(Has("*.lab.example"));
  EXPECT_FALSE(Has("@trusted"));
}

TEST_F(HostNamesTest, RemembersFactsAndAsksAgainLater) {
  LookFor({"*.lab.example"});
  EXPECT_TRUE(Has("*.lab.example"));
  const int asked = database.questions;
  now += std::chrono::minutes(4);
  EXPECT_TRUE(Has("*.lab.example"));
  EXPECT_EQ(database.questions, asked);
  database.names.clear();
  now += std::chrono::minutes(2);
  EXPECT_FALSE(Has("*.lab.example"));
}

TEST_F(HostNamesTest, ADatabaseThatIsDownTakesNoClientItsAccess) {
  LookFor({"*.lab.example", "a.lab.example"});
  EXPECT_TRUE(Has("*.lab.example"));
  database.is_down = true;
  now += std::chrono::minutes(6);
  EXPECT_TRUE(Has("*.lab.example"));
  EXPECT_TRUE(Has("a.lab.example"));
}

TEST_F(HostNamesTest, ADatabaseThatIsDownGivesNoClientAccess) {
  database.is_down = true;
  LookFor({"*.lab.example"});
  EXPECT_FALSE(Has("*.lab.example"));
  database.is_down = false;
  EXPECT_FALSE(Has("*.lab.example")) << "asked again too soon";
  now += std::chrono::seconds(6);
  EXPECT_TRUE(Has("*.lab.example"));
}

// Its names may be those of a group that restricts it.
TEST_F(HostNamesTest, AClientWhoseNamesAreNotKnownGetsNoOptionsOfAWiderGroup) {
  ExportTable table;
  ASSERT_TRUE(table.Add("/data", std::make_shared<fs::memory::FileSystem>(),
                        {{*ClientSpec::Parse("*.lab.example"), {.read_only = true}}, {ClientSpec(), {}}}, &names));
  const Export& data = *table.all()[0];
  database.is_down = true;
  LookFor({"*.lab.example"});
  Has("*.lab.example");
  EXPECT_EQ(data.OptionsFor(address), nullptr);
  database.is_down = false;
  now += std::chrono::seconds(6);
  EXPECT_TRUE(Has("*.lab.example"));
  EXPECT_TRUE(data.OptionsFor(address)->read_only);
}

TEST_F(HostNamesTest, OldFactsAreLookedUpBeforeTheyAreUsed) {
  LookFor({"*.lab.example"});
  EXPECT_TRUE(Has("*.lab.example"));
  database.names.clear();
  now += std::chrono::hours(24);
  EXPECT_TRUE(names.Lacks(address));
  EXPECT_FALSE(Has("*.lab.example"));
}

TEST_F(HostNamesTest, RemembersALimitedNumberOfHosts) {
  HostNames few(database, [this] { return now; }, nullptr, {.hosts = 8});
  few.LookFor({*ClientSpec::Parse("*.lab.example")});
  for (uint32_t i = 0; i < 100; ++i) {
    Spawn(few.Load(nullptr, asio::ip::address_v4(0x0a000000 + i), {}));
    Spawn(few.Load(nullptr, address, {}));
  }
  size_t known = 0;
  for (uint32_t i = 0; i < 100; ++i) known += few.Of(asio::ip::address_v4(0x0a000000 + i)) != nullptr;
  EXPECT_LE(known, 8u);
  EXPECT_TRUE(few.Of(address)) << "a host that calls is not forgotten";
}

TEST_F(HostNamesTest, NewGroupsAreLookedForInKnownHosts) {
  LookFor({"*.lab.example"});
  EXPECT_TRUE(Has("*.lab.example"));
  LookFor({"*.lab.example", "@trusted"});
  EXPECT_TRUE(names.Lacks(address));
  EXPECT_TRUE(ClientSpec::Parse("*.lab.example")->Has(address, names.Of(address).get())) << "no gap meanwhile";
  EXPECT_TRUE(Has("@trusted"));
}

TEST_F(HostNamesTest, AnIpv4ClientOfAnIpv6SocketIsTheSameHost) {
  LookFor({"*.lab.example"});
  EXPECT_TRUE(Has("*.lab.example"));
  EXPECT_FALSE(names.Lacks(asio::ip::make_address("::ffff:192.0.2.1")));
}

TEST_F(HostNamesTest, TheHostsOfAnExportFollowTheNames) {
  LookFor({"a.lab.example", "*.lab.example"});
  ExportTable table;
  ExportOptions read_only;
  read_only.read_only = true;
  ASSERT_TRUE(table.Add("/data", std::make_shared<fs::memory::FileSystem>(),
                        {{*ClientSpec::Parse("*.lab.example"), read_only}, {*ClientSpec::Parse("a.lab.example"), {}}},
                        &names));
  const Export& data = *table.all()[0];
  EXPECT_EQ(data.OptionsFor(address), nullptr);
  EXPECT_TRUE(Has("a.lab.example"));
  ASSERT_NE(data.OptionsFor(address), nullptr);
  EXPECT_FALSE(data.OptionsFor(address)->read_only) << "a host by name precedes a pattern";
}

TEST_F(HostNamesTest, OneClientAloneWaitsForAHostNameThatIsLookedUpAgain) {
  const IpAddress other = asio::ip::make_address("192.0.2.2");
  database.addresses["a.lab.example"] = {address, other};
  LookFor({"a.lab.example"});
  EXPECT_TRUE(Has("a.lab.example"));
  const int asked = database.questions;
  now += std::chrono::minutes(6);
  bool is_known = false;
  database.meanwhile = [&] {
    Spawn(names.Load(nullptr, other, {}));
    is_known = ClientSpec::Parse("a.lab.example")->Has(other, names.Of(other).get());
  };
  EXPECT_TRUE(Has("a.lab.example"));
  EXPECT_TRUE(is_known) << "by the addresses of before";
  EXPECT_EQ(database.questions, asked + 1);
}

TEST_F(HostNamesTest, OldAddressesOfAHostNameAreNotUsedWhileItIsLookedUpAgain) {
  const IpAddress other = asio::ip::make_address("192.0.2.2");
  database.addresses["a.lab.example"] = {address, other};
  LookFor({"a.lab.example"});
  EXPECT_TRUE(Has("a.lab.example"));
  now += std::chrono::hours(24);
  database.addresses["a.lab.example"] = {address};
  bool is_known = true;
  database.meanwhile = [&] {
    Spawn(names.Load(nullptr, other, {}));
    is_known = ClientSpec::Parse("a.lab.example")->Has(other, names.Of(other).get());
  };
  EXPECT_TRUE(Has("a.lab.example"));
  EXPECT_FALSE(is_known);
}

TEST_F(HostNamesTest, AClientThatGotOldAddressesIsLookedUpAgainSoon) {
  const IpAddress other = asio::ip::make_address("192.0.2.2");
  database.addresses["a.lab.example"] = {address, other};
  LookFor({"a.lab.example"});
  EXPECT_TRUE(Has("a.lab.example"));
  now += std::chrono::minutes(6);
  database.addresses["a.lab.example"] = {address};
  database.meanwhile = [&] { Spawn(names.Load(nullptr, other, {})); };
  EXPECT_TRUE(Has("a.lab.example"));
  EXPECT_TRUE(names.Of(other)->complete);
  now += std::chrono::seconds(6);
  EXPECT_TRUE(names.Lacks(other));
  Spawn(names.Load(nullptr, other, {}));
  EXPECT_FALSE(ClientSpec::Parse("a.lab.example")->Has(other, names.Of(other).get()));
}

TEST_F(HostNamesTest, OldAddressesOfAHostNameAdmitNobodyWhileTheDatabaseIsDown) {
  const IpAddress other = asio::ip::make_address("192.0.2.2");
  database.addresses["a.lab.example"] = {address, other};
  LookFor({"a.lab.example"});
  EXPECT_TRUE(Has("a.lab.example"));
  database.is_down = true;
  for (int i = 0; i < 40; ++i) {
    now += std::chrono::minutes(1);
    EXPECT_TRUE(Has("a.lab.example")) << "it was admitted before";
  }
  Spawn(names.Load(nullptr, other, {}));
  EXPECT_FALSE(ClientSpec::Parse("a.lab.example")->Has(other, names.Of(other).get()));
  EXPECT_FALSE(names.Of(other)->complete);
}

// The second client asks within the seconds in which the name is not looked up again.
TEST_F(HostNamesTest, AHostNameWithoutAnAnswerLeavesTheFactsOfEachClientIncomplete) {
  database.is_down = true;
  LookFor({"a.lab.example"});
  EXPECT_FALSE(Has("a.lab.example"));
  const IpAddress other = asio::ip::make_address("192.0.2.2");
  Spawn(names.Load(nullptr, other, {}));
  ASSERT_TRUE(names.Of(other));
  EXPECT_FALSE(names.Of(other)->complete);
  EXPECT_EQ(database.questions, 1);
}

// Several calls of one client wait for one look-up, on their own loops.
TEST(HostNamesLoopTest, CallsShareALookUp) {
  TestHosts database;
  const IpAddress address = asio::ip::make_address("192.0.2.1");
  database.addresses["a"] = {address};
  Workers pool(2);
  HostNames names(database, [] { return TimePoint(); }, &pool);
  names.LookFor({*ClientSpec::Parse("a")});
  Loop loop;
  int ended = 0;
  for (int i = 0; i < 3; ++i) {
    Spawn([](HostNames& hosts, Loop& on, IpAddress who, int& count) -> Task<> {
      co_await hosts.Load(&on, who, {});
      if (++count == 3) on.Stop();
    }(names, loop, address, ended));
  }
  loop.Run();
  EXPECT_EQ(ended, 3);
  EXPECT_EQ(database.questions, 1);
  EXPECT_TRUE(ClientSpec::Parse("a")->Has(address, names.Of(address).get()));
  pool.Join();
}

// The name server of one client's network does not answer.
TEST(HostNamesLoopTest, ALookUpThatHangsDelaysNoOtherClient) {
  class SlowHosts final : public HostDatabase {
   public:
    Result<std::vector<IpAddress>, NoAnswer> AddressesOf(const std::string& /*name*/) override {
      return std::vector<IpAddress>();
    }
    Result<std::vector<std::string>, NoAnswer> NamesOf(const IpAddress& address) override {
      if (address == slow) answers.get_future().wait();
      return std::vector<std::string>();
    }
    bool IsInNetgroup(const std::string& /*group*/, const std::string& /*host*/) override { return false; }

    const IpAddress slow = asio::ip::make_address("192.0.2.1");
    std::promise<void> answers;
  } database;
  const IpAddress other = asio::ip::make_address("198.51.100.1");
  Workers pool(2);
  HostNames names(database, [] { return TimePoint(); }, &pool);
  names.LookFor({*ClientSpec::Parse("*.lab.example")});
  Loop loop;
  const auto load = [&](const IpAddress& address, uint64_t host, auto then) -> Task<> {
    const ClientKey client{.host = host, .connection = host};
    co_await names.Load(&loop, address, client);
    then();
  };
  std::vector<IpAddress> known;
  Spawn(load(database.slow, 1, [&] {
    known.push_back(database.slow);
    loop.Stop();
  }));
  Spawn(load(other, 2, [&] {
    known.push_back(other);
    EXPECT_TRUE(names.Lacks(database.slow));
    EXPECT_FALSE(names.Lacks(other));
    database.answers.set_value();
  }));
  loop.Run();
  EXPECT_THAT(known, testing::ElementsAre(other, database.slow));
  pool.Join();
}

}  // namespace
}  // namespace penstock::nfs
