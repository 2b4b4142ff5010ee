#include "rpc/memory_budget.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/test_log.h"

namespace penstock::rpc {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class MemoryBudgetTest : public ::testing::Test {
 protected:
  using Account = std::unique_ptr<MemoryBudget::Account>;

  Account Open(const char* address, const char* name = nullptr) {
    Account account = budget_.Open(asio::ip::make_address(address));
    account->set_on_room([this, text = std::string(name ? name : address)] { woken_.push_back(text); });
    account->Update(kOwn);
    return account;
  }
  // Returns the accounts whose on_room was called since the last call.
  std::vector<std::string> Woken() { return std::exchange(woken_, {}); }

  static constexpr size_t kOwn = 100;
  MemoryBudget budget_{{.octets = 4000, .own_octets = kOwn}};
  std::vector<std::string> woken_;
};

TEST_F(MemoryBudgetTest, OneHostAloneGetsAQuarter) {
  const Account first = Open("10.0.0.1"), second = Open("10.0.0.1");
  EXPECT_TRUE(first->Admit(600));
  EXPECT_TRUE(second->Admit(400));
  EXPECT_FALSE(second->Admit(1));
  EXPECT_EQ(budget_.shared_octets(), 1000u);
  EXPECT_EQ(first->used(), kOwn + 600);
}

TEST_F(MemoryBudgetTest, LogsOnceThatCallsWait) {
  const CapturedLog captured;
  const Account account = Open("10.0.0.1");
  EXPECT_TRUE(account->Admit(1000));
  EXPECT_EQ(captured.text(), "");
  EXPECT_FALSE(account->Admit(1));
  EXPECT_FALSE(account->Admit(1));
  EXPECT_TRUE(captured.text().starts_with("info: calls of 10.0.0.1 wait for memory")) << captured.text();
  EXPECT_EQ(std::ranges::count(captured.text(), '\n'), 1);
}

TEST_F(MemoryBudgetTest, CountsAnIpv6Slash64AsOneHost) {
  const Account first = Open("2001:db8::1"), second = Open("2001:db8::2"), other = Open("2001:db8:0:1::1");
  EXPECT_TRUE(first->Admit(1000));
  EXPECT_FALSE(second->Admit(1));
  EXPECT_TRUE(other->Admit(700));
}

TEST_F(MemoryBudgetTest, AlwaysLeavesMemoryForTheNextHost) {
  std::vector<Account> all;
  for (int i = 1; i <= 20; ++i) {
    Account account = Open(("10.0.0." + std::to_string(i)).c_str());
    EXPECT_TRUE(account->Admit(10)) << i;
    while (account->Admit(10)) {
    }
    all.push_back(std::move(account));
  }
  EXPECT_LT(budget_.shared_octets(), 4000u);
}

TEST_F(MemoryBudgetTest, HostWithoutMemoryGetsTheRest) {
  const Account first = Open("10.0.0.1"), second = Open("10.0.0.2");
  first->Update(kOwn + 3000);
  EXPECT_TRUE(second->Admit(1000));
  EXPECT_EQ(budget_.shared_octets(), 4000u);
}

TEST_F(MemoryBudgetTest, AdmitsAnOversizedCallWhenNothingIsInUse) {
  const Account first = Open("10.0.0.1");
  EXPECT_TRUE(first->Admit(5000));
}

TEST_F(MemoryBudgetTest, EachAccountKeepsItsOwnMemoryWhenTheBudgetIsFull) {
  const Account first = Open("10.0.0.1"), same_host = Open("10.0.0.1");
  first->Update(10'000);
  same_host->Update(0);
  EXPECT_TRUE(same_host->Admit(60));
  EXPECT_TRUE(same_host->Admit(40));
  EXPECT_FALSE(same_host->Admit(1));
  same_host->Update(50);
  EXPECT_TRUE(same_host->Admit(50)) << "its own memory is available while it waits for more";
  EXPECT_EQ(budget_.shared_octets(), 9900u);
}

TEST_F(MemoryBudgetTest, WakesAndAdmitsAWaitingAccountWhenThereIsRoom) {
  const Account first = Open("10.0.0.1", "first"), second = Open("10.0.0.1", "second");
  EXPECT_TRUE(first->Admit(1000));
  EXPECT_FALSE(second->Admit(300));
  first->Update(kOwn + 800);
  EXPECT_THAT(Woken(), IsEmpty()) << "too little memory is free";
  first->Update(kOwn + 700);
  EXPECT_THAT(Woken(), ElementsAre("second"));
  EXPECT_FALSE(first->Admit(1)) << "the memory is set aside for the woken account";
  EXPECT_TRUE(second->Admit(300));
  EXPECT_EQ(budget_.shared_octets(), 1000u);
}

TEST_F(MemoryBudgetTest, PassesTheUnusedPartOfAGrantToTheNextAccount) {
  const Account first = Open("10.0.0.1", "first"), second = Open("10.0.0.1", "second"),
                third = Open("10.0.0.1", "third");
  EXPECT_TRUE(first->Admit(1000));
  EXPECT_FALSE(second->Admit(800));
  EXPECT_FALSE(third->Admit(500));
  first->Update(kOwn);
  EXPECT_THAT(Woken(), ElementsAre("second"));
  EXPECT_TRUE(second->Admit(100));
  EXPECT_THAT(Woken(), ElementsAre("third"));
}

TEST_F(MemoryBudgetTest, AlternatesBetweenTheAccountsOfAHost) {
  const Account a = Open("10.0.0.1", "a"), b = Open("10.0.0.1", "b"), c = Open("10.0.0.1", "c");
  a->Update(kOwn + 1000);
  EXPECT_FALSE(b->Admit(500));
  EXPECT_FALSE(c->Admit(500));
  EXPECT_FALSE(a->Admit(500));
  EXPECT_FALSE(b->Admit(500)) << "it asks again and keeps its place in the line";
  a->Update(0);
  EXPECT_THAT(Woken(), ElementsAre("b", "c"));
  EXPECT_TRUE(b->Admit(500));
  EXPECT_TRUE(c->Admit(500));
  EXPECT_FALSE(b->Admit(500));
  c->Update(0);
  EXPECT_THAT(Woken(), ElementsAre("a")) << "a is in line before b";
}

TEST_F(MemoryBudgetTest, AlternatesBetweenHosts) {
  const Account hog = Open("10.0.0.9", "hog");
  hog->Update(kOwn + 4000);
  std::vector<Account> accounts;
  for (const char* address : {"10.0.0.1", "10.0.0.1", "10.0.0.1", "10.0.0.2", "10.0.0.3"}) {
    accounts.push_back(Open(address));
    EXPECT_FALSE(accounts.back()->Admit(100));
  }
  hog->Update(0);
  EXPECT_THAT(Woken(), ElementsAre("10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.1", "10.0.0.1"));
}

TEST_F(MemoryBudgetTest, KeepsReturnedMemoryForAHostWithoutAny) {
  const Account hog = Open("10.0.0.9", "hog"), large = Open("10.0.0.1", "large"), small = Open("10.0.0.2", "small");
  small->Update(kOwn + 10);
  hog->Update(kOwn + 3900);
  EXPECT_FALSE(large->Admit(1000));
  EXPECT_FALSE(small->Admit(30));
  hog->Update(kOwn + 3500);
  EXPECT_THAT(Woken(), IsEmpty());
  hog->Update(kOwn + 2900);
  EXPECT_THAT(Woken(), ElementsAre("large"));
  hog->Update(kOwn + 2800);
  EXPECT_THAT(Woken(), ElementsAre("small"));
}

TEST_F(MemoryBudgetTest, HostAtItsLimitDoesNotDelayOthers) {
  const Account first = Open("10.0.0.1", "first"), second = Open("10.0.0.2", "second");
  EXPECT_TRUE(first->Admit(1000));
  EXPECT_FALSE(first->Admit(500));
  EXPECT_TRUE(second->Admit(500));
}

TEST_F(MemoryBudgetTest, AccountThatStopsWaitingMakesRoomForTheNext) {
  const Account hog = Open("10.0.0.9", "hog");
  Account gone = Open("10.0.0.1", "gone");
  const Account next = Open("10.0.0.1", "next"), last = Open("10.0.0.1", "last");
  hog->Update(kOwn + 4000);
  EXPECT_FALSE(gone->Admit(400));
  EXPECT_FALSE(next->Admit(200));
  EXPECT_FALSE(last->Admit(100));
  hog->Update(kOwn + 3700);
  EXPECT_THAT(Woken(), IsEmpty());
  gone.reset();
  EXPECT_THAT(Woken(), ElementsAre("next"));
  next->StopWaiting();
  EXPECT_THAT(Woken(), ElementsAre("last")) << "the grant passes to the next account";
  EXPECT_TRUE(last->Admit(100));
  EXPECT_EQ(budget_.shared_octets(), 3800u);
}

TEST_F(MemoryBudgetTest, CountsReservedMemoryAsUsed) {
  const Account first = Open("10.0.0.1", "first"), second = Open("10.0.0.1", "second");
  EXPECT_TRUE(first->Reserve(600));
  first->Update(kOwn + 100);
  EXPECT_EQ(budget_.shared_octets(), 700u);
  EXPECT_FALSE(second->Reserve(400));
  EXPECT_FALSE(second->Admit(400));
  EXPECT_FALSE(first->Reserve(1)) << "other accounts are in line";
  first->Unreserve(600);
  EXPECT_THAT(Woken(), ElementsAre("second"));
  EXPECT_TRUE(second->Admit(400));
  EXPECT_EQ(budget_.shared_octets(), 500u);
}

// Each thread stands for a loop with one connection.
TEST(MemoryBudget, ServesManyThreads) {
  MemoryBudget budget({.octets = 4000, .own_octets = 100});
  std::atomic<size_t> used = 0, most = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&, i] {
      auto account = budget.Open(asio::ip::make_address(i % 2 ? "10.0.0.1" : "10.0.0.2"));
      const auto room = std::make_shared<std::atomic<bool>>(false);
      account->set_on_room([room] {
        *room = true;
        room->notify_one();
      });
      for (int n = 0; n < 500; ++n) {
        while (!account->Admit(600)) {
          room->wait(false);
          *room = false;
        }
        const size_t now = used += 600;
        size_t before = most;
        while (before < now && !most.compare_exchange_weak(before, now)) {
        }
        used -= 600;
        account->Update(0);
      }
      account->StopWaiting();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(budget.shared_octets(), 0u);
  EXPECT_LE(most, 4000u + 8 * 100);
}

}  // namespace
}  // namespace penstock::rpc
