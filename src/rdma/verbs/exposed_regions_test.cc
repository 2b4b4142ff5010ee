#include "rdma/verbs/exposed_regions.h"

#include <gmock/gmock.h>

#include <array>
#include <cerrno>

#include "rdma/verbs/fake_registrar.h"

namespace penstock::rdma::verbs {
namespace {

using testing::ElementsAre;

class ExposedRegionsTest : public testing::Test {
 protected:
  std::shared_ptr<ExposedRegion> Expose(ExposedRegions& regions, Access access = Access::kRemoteRead) {
    auto region = ExposedRegions::MakeRegion(Bytes(memory_));
    auto bind = regions.Expose(region, Bytes(memory_), access);
    EXPECT_TRUE(bind);
    if (bind) bind_ = *std::move(bind);
    return region;
  }

  std::array<std::byte, 128> memory_{};
  uint32_t entropy_ = 0;
  FakeRegistrar registrar_;
  const Traits window_traits_ = WindowTraits();
  const Traits registration_traits_ = RegistrationTraits();
  ExposedRegions windows_{window_traits_, registrar_, [this] { return entropy_; }};
  ExposedRegions registrations_{registration_traits_, registrar_, [this] { return entropy_; }};
  std::optional<WorkRequest> bind_;  // the result of the last Expose()
};

TEST_F(ExposedRegionsTest, NewRegionIsNotValid) {
  const auto region = ExposedRegions::MakeRegion(Bytes(memory_));
  EXPECT_FALSE(region->valid);
  EXPECT_EQ(region->offset, reinterpret_cast<uintptr_t>(memory_.data()));
  EXPECT_EQ(region->length, memory_.size());
}

TEST_F(ExposedRegionsTest, RegistersMemoryForTheAccessOfThePeer) {
  const auto readable = Expose(registrations_, Access::kRemoteRead);
  const auto writable = Expose(registrations_, Access::kRemoteWrite);
  EXPECT_FALSE(bind_) << "a registration needs no work request";
  EXPECT_TRUE(readable->valid);
  EXPECT_EQ(readable->stag, Stag(readable->registration->rkey));
  EXPECT_EQ(registrar_.AccessOf(readable->registration), IBV_ACCESS_REMOTE_READ);
  EXPECT_EQ(registrar_.AccessOf(writable->registration), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  EXPECT_FALSE(ExposedRegions::InvalidatedByRequest(*readable));
}

TEST_F(ExposedRegionsTest, BindsAWindowByASilentRequest) {
  const auto region = Expose(windows_, Access::kRemoteWrite);
  ASSERT_TRUE(bind_);
  EXPECT_EQ(bind_->opcode, IBV_WR_BIND_MW);
  EXPECT_TRUE(bind_->silent);
  EXPECT_EQ(bind_->access, Access::kRemoteWrite);
  EXPECT_EQ(bind_->region, region);
  EXPECT_EQ(bind_->local.data(), memory_.data());
  EXPECT_TRUE(region->valid);
  EXPECT_EQ(region->registration, nullptr);
  EXPECT_TRUE(ExposedRegions::InvalidatedByRequest(*region));
  EXPECT_EQ(windows_.Find(region->stag), region);
}

TEST_F(ExposedRegionsTest, GivesEachWindowAKeyWithANewLastOctet) {
  for (entropy_ = 0; entropy_ < 600; ++entropy_) {
    const auto region = Expose(windows_);
    EXPECT_EQ(region->stag.value() & ~0xFFu, region->window->rkey & ~0xFFu);
    EXPECT_NE(region->stag.value(), region->window->rkey);
  }
}

TEST_F(ExposedRegionsTest, ReportsThatMemoryCannotBeRegistered) {
  registrar_.set_full(true);
  const auto region = ExposedRegions::MakeRegion(Bytes(memory_));
  const auto exposed = registrations_.Expose(region, Bytes(memory_), Access::kRemoteRead);
  ASSERT_FALSE(exposed);
  EXPECT_EQ(exposed.error(), ExposedRegions::Error::kCannotRegister);
  EXPECT_FALSE(region->valid);
}

TEST_F(ExposedRegionsTest, ReportsThatNoWindowIsLeft) {
  registrar_.set_windows(0);
  const auto region = ExposedRegions::MakeRegion(Bytes(memory_));
  const auto exposed = windows_.Expose(region, Bytes(memory_), Access::kRemoteRead);
  ASSERT_FALSE(exposed);
  EXPECT_EQ(exposed.error(), ExposedRegions::Error::kNoWindow);
  EXPECT_FALSE(region->valid);
}

TEST_F(ExposedRegionsTest, InvalidationOfAWindowIsARequestAndMarksTheRegion) {
  const auto region = Expose(windows_);
  const WorkRequest request = ExposedRegions::MakeInvalidation(region, 5, /*silent=*/false);
  EXPECT_EQ(request.opcode, IBV_WR_LOCAL_INV);
  EXPECT_EQ(request.operation, Operation::kInvalidate);
  EXPECT_EQ(request.context, 5u);
  EXPECT_FALSE(request.silent);
  EXPECT_EQ(request.region, region);
  EXPECT_TRUE(region->closing);
  EXPECT_TRUE(region->valid) << "the region stays valid until the request completes";
}

TEST_F(ExposedRegionsTest, RetireReturnsTheWindowWithItsNewKey) {
  const auto region = Expose(windows_);
  ibv_mw* window = region->window;
  EXPECT_EQ(windows_.Retire(*region), 0);
  EXPECT_FALSE(region->valid);
  EXPECT_THAT(registrar_.returned(), ElementsAre(window));
  EXPECT_EQ(window->rkey, region->stag.value());
  EXPECT_EQ(windows_.Find(region->stag), nullptr);
}

TEST_F(ExposedRegionsTest, RetireDeregistersMemory) {
  const auto region = Expose(registrations_);
  EXPECT_EQ(registrations_.Retire(*region), 0);
  EXPECT_FALSE(region->valid);
  EXPECT_EQ(registrar_.registrations(), 0u);
  EXPECT_EQ(registrations_.Find(region->stag), nullptr);
}

// RFC 8166 §4.5.4: the caller ends the connection then.
TEST_F(ExposedRegionsTest, RetireReportsARegistrationThatTheAdapterKeeps) {
  const auto region = Expose(registrations_);
  registrar_.set_deregister_error(EBUSY);
  EXPECT_EQ(registrations_.Retire(*region), EBUSY);
  EXPECT_FALSE(region->valid);
  registrar_.set_deregister_error(0);
  registrations_.ReleaseRegistrations();
  EXPECT_EQ(registrar_.registrations(), 0u) << "the end of the connection deregisters it";
}

TEST_F(ExposedRegionsTest, EndOfTheConnectionReleasesAllRegions) {
  const auto first = Expose(windows_);
  const auto second = Expose(windows_);
  first->registration = registrar_.Register(memory_, 0);
  windows_.ReleaseWindows();
  EXPECT_EQ(registrar_.destroyed().size(), 2u);
  EXPECT_EQ(registrar_.registrations(), 1u) << "only ReleaseRegistrations() deregisters memory";
  windows_.ReleaseRegistrations();
  EXPECT_EQ(registrar_.registrations(), 0u);
  EXPECT_FALSE(first->valid);
  EXPECT_FALSE(second->valid);
  EXPECT_EQ(windows_.Find(first->stag), nullptr);
}

}  // namespace
}  // namespace penstock::rdma::verbs
