#include "base/arrival.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>

#include "base/data.h"
#include "base/task.h"

namespace penstock {
namespace {

// Whether the octets beyond so many have come, once that is known.
std::optional<bool> Wait(const Data& data, size_t octets, std::optional<bool>& came) {
  Spawn([](const Data& from, size_t beyond, std::optional<bool>& result) -> Task<void> {
    result = co_await from.ArrivedBeyond(beyond);
  }(data, octets, came));
  return came;
}

class ArrivalTest : public testing::Test {
 protected:
  std::array<std::byte, 100> octets_{};
  std::shared_ptr<Arrival> arrival_ = std::make_shared<Arrival>();
  Data data_{Slice::Borrowed(octets_), arrival_};
};

TEST_F(ArrivalTest, DataWithoutAnArrivalAreThere) {
  const Data data{Slice::Borrowed(octets_)};
  EXPECT_FALSE(data.arriving());
  EXPECT_EQ(data.arrived(), 100u);
}

TEST_F(ArrivalTest, AWaiterContinuesWhenItsOctetsHaveArrived) {
  std::optional<bool> came;
  EXPECT_FALSE(Wait(data_, 40, came));
  arrival_->Advance(40);
  EXPECT_FALSE(came);
  EXPECT_EQ(data_.arrived(), 40u);
  arrival_->Advance(41);
  EXPECT_EQ(came, true);
  EXPECT_TRUE(data_.arriving());
  arrival_->Advance(100);
  EXPECT_FALSE(data_.arriving());
}

TEST_F(ArrivalTest, AWaiterLearnsThatItsOctetsAreLost) {
  std::optional<bool> came;
  arrival_->Advance(50);
  EXPECT_FALSE(Wait(data_, 50, came));
  arrival_->End();
  EXPECT_EQ(came, false);
  std::optional<bool> earlier;
  EXPECT_EQ(Wait(data_, 49, earlier), true) << "these are there";
}

TEST_F(ArrivalTest, AWaiterMayDoWithoutTheRest) {
  std::optional<bool> came;
  arrival_->Advance(50);
  EXPECT_FALSE(Wait(data_, 50, came));
  data_.EndArrival();
  EXPECT_EQ(came, false);
  arrival_->Advance(100);
  std::optional<bool> later;
  EXPECT_EQ(Wait(data_, 99, later), true);
}

TEST_F(ArrivalTest, APartOfTheDataArrivesWithThem) {
  const Data part = data_.Sub(30, 20);
  arrival_->Advance(29);
  EXPECT_EQ(part.arrived(), 0u);
  arrival_->Advance(45);
  EXPECT_EQ(part.arrived(), 15u);
  EXPECT_TRUE(part.arriving());
  std::optional<bool> came;
  EXPECT_FALSE(Wait(part, 15, came));
  arrival_->Advance(46);
  EXPECT_EQ(came, true);
  arrival_->Advance(50);
  EXPECT_FALSE(part.arriving());
  EXPECT_EQ(part.arrived(), 20u);
}

}  // namespace
}  // namespace penstock
