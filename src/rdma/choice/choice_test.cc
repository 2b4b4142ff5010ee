#include "rdma/choice/choice.h"

#include <gmock/gmock.h>

#include <asio/ip/tcp.hpp>
#include <optional>
#include <vector>

#include "base/released_socket.h"

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

TEST(Choice, StepsUpWithSoftwareIwarpWhateverTheUserChose) {
  Loop loop;
  std::vector<Kind> made;
  ChoosingProvider provider({Kind::kVerbs, "mlx5_99"}, loop, [&](const Chosen& chosen) {
    made.push_back(chosen.kind);
    return MakeProvider(chosen, {}, loop, {}, std::make_shared<verbs::Registry>());
  });
  std::optional<ConnectResult> result;
  Spawn([](Task<ConnectResult> stepping, std::optional<ConnectResult>& out) -> Task<> {
    ConnectResult value = co_await std::move(stepping);
    out.emplace(std::move(value));
  }(provider.StepUp({asio::ip::tcp::socket(loop.context()), {}}, StepUpRole::kInitiator, {}, {}), result));
  ASSERT_TRUE(result);
  EXPECT_FALSE(*result) << "the socket is not connected";
  EXPECT_EQ(made, std::vector{Kind::kIwarp});
}

}  // namespace
}  // namespace penstock::rdma
