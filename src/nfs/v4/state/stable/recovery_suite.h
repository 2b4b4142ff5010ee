// What every recovery store does. A test program instantiates the suite with PENSTOCK_RECOVERY_STORE_SUITE.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>

#include "nfs/v4/dialect/test_dialects.h"
#include "nfs/v4/state/stable/recovery.h"

namespace penstock::nfs::v4::suite {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

// What keeps the clients from one run of a server to the next.
class RecoveryHome {
 public:
  virtual ~RecoveryHome() = default;
  // Opens the store for another run. That of the run before is gone.
  virtual std::shared_ptr<RecoveryStore> Open() = 0;
};

struct RecoveryParameter {
  const char* name;
  std::function<std::unique_ptr<RecoveryHome>()> make;
};

inline constexpr std::chrono::seconds kLease{90};
inline const std::chrono::sys_seconds kNow{std::chrono::seconds(1'700'000'000)};

inline const RecoveryRecord kOne{OwnerKey(DialectOf(1), std::string_view("o\0ne", 4)), {rpc::AuthFlavor::AUTH_SYS, 0}};
inline const RecoveryRecord kTwo{OwnerKey(DialectOf(0), "two"), {rpc::AuthFlavor::AUTH_NONE, 4'000'000'000}};

class RecoveryStoreTest : public testing::TestWithParam<RecoveryParameter> {
 protected:
  // Starts or restarts the server.
  RecoveryStore::Restart Start(Duration lease = kLease) {
    store_.reset();
    store_ = home_->Open();
    const auto restart = store_->Begin(lease, kNow);
    EXPECT_TRUE(restart) << restart.error().message;
    return *restart;
  }

  const std::unique_ptr<RecoveryHome> home_ = GetParam().make();
  std::shared_ptr<RecoveryStore> store_;
};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(RecoveryStoreTest);

TEST_P(RecoveryStoreTest, HasNoClientsAtFirst) {
  const auto restart = Start();
  EXPECT_THAT(restart.clients, IsEmpty());
  EXPECT_EQ(restart.last_lease, Duration::zero());
}

TEST_P(RecoveryStoreTest, InstancesGrowEvenIfTheClockDoesNotAdvance) {
  const uint32_t first = Start().instance;
  EXPECT_GE(first, 1'700'000'000u);
  EXPECT_GT(Start().instance, first);
}

TEST_P(RecoveryStoreTest, RemembersTheLastLease) {
  Start(std::chrono::seconds(30));
  EXPECT_EQ(Start(kLease).last_lease, std::chrono::seconds(30));
  EXPECT_EQ(Start().last_lease, kLease);
}

TEST_P(RecoveryStoreTest, RemembersRecordedClients) {
  Start();
  EXPECT_TRUE(store_->Record(kOne));
  EXPECT_TRUE(store_->Record(kTwo));
  EXPECT_TRUE(store_->Record(kOne));
  EXPECT_THAT(Start().clients, UnorderedElementsAre(kOne, kTwo));
}

TEST_P(RecoveryStoreTest, ForgetsRemovedClients) {
  Start();
  store_->Record(kOne);
  store_->Record(kTwo);
  EXPECT_TRUE(store_->Remove(kOne.owner));
  EXPECT_TRUE(store_->Remove("1unknown"));
  EXPECT_THAT(Start().clients, ElementsAre(kTwo));
}

// RFC 8881 §8.4.3, the second edge condition.
TEST_P(RecoveryStoreTest, EndGraceForgetsClientsThatDidNotReturn) {
  Start();
  store_->Record(kOne);
  store_->Record(kTwo);
  Start();
  store_->Record(kTwo);
  EXPECT_TRUE(store_->EndGrace());
  EXPECT_THAT(Start().clients, ElementsAre(kTwo));
}

TEST_P(RecoveryStoreTest, RestartDuringGraceForgetsNoClient) {
  Start();
  store_->Record(kOne);
  store_->Record(kTwo);
  Start();
  store_->Record(kTwo);
  EXPECT_THAT(Start().clients, UnorderedElementsAre(kOne, kTwo));
  EXPECT_THAT(Start().clients, UnorderedElementsAre(kOne, kTwo));
}

TEST_P(RecoveryStoreTest, NewRecordReplacesThePrincipal) {
  Start();
  store_->Record(kOne);
  RecoveryRecord other = kOne;
  other.principal.uid = 7;
  store_->Record(other);
  EXPECT_THAT(Start().clients, ElementsAre(other));
}

TEST_P(RecoveryStoreTest, RecordsTheNameOfAnInitiator) {
  const RecoveryRecord machine{
      OwnerKey(DialectOf(1), "machine"),
      {.flavor = rpc::AuthFlavor::RPCSEC_GSS, .name = std::string("\x04\x01\0\x0b", 4) + "nfs/client@EXAMPLE.ORG"}};
  Start();
  store_->Record(machine);
  EXPECT_THAT(Start().clients, ElementsAre(machine));
}

}  // namespace penstock::nfs::v4::suite

// Once in a program, in namespace penstock::nfs::v4::suite.
#define PENSTOCK_RECOVERY_STORE_SUITE(prefix, ...)                 \
  INSTANTIATE_TEST_SUITE_P(prefix, RecoveryStoreTest, __VA_ARGS__, \
                           [](const auto& test) { return std::string(test.param.name); })
