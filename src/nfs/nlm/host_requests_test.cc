#include "nfs/nlm/host_requests.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace penstock::nfs::nlm {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class HostRequestsTest : public testing::Test {
 protected:
  static v4::LockHostName Host(const std::string& name, const std::string& address = "192.0.2.1") {
    return {asio::ip::make_address(address), name};
  }
  static NamedFile File(uint64_t number) { return {.handle = {}, .identity = {.volume = number, .object = {}}}; }
  // A request is named by its number. Once it has its turn, it runs until its OneShot is set.
  void Begin(int number, const v4::LockHostName& host, const std::string& owner, uint64_t file, OneShot<>& end) {
    Spawn([](HostRequestsTest& test, int request, v4::LockHostName by, std::string of, NamedFile on,
             OneShot<>& until) -> Task<> {
      HostRequests::Request under_way(test.requests, by, std::move(of), on);
      co_await under_way.Turn();
      test.begun.push_back(request);
      co_await until;
      if (under_way.is_void()) test.voided.push_back(request);
    }(*this, number, host, owner, File(file), end));
  }

  HostRequests requests;
  std::vector<int> begun, voided;
};

TEST_F(HostRequestsTest, RequestsOfOneOwnerForOneFileTakeTurns) {
  OneShot<> first, second, third;
  Begin(1, Host("a"), "p", 1, first);
  Begin(2, Host("a"), "p", 1, second);
  Begin(3, Host("a"), "p", 1, third);
  EXPECT_THAT(begun, ElementsAre(1));
  second.Set();  // it runs to its end as soon as it may
  first.Set();
  EXPECT_THAT(begun, ElementsAre(1, 2, 3));
  third.Set();
  EXPECT_TRUE(requests.empty());
}

TEST_F(HostRequestsTest, OthersDoNotWait) {
  OneShot<> ends[5];
  Begin(1, Host("a"), "p", 1, ends[0]);
  Begin(2, Host("a"), "p", 2, ends[1]);
  Begin(3, Host("a"), "q", 1, ends[2]);
  Begin(4, Host("b"), "p", 1, ends[3]);
  Begin(5, Host("a", "192.0.2.2"), "p", 1, ends[4]);
  EXPECT_THAT(begun, ElementsAre(1, 2, 3, 4, 5));
  for (OneShot<>& end : ends) end.Set();
  EXPECT_TRUE(requests.empty());
}

TEST_F(HostRequestsTest, ManyRequestsThatWaitNeedNoStack) {
  OneShot<> first;
  std::vector<OneShot<>> ends(100'000);
  for (OneShot<>& end : ends) end.Set();
  Begin(0, Host("a"), "p", 1, first);
  for (size_t i = 0; i < ends.size(); ++i) Begin(static_cast<int>(i), Host("a"), "p", 1, ends[i]);
  first.Set();
  EXPECT_EQ(begun.size(), ends.size() + 1);
  EXPECT_TRUE(requests.empty());
}

TEST_F(HostRequestsTest, TheRequestsOfAHostThatEndsAreVoidAndDoNotWait) {
  OneShot<> ends[5];
  Begin(1, Host("a"), "p", 1, ends[0]);
  Begin(2, Host("a"), "p", 1, ends[1]);
  Begin(3, Host("b"), "p", 1, ends[2]);
  requests.End({Host("a"), Host("unknown")});
  EXPECT_THAT(begun, ElementsAre(1, 3, 2));
  // A request after the restart does not wait for one from before it.
  Begin(4, Host("a"), "p", 1, ends[3]);
  Begin(5, Host("a"), "p", 1, ends[4]);
  EXPECT_THAT(begun, ElementsAre(1, 3, 2, 4));
  for (OneShot<>& end : ends) end.Set();
  EXPECT_THAT(begun, ElementsAre(1, 3, 2, 4, 5));
  EXPECT_THAT(voided, ElementsAre(1, 2));
}

TEST_F(HostRequestsTest, KnowsTheHostsAtAnAddress) {
  OneShot<> ends[4];
  Begin(1, Host("b"), "p", 1, ends[0]);
  Begin(2, Host("a"), "p", 1, ends[1]);
  Begin(3, Host("a"), "q", 1, ends[2]);
  Begin(4, Host("a", "192.0.2.2"), "p", 1, ends[3]);
  EXPECT_THAT(requests.HostsAt(asio::ip::make_address("192.0.2.1")), ElementsAre(Host("a"), Host("b")));
  EXPECT_THAT(requests.HostsAt(asio::ip::make_address("192.0.2.3")), IsEmpty());
  for (OneShot<>& end : ends) end.Set();
}

}  // namespace
}  // namespace penstock::nfs::nlm
