#include "server/call_places.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

namespace penstock::server {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class CallPlacesTest : public testing::Test {
 protected:
  ~CallPlacesTest() override { all.Cancel(); }

  void Make(const CallPlaces::Limits& limits) { places.emplace(limits); }
  static IpAddress At(const std::string& address) { return asio::ip::make_address(address); }

  // A call is named by its number. It has a place from its start until End().
  void Call(int number, const std::string& address, Cancellation* cancellation = nullptr) {
    Spawn([](CallPlacesTest& test, CallPlaces& in, int call, IpAddress to, Cancellation* until) -> Task<> {
      const auto place = co_await in.Enter(to, until);
      if (place) {
        test.running.emplace(call, *place);
      } else {
        test.over.insert(call);
      }
    }(*this, *places, number, At(address), cancellation ? cancellation : &all));
  }
  void End(int number, std::optional<bool> answered) {
    const auto call = running.find(number);
    ASSERT_NE(call, running.end());
    const CallPlaces::Place place = call->second;
    running.erase(call);
    places->Leave(place, answered);
  }
  std::vector<int> Running() const {
    std::vector<int> numbers;
    for (const auto& [number, place] : running) numbers.push_back(number);
    return numbers;
  }

  Cancellation all;  // of calls without another one
  std::optional<CallPlaces> places;
  std::map<int, CallPlaces::Place> running;
  std::set<int> over;  // without a place
};

TEST_F(CallPlacesTest, AHostThatHasNotAnsweredYetHasOneCall) {
  Make({.places = 8, .places_of_silent = 2, .per_host = 2});
  for (int call = 1; call <= 5; ++call) Call(call, "192.0.2.1");
  EXPECT_THAT(Running(), ElementsAre(1));
  End(1, true);
  EXPECT_THAT(Running(), ElementsAre(2, 3));
  End(3, true);
  EXPECT_THAT(Running(), ElementsAre(2, 4));
}

TEST_F(CallPlacesTest, ASilentHostHasAPlaceOfItsOwnKind) {
  Make({.places = 2, .places_of_silent = 1, .per_host = 2});
  for (int call = 1; call <= 3; ++call) Call(call, "192.0.2." + std::to_string(call));
  EXPECT_THAT(Running(), ElementsAre(1, 2));
  End(1, false);
  End(2, false);
  EXPECT_THAT(Running(), ElementsAre(3));
  End(3, true);
  // The two silent hosts share one place. Those that answer have all others.
  Call(11, "192.0.2.1");
  Call(12, "192.0.2.2");
  Call(13, "192.0.2.3");
  Call(14, "192.0.2.4");
  EXPECT_THAT(Running(), ElementsAre(11, 13, 14));
  End(11, false);
  EXPECT_THAT(Running(), ElementsAre(12, 13, 14));
}

TEST_F(CallPlacesTest, CallsThatWaitEndWhenTheHostDoesNotAnswerOne) {
  Make({});
  for (int call = 1; call <= 4; ++call) Call(call, "192.0.2.1");
  End(1, false);
  EXPECT_THAT(Running(), IsEmpty());
  EXPECT_THAT(over, ElementsAre(2, 3, 4));
  Call(5, "192.0.2.1");
  Call(6, "192.0.2.1");
  EXPECT_THAT(Running(), ElementsAre(5));
  End(5, {});
  EXPECT_THAT(Running(), ElementsAre(6)) << "the fifth has told nothing";
}

TEST_F(CallPlacesTest, AHostThatAnswersAgainIsNotSilent) {
  Make({.places = 4, .places_of_silent = 1, .per_host = 2});
  Call(1, "192.0.2.1");
  End(1, false);
  for (int call = 2; call <= 4; ++call) Call(call, "192.0.2.1");
  EXPECT_THAT(Running(), ElementsAre(2));
  EXPECT_EQ(running.at(2).kind, CallPlaces::Kind::kSilent);
  End(2, true);
  EXPECT_THAT(Running(), ElementsAre(3, 4));
  EXPECT_EQ(running.at(3).kind, CallPlaces::Kind::kNormal);
  End(3, true);
  End(4, true);
  EXPECT_EQ(places->known(), 0u);
  EXPECT_EQ(places->under_way(), 0u);
}

TEST_F(CallPlacesTest, HostsTakeTurns) {
  Make({.places = 1, .places_of_silent = 1, .per_host = 4});
  for (int call = 11; call <= 13; ++call) Call(call, "192.0.2.1");
  for (int call = 21; call <= 22; ++call) Call(call, "192.0.2.2");
  Call(31, "192.0.2.3");
  for (const int next : {11, 21, 31, 12, 22, 13}) {
    EXPECT_THAT(Running(), ElementsAre(next));
    End(next, true);
  }
  EXPECT_THAT(Running(), IsEmpty());
}

TEST_F(CallPlacesTest, AnIpv6NetworkOf64BitsIsOneHost) {
  Make({.places = 16, .places_of_silent = 16, .per_host = 2});
  for (int call = 1; call <= 9; ++call) Call(call, "2001:db8::" + std::to_string(call));
  EXPECT_THAT(Running(), ElementsAre(1, 2));
  Call(10, "2001:db8:0:1::1");
  EXPECT_THAT(Running(), ElementsAre(1, 2, 10));
  // A silent address does not make the others silent.
  End(1, false);
  End(2, false);
  EXPECT_THAT(Running(), ElementsAre(3, 4, 10));
  for (int call = 11; call <= 12; ++call) Call(call, "2001:db8::" + std::to_string(call - 10));
  EXPECT_THAT(Running(), ElementsAre(3, 4, 10, 11, 12));
}

// The finding: 16 addresses whose port mappers hang took all 64 places, 4 each.
TEST_F(CallPlacesTest, SixteenSilentHostsWithManyCallsLeaveMostPlacesFree) {
  Make({});
  for (int call = 0; call < 16 * 16; ++call) Call(call, "192.0.2." + std::to_string(call % 16));
  EXPECT_EQ(running.size(), 16u);
  for (int call = 1000; call < 1100; ++call) {
    Call(call, "198.51.100." + std::to_string(call % 100));
    EXPECT_TRUE(running.contains(call));
  }
}

TEST_F(CallPlacesTest, AWaitCanBeEnded) {
  Make({});
  Cancellation second, third;
  Call(1, "192.0.2.1");
  Call(2, "192.0.2.1", &second);
  Call(3, "192.0.2.1", &third);
  Call(4, "192.0.2.1");
  second.Cancel();
  EXPECT_THAT(over, ElementsAre(2));
  End(1, true);
  EXPECT_THAT(Running(), ElementsAre(3, 4));
  third.Cancel();  // too late: it has its place
  EXPECT_THAT(Running(), ElementsAre(3, 4));
  Cancellation before;
  before.Cancel();
  Call(5, "192.0.2.1", &before);
  EXPECT_THAT(over, ElementsAre(2, 5));
}

TEST_F(CallPlacesTest, AWaitMayBeEndedWhileOthersEnd) {
  Make({});
  Cancellation third;
  Call(1, "192.0.2.1");
  Spawn([](CallPlaces& in, IpAddress to, Cancellation& other) -> Task<> {
    EXPECT_FALSE(co_await in.Enter(to, nullptr));
    other.Cancel();
  }(*places, At("192.0.2.1"), third));
  Call(3, "192.0.2.1", &third);
  Call(4, "192.0.2.1");
  End(1, false);
  EXPECT_THAT(over, ElementsAre(3, 4));
}

TEST_F(CallPlacesTest, TheOldestSilentHostsAreForgotten) {
  Make({.places = 4, .places_of_silent = 1, .per_host = 2, .known_silent = 2});
  for (int call = 1; call <= 3; ++call) {
    Call(call, "192.0.2." + std::to_string(call));
    End(call, false);
  }
  EXPECT_EQ(places->known(), 2u);
  Call(4, "192.0.2.1");
  EXPECT_EQ(running.at(4).kind, CallPlaces::Kind::kNormal);
  Call(5, "192.0.2.3");
  EXPECT_EQ(running.at(5).kind, CallPlaces::Kind::kSilent);
}

}  // namespace
}  // namespace penstock::server
