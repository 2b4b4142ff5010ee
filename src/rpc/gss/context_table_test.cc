#include "rpc/gss/context_table.h"

#include <gtest/gtest.h>

#include <vector>

namespace penstock::rpc::gss {
namespace {

// A mechanism without function that counts its instances.
class CountedContext : public MechanismContext {
 public:
  explicit CountedContext(int& count) : count_(count) { ++count_; }
  ~CountedContext() override { --count_; }
  Result<Step> Accept(ConstBytes) override { return Step{}; }
  Result<Initiator> GetInitiator() override { return Initiator{}; }
  Result<void> VerifyMic(ConstBytes, ConstBytes) override { return {}; }
  Result<void> GetMic(ConstBytes, Mic&) override { return {}; }
  Result<WrapRoom> RoomToWrap(size_t) override { return WrapRoom{}; }
  Result<void> Wrap(Bytes, const WrapRoom&) override { return {}; }
  Result<Bytes> Unwrap(Bytes message) override { return message; }

 private:
  int& count_;
};

class ContextTableTest : public testing::Test {
 protected:
  static IpAddress Address(int number) { return asio::ip::address_v4(0xc000'0200u + number); }
  // Begins a context that waits for its client's next token.
  std::optional<Handle> Wait(int address = 1) {
    const auto handle = table.Begin(Address(address), now);
    if (handle) table.Continue(*handle, std::make_unique<CountedContext>(contexts), now);
    return handle;
  }
  Handle Establish(TimePoint expires = TimePoint::max(), std::optional<Conjunction> conjunction = {}) {
    const Handle handle = *table.Begin(Address(1), now);
    auto context = std::make_shared<SecurityContext>();
    context->handle = handle;
    context->expires = expires;
    context->conjunction = std::move(conjunction);
    context->protection->mechanism = std::make_unique<CountedContext>(contexts);
    table.Establish(std::move(context), now);
    return handle;
  }
  // Establishes a CCM context.
  Handle Conjoin(const Handle& inner) {
    return Establish(TimePoint::max(), Conjunction{.inner = inner, .hosts = {Address(1), Address(2)}});
  }
  bool Knows(const Handle& handle) { return table.Find(handle, now).context != nullptr; }

  int contexts = 0;
  TimePoint now{};
  uint8_t next = 0;
  ContextTable table{{.established = 4, .begun = 6, .begun_by_one_address = 3, .begun_for = std::chrono::seconds(30)},
                     [this](Bytes room) { std::ranges::fill(room, std::byte{next++}); }};
};

TEST_F(ContextTableTest, MakesHandlesFromRandomOctets) {
  next = 42;
  const auto handle = table.Begin(Address(1), now);
  ASSERT_TRUE(handle);
  for (const std::byte octet : *handle) EXPECT_EQ(octet, std::byte{42});
}

TEST_F(ContextTableTest, FindsAContextByItsHandle) {
  const Handle handle = Establish();
  EXPECT_EQ(table.Find(handle, now).context->handle, handle);
  EXPECT_EQ(table.begun(), 0u);
  Handle other = handle;
  other[15] ^= std::byte{1};
  EXPECT_FALSE(Knows(other));
  EXPECT_FALSE(table.Find(ConstBytes(handle).first(15), now).context);
  EXPECT_FALSE(table.Find({}, now).context);
}

TEST_F(ContextTableTest, DoesNotFindAPendingContext) {
  const auto handle = Wait();
  EXPECT_FALSE(Knows(*handle));
  EXPECT_TRUE(table.Resume(*handle, now));
}

TEST_F(ContextTableTest, ProcessesOneTokenOfAContextAtATime) {
  const auto handle = Wait();
  auto mechanism = table.Resume(*handle, now);
  EXPECT_TRUE(mechanism);
  EXPECT_FALSE(table.Resume(*handle, now));
  table.Continue(*handle, std::move(mechanism), now);
  EXPECT_TRUE(table.Resume(*handle, now));
}

TEST_F(ContextTableTest, RemovesAnAbandonedContext) {
  const auto handle = Wait();
  table.Resume(*handle, now).reset();
  table.Abandon(*handle);
  EXPECT_FALSE(table.Resume(*handle, now));
  EXPECT_EQ(table.begun(), 0u);
}

TEST_F(ContextTableTest, RemovesAPendingContextAfterTheTimeLimit) {
  const auto handle = Wait();
  now += std::chrono::seconds(30);
  EXPECT_FALSE(table.Resume(*handle, now));
  EXPECT_EQ(contexts, 0);
  Wait();
  now += std::chrono::seconds(30);
  Wait();
  EXPECT_EQ(table.begun(), 1u);
}

TEST_F(ContextTableTest, AddressAtItsLimitLosesItsOwnOldestContext) {
  const auto others = Wait(2);
  const auto first = Wait(1);
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(Wait(1));
  EXPECT_EQ(contexts, 4);
  EXPECT_FALSE(table.Resume(*first, now)) << "the oldest one was removed";
  EXPECT_TRUE(table.Resume(*others, now));
}

TEST_F(ContextTableTest, LimitsThePendingContextsOfAllAddresses) {
  const auto first = Wait(1);
  for (int address = 2; address < 100; ++address) EXPECT_TRUE(Wait(address));
  EXPECT_EQ(table.begun(), 6u);
  EXPECT_EQ(contexts, 6);
  EXPECT_FALSE(table.Resume(*first, now));
}

TEST_F(ContextTableTest, KeepsContextsThatAreProcessingAToken) {
  std::vector<Handle> looked_at;
  for (int i = 0; i < 3; ++i) looked_at.push_back(*table.Begin(Address(1), now));
  now += std::chrono::hours(1);
  EXPECT_FALSE(table.Begin(Address(1), now));
  EXPECT_TRUE(table.Begin(Address(2), now));
  table.Abandon(looked_at[1]);
  EXPECT_TRUE(table.Begin(Address(1), now));
}

TEST_F(ContextTableTest, RemovesTheLeastRecentlyUsedContext) {
  std::vector<Handle> handles;
  for (int i = 0; i < 4; ++i) handles.push_back(Establish());
  EXPECT_TRUE(Knows(handles[0]));
  handles.push_back(Establish());
  EXPECT_TRUE(Knows(handles[0]));
  EXPECT_FALSE(Knows(handles[1]));
  EXPECT_EQ(table.established(), 4u);
}

TEST_F(ContextTableTest, RemovesAContextAtTheEndOfItsLifetime) {
  const Handle handle = Establish(now + std::chrono::hours(1));
  now += std::chrono::hours(1) - std::chrono::nanoseconds(1);
  EXPECT_FALSE(table.Find(handle, now).expired);
  now += std::chrono::nanoseconds(1);
  const auto found = table.Find(handle, now);
  EXPECT_TRUE(found.context && found.expired);
  EXPECT_FALSE(Knows(handle)) << "an expired context is found once";
}

TEST_F(ContextTableTest, NewContextRemovesExpiredOnes) {
  for (int i = 0; i < 3; ++i) Establish(now + std::chrono::hours(1));
  now += std::chrono::hours(2);
  Establish();
  EXPECT_EQ(table.established(), 2u);
  Establish();
  EXPECT_EQ(table.established(), 2u);
  EXPECT_EQ(contexts, 2);
}

TEST_F(ContextTableTest, CallKeepsItsContextAlive) {
  const Handle handle = Establish();
  auto in_use = table.Find(handle, now).context;
  table.Remove(handle);
  EXPECT_FALSE(Knows(handle));
  EXPECT_EQ(contexts, 1);
  in_use.reset();
  EXPECT_EQ(contexts, 0);
}

TEST_F(ContextTableTest, CcmContextEndsWithItsInnerContext) {
  const Handle inner = Establish();
  const Handle conjoined = Conjoin(inner);
  EXPECT_TRUE(Knows(conjoined));
  table.Remove(inner);
  EXPECT_FALSE(Knows(conjoined));
  EXPECT_EQ(contexts, 0) << "the table has forgotten both";
}

TEST_F(ContextTableTest, UseOfACcmContextIsAUseOfItsInnerContext) {
  const Handle inner = Establish();
  const Handle conjoined = Conjoin(inner);
  const Handle idle = Establish();
  Establish();
  EXPECT_TRUE(Knows(conjoined));
  Establish();
  EXPECT_FALSE(Knows(idle));
  EXPECT_TRUE(Knows(conjoined));
  EXPECT_TRUE(Knows(inner));
}

TEST_F(ContextTableTest, CcmContextsCountAgainstTheLimitOfContexts) {
  const Handle inner = Establish();
  std::vector<Handle> conjoined;
  for (int i = 0; i < 4; ++i) conjoined.push_back(Conjoin(inner));
  EXPECT_EQ(table.established(), 4u);
  EXPECT_FALSE(Knows(inner)) << "the least recently used one";
  EXPECT_FALSE(Knows(conjoined[3]));
}

TEST_F(ContextTableTest, AcceptsRemovalOfAnUnknownContext) {
  const Handle handle = Establish();
  table.Remove(handle);
  table.Remove(handle);
  EXPECT_EQ(table.established(), 0u);
}

}  // namespace
}  // namespace penstock::rpc::gss
