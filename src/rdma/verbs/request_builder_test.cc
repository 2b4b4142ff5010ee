#include "rdma/verbs/request_builder.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <array>

#include "rdma/verbs/exposed_regions.h"
#include "rdma/verbs/fake_registrar.h"

namespace penstock::rdma::verbs {
namespace {

// Memory of this size is registered rather than copied.
constexpr size_t kLarge = 32 << 10;

class RequestBuilderTest : public testing::Test {
 protected:
  RequestBuilderTest() : outside_(kLarge), slab_(kLarge) {
    registrar_.set_slab(slab_);
    for (size_t i = 0; i < outside_.size(); ++i) outside_[i] = std::byte(i);
  }
  WorkRequest Send(Gather gather) { return ToWorkRequest(SendRequest{1, std::move(gather), false, {}}); }
  WorkRequest Read(Bytes sink) { return ToWorkRequest(ReadRequest{1, sink, {}, {Stag(7), 0, 99}}); }
  bool Build(WorkRequest& work) {
    pieces_.clear();
    return builder_.Build(work, request_, pieces_);
  }

  std::vector<std::byte> outside_, slab_;
  FakeRegistrar registrar_;
  Traits traits_ = WindowTraits();
  BufferPool buffers_;
  RequestBuilder builder_{traits_, registrar_, buffers_};
  ibv_send_wr request_{};
  std::vector<ibv_sge> pieces_;
};

TEST_F(RequestBuilderTest, SendFromASlabUsesTheSlabsKey) {
  WorkRequest work =
      Send({Slice::Borrowed(ConstBytes(slab_).first(100)), Slice(), Slice::Borrowed(ConstBytes(slab_).last(50))});
  work.solicited = true;
  ASSERT_TRUE(Build(work));
  EXPECT_EQ(request_.opcode, IBV_WR_SEND);
  EXPECT_EQ(request_.send_flags, unsigned{IBV_SEND_SOLICITED});
  ASSERT_EQ(request_.num_sge, 2);
  EXPECT_EQ(request_.sg_list, pieces_.data());
  EXPECT_EQ(pieces_[0].addr, reinterpret_cast<uintptr_t>(slab_.data()));
  EXPECT_EQ(pieces_[0].length, 100u);
  EXPECT_EQ(pieces_[0].lkey, FakeRegistrar::kSlabKey);
  EXPECT_EQ(pieces_[1].length, 50u);
  EXPECT_EQ(registrar_.registrations(), 0u);
}

TEST_F(RequestBuilderTest, ShortSendIsInlineAndNeedsNoKey) {
  builder_.set_max_inline(64);
  WorkRequest work = Send({Slice::Borrowed(ConstBytes(outside_).first(64))});
  ASSERT_TRUE(Build(work));
  EXPECT_EQ(request_.send_flags, unsigned{IBV_SEND_INLINE});
  EXPECT_EQ(pieces_[0].addr, reinterpret_cast<uintptr_t>(outside_.data()));
  EXPECT_EQ(pieces_[0].lkey, 0u);
}

TEST_F(RequestBuilderTest, SendWithInvalidateNamesTheRegion) {
  WorkRequest work = ToWorkRequest(SendRequest{1, {}, false, Stag(0x77)});
  ASSERT_TRUE(Build(work));
  EXPECT_EQ(request_.opcode, IBV_WR_SEND_WITH_INV);
  EXPECT_EQ(request_.invalidate_rkey, 0x77u);
  EXPECT_EQ(request_.num_sge, 0);
}

TEST_F(RequestBuilderTest, CopiesShortMemoryThatNoSlabHolds) {
  WorkRequest work = Send({Slice::Borrowed(ConstBytes(outside_).first(100))});
  EXPECT_FALSE(Build(work)) << "no slab holds the copy either";
  EXPECT_NE(work.gather[0].bytes().data(), outside_.data());
  EXPECT_TRUE(std::ranges::equal(work.gather[0].bytes(), ConstBytes(outside_).first(100)));
  EXPECT_EQ(registrar_.registrations(), 0u);
}

TEST_F(RequestBuilderTest, RegistersLongMemoryThatNoSlabHolds) {
  WorkRequest work = Send({Slice::Borrowed(outside_)});
  ASSERT_TRUE(Build(work));
  ASSERT_EQ(work.registrations.size(), 1u) << "the request keeps the registration until it completes";
  EXPECT_EQ(registrar_.AccessOf(work.registrations[0]), 0);
  EXPECT_EQ(pieces_[0].lkey, work.registrations[0]->lkey);
  registrar_.set_full(true);
  WorkRequest next = Send({Slice::Borrowed(outside_)});
  EXPECT_FALSE(Build(next));
}

TEST_F(RequestBuilderTest, CopiesASendWithTooManyPiecesIntoOne) {
  builder_.set_max_inline(64);
  Gather gather;
  for (size_t i = 0; i <= traits_.max_sge; ++i)
    gather.push_back(Slice::Borrowed(ConstBytes(outside_).subspan(10 * i, 10)));
  WorkRequest work = Send(std::move(gather));
  ASSERT_TRUE(Build(work));
  ASSERT_EQ(pieces_.size(), 1u);
  EXPECT_EQ(pieces_[0].length, 50u);
  EXPECT_TRUE(std::ranges::equal(work.gather[0].bytes(), ConstBytes(outside_).first(50)));
}

TEST_F(RequestBuilderTest, ReadUsesTheSlabsKeyForItsSink) {
  WorkRequest work = Read(slab_);
  ASSERT_TRUE(Build(work));
  EXPECT_EQ(request_.opcode, IBV_WR_RDMA_READ);
  EXPECT_EQ(request_.wr.rdma.rkey, 7u);
  EXPECT_EQ(request_.wr.rdma.remote_addr, 99u);
  EXPECT_EQ(request_.send_flags, 0u);
  EXPECT_EQ(pieces_[0].lkey, FakeRegistrar::kSlabKey);
}

TEST_F(RequestBuilderTest, ReadRegistersASinkThatNoSlabHolds) {
  WorkRequest work = Read(outside_);
  ASSERT_TRUE(Build(work));
  ASSERT_EQ(work.registrations.size(), 1u);
  EXPECT_EQ(registrar_.AccessOf(work.registrations[0]), IBV_ACCESS_LOCAL_WRITE);
}

// RFC 5040 §5.2: the peer writes its answer through the tag of the sink.
TEST_F(RequestBuilderTest, ReadOverIwarpRegistersItsSinkForThePeer) {
  traits_.transport = Transport::kIwarp;
  WorkRequest work = Read(slab_);
  ASSERT_TRUE(Build(work));
  ASSERT_EQ(work.registrations.size(), 1u);
  EXPECT_EQ(registrar_.AccessOf(work.registrations[0]), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
}

class WindowBindingTest : public RequestBuilderTest {
 protected:
  WorkRequest Binding(Bytes memory) {
    auto region = ExposedRegions::MakeRegion(memory);
    return *std::move(*regions_.Expose(region, memory, Access::kRemoteWrite));
  }
  ExposedRegions regions_{traits_, registrar_, [] { return 0u; }};
};

TEST_F(WindowBindingTest, BindsAWindowOverTheSlab) {
  WorkRequest work = Binding(Bytes(slab_).first(10));
  ASSERT_TRUE(Build(work));
  EXPECT_EQ(request_.opcode, IBV_WR_BIND_MW);
  EXPECT_EQ(request_.bind_mw.mw, work.region->window);
  EXPECT_EQ(request_.bind_mw.rkey, work.region->stag.value());
  EXPECT_EQ(request_.bind_mw.bind_info.mr->lkey, FakeRegistrar::kSlabKey);
  EXPECT_EQ(request_.bind_mw.bind_info.addr, reinterpret_cast<uintptr_t>(slab_.data()));
  EXPECT_EQ(request_.bind_mw.bind_info.length, 10u);
  EXPECT_EQ(request_.bind_mw.bind_info.mw_access_flags, unsigned{IBV_ACCESS_REMOTE_WRITE});
  EXPECT_EQ(registrar_.registrations(), 0u);
}

TEST_F(WindowBindingTest, BindsAWindowOverARegistrationIfNoSlabHoldsTheMemory) {
  WorkRequest work = Binding(outside_);
  ASSERT_TRUE(Build(work));
  ASSERT_NE(work.region->registration, nullptr) << "the region keeps the registration";
  EXPECT_EQ(request_.bind_mw.bind_info.mr, work.region->registration);
  EXPECT_EQ(registrar_.AccessOf(work.region->registration), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
}

TEST_F(WindowBindingTest, SoftwareRoceAlwaysGetsARegistrationUnderAWindow) {
  traits_.software_roce = true;
  WorkRequest work = Binding(slab_);
  ASSERT_TRUE(Build(work));
  EXPECT_NE(work.region->registration, nullptr);
}

TEST_F(WindowBindingTest, InvalidatesTheRegionsKey) {
  WorkRequest binding = Binding(slab_);
  WorkRequest work = ExposedRegions::MakeInvalidation(binding.region, 1, false);
  ASSERT_TRUE(Build(work));
  EXPECT_EQ(request_.opcode, IBV_WR_LOCAL_INV);
  EXPECT_EQ(request_.invalidate_rkey, binding.region->stag.value());
}

}  // namespace
}  // namespace penstock::rdma::verbs
