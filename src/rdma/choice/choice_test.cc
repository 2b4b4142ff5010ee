#include "rdma/choice/choice.h"

#include <gmock/gmock.h>

namespace penstock::rdma {
namespace {

using testing::HasSubstr;
const auto kLoopback = asio::ip::address_v4::loopback();

TEST(Choice, ParsesTheKindsOfProviders) {
  EXPECT_EQ(ParseKind("auto"), Kind::kAuto);
  EXPECT_EQ(ParseKind("verbs"), Kind::kVerbs);
  EXPECT_EQ(ParseKind("iwarp"), Kind::kIwarp);
  EXPECT_EQ(ParseKind("infiniband"), std::nullopt);
}

// On every machine no device has the address of the loopback interface.
TEST(Choice, AutoChoosesSoftwareIwarpIfNoDeviceHasTheAddress) {
  for (const auto& choose : {ChooseFor, ChooseToward}) {
    const auto chosen = choose({}, kLoopback);
    ASSERT_TRUE(chosen);
    EXPECT_EQ(chosen->kind, Kind::kIwarp);
    EXPECT_THAT(chosen->description, HasSubstr("software iWARP"));
  }
}

TEST(Choice, FailsIfVerbsOrTheRequiredDeviceIsMissing) {
  for (const Choice& choice : {Choice{Kind::kVerbs, ""}, Choice{Kind::kAuto, "mlx5_99"}}) {
    const auto chosen = ChooseFor(choice, kLoopback);
    ASSERT_FALSE(chosen);
    EXPECT_THAT(chosen.error().message, HasSubstr("--rdma iwarp"));
  }
}

TEST(Choice, MakesAProviderOnceForAllPeers) {
  Loop loop;
  const auto registry = std::make_shared<verbs::Registry>();
  int made = 0;
  ChoosingProvider provider({Kind::kIwarp, ""}, loop, [&](const Chosen& chosen) {
    ++made;
    return MakeProvider(chosen, {}, loop, {}, registry);
  });
  const auto first = provider.Toward(kLoopback);
  const auto second = provider.Toward(asio::ip::make_address("192.0.2.1"));
  ASSERT_TRUE(first);
  ASSERT_TRUE(second);
  EXPECT_EQ(*first, *second);
  EXPECT_EQ((*first)->name(), "iwarp");
  EXPECT_EQ(made, 1);
}

}  // namespace
}  // namespace penstock::rdma
