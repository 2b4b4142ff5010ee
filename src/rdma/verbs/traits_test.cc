#include "rdma/verbs/traits.h"

#include <gmock/gmock.h>

namespace penstock::rdma::verbs {
namespace {

using testing::HasSubstr;

Traits Adapter() {
  Traits traits;
  traits.name = "mlx5_0";
  traits.transport = Transport::kRoce;
  traits.max_work_requests = 32768;
  traits.max_sge = 30;
  traits.max_completions = 1 << 20;
  traits.max_windows = 1 << 24;
  traits.windows_type_2 = true;
  traits.max_message = 1u << 30;
  traits.max_ird = traits.max_ord = 16;
  traits.port_active = true;
  return traits;
}

TEST(Traits, ExposeMemoryByWindowsIfTheDeviceHasThem) {
  Traits traits = Adapter();
  EXPECT_EQ(ExposureFor(traits), Exposure::kWindow);
  EXPECT_TRUE(RemoteInvalidation(traits));
  traits.max_windows = 0;
  EXPECT_EQ(ExposureFor(traits), Exposure::kRegistration);
  EXPECT_FALSE(RemoteInvalidation(traits));
  traits = Adapter();
  traits.windows_type_2 = false;
  EXPECT_EQ(ExposureFor(traits), Exposure::kRegistration) << "no send queue binds windows of type 1";
}

TEST(Traits, SoftwareRoceNeedsARegistrationForEachWindow) {
  Traits traits = Adapter();
  EXPECT_TRUE(WindowsAreBounds(traits));
  traits.software_roce = true;
  EXPECT_FALSE(WindowsAreBounds(traits));
}

// RFC 5040 §5.2: the peer writes its answer to a Read through a tag of ours.
TEST(Traits, IwarpExposesTheSinkOfARead) {
  Traits traits = Adapter();
  EXPECT_FALSE(ReadSinkIsExposed(traits));
  traits.transport = Transport::kIwarp;
  EXPECT_TRUE(ReadSinkIsExposed(traits));
}

TEST(Traits, QueueSizesFollowTheReceivesAndTheDevicesLimits) {
  const QueueSizes usual = SizesFor(Adapter(), 64);
  EXPECT_EQ(usual.receive, 512u);
  EXPECT_EQ(usual.completion, usual.send + usual.receive);
  EXPECT_EQ(SizesFor(Adapter(), 1000).receive, 2000u) << "twice the receives of the set-up";

  Traits small = Adapter();
  small.max_work_requests = 100;
  EXPECT_EQ(SizesFor(small, 1000).receive, 100u);
  EXPECT_EQ(SizesFor(small, 1000).send, 100u);
}

// All posted requests may complete before the queue is polled, and a queue that overflows is lost.
TEST(Traits, CompletionQueueHoldsTheRequestsOfBothQueues) {
  Traits traits = Adapter();
  for (uint32_t completions : {300u, 600u, 100'000u}) {
    traits.max_completions = completions;
    const QueueSizes sizes = SizesFor(traits, 1000);
    EXPECT_LE(sizes.completion, completions);
    EXPECT_GE(sizes.completion, sizes.send + sizes.receive);
  }
}

TEST(Traits, ReadDepthsStayWithinTheLimitsOfTheDeviceAndThePeer) {
  Traits traits = Adapter();
  traits.max_ird = 4;
  traits.max_ord = 8;
  EXPECT_EQ(OfferedDepths(traits, {.ird = 16, .ord = 16}), (ReadDepths{.ird = 4, .ord = 8}));
  EXPECT_EQ(OfferedDepths(traits, {.ird = 1, .ord = 2}), (ReadDepths{.ird = 1, .ord = 2}));
  EXPECT_EQ(AgreedDepths(traits, {.ird = 16, .ord = 16}, {.ird = 3, .ord = 9}), (ReadDepths{.ird = 4, .ord = 3}));
  EXPECT_EQ(AgreedDepths(traits, {.ird = 16, .ord = 16}, {.ird = 128, .ord = 0}), (ReadDepths{.ird = 0, .ord = 8}));
  EXPECT_EQ(AgreedDepths(traits, {.ird = 1, .ord = 1}, {.ird = 9, .ord = 9}), (ReadDepths{.ird = 1, .ord = 1}));
  traits.transport = Transport::kIwarp;
  EXPECT_EQ(AgreedDepths(traits, {.ird = 1, .ord = 1}, {.ird = 9, .ord = 9}), (ReadDepths{.ird = 4, .ord = 1}));
}

TEST(Traits, TransferLimitFollowsTheDevice) {
  Traits traits = Adapter();
  traits.max_message = 8 << 20;
  EXPECT_EQ(LimitsFor(traits).max_transfer, uint32_t{8 << 20});
  traits.max_message = ~0u;
  EXPECT_EQ(LimitsFor(traits).max_message, 1u << 30);
  EXPECT_FALSE(LimitsFor(traits).file_data);
}

TEST(Traits, DescriptionSaysHowTheDeviceWouldBeUsed) {
  const std::string said = Describe(Adapter());
  for (const char* word : {"mlx5_0", "RoCE", "active", "type 2 windows", "IRD 16", "ORD 16", "30 pieces"}) {
    EXPECT_THAT(said, HasSubstr(word));
  }
  Traits traits = Adapter();
  traits.windows_type_2 = traits.port_active = false;
  traits.transport = Transport::kIwarp;
  for (const char* word : {"iWARP", "down", "a registration for each call"}) {
    EXPECT_THAT(Describe(traits), HasSubstr(word));
  }
}

}  // namespace
}  // namespace penstock::rdma::verbs
