#include "nfs/v4/state/files/delegated_times.h"

#include <gtest/gtest.h>

namespace penstock::nfs::v4 {
namespace {

constexpr fs::Timestamp kEarly{100, 0}, kFirst{200, 0}, kMiddle{300, 0}, kPresent{400, 0}, kFuture{500, 0};

TEST(DelegatedTimesTest, VetLeavesOutTimesBeforeTheDelegation) {
  const DelegatedTimes vetted = Vet({kEarly, kMiddle}, {kFirst, kFirst}, kPresent);
  EXPECT_EQ(vetted.access, std::nullopt);
  EXPECT_EQ(vetted.modify, kMiddle);
  EXPECT_EQ(Vet({kFirst, kEarly}, {kFirst, kFirst}, kPresent).access, kFirst);
  EXPECT_EQ(Vet({kEarly, kEarly}, {}, kPresent).modify, kEarly) << "the times at the grant are not known";
}

TEST(DelegatedTimesTest, VetLimitsTimesToThePresent) {
  const DelegatedTimes vetted = Vet({kFuture, kFuture}, {kFirst, kFirst}, kPresent);
  EXPECT_EQ(vetted.access, kPresent);
  EXPECT_EQ(vetted.modify, kPresent);
}

TEST(DelegatedTimesTest, SetsTimesOnlyIfTheModifyTimeChanges) {
  fs::Attributes file;
  file.mtime = kFirst;
  fs::NewAttributes values;
  SetTimes({kMiddle, {}}, file, values);
  SetTimes({kMiddle, kFirst}, file, values);
  EXPECT_FALSE(fs::SetsTimes(values));
  SetTimes({kMiddle, kMiddle}, file, values);
  EXPECT_EQ(values.mtime.time, kMiddle);
  EXPECT_EQ(values.atime.time, kMiddle);
  fs::NewAttributes modify_alone;
  SetTimes({{}, kMiddle}, file, modify_alone);
  EXPECT_EQ(modify_alone.atime.how, fs::SetTime::How::kKeep);
}

}  // namespace
}  // namespace penstock::nfs::v4
