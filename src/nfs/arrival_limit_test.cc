#include "nfs/arrival_limit.h"

#include <gtest/gtest.h>

#include <array>
#include <optional>

#include "base/test_loop.h"

namespace penstock::nfs {
namespace {

TEST(ArrivalLimit, EndsTheWaitForDataThatDoNotArrive) {
  Loop loop;
  std::array<std::byte, 100> octets{};
  const auto arrival = std::make_shared<Arrival>();
  const Data data(Slice::Borrowed(octets), arrival);
  arrival->Advance(40);
  std::optional<size_t> arrived;
  {
    const ArrivalLimit limit(&loop, data, std::chrono::milliseconds(1));
    Spawn([](const Data& given, std::optional<size_t>& size) -> Task<void> {
      (void)co_await given.AllArrived();
      size = given.arrived();
    }(data, arrived));
    EXPECT_FALSE(arrived);
    EXPECT_TRUE(TurnUntil(loop, [&] { return arrived.has_value(); }));
  }
  EXPECT_EQ(arrived, 40u);
}

TEST(ArrivalLimit, EndsWithTheWrite) {
  Loop loop;
  std::array<std::byte, 100> octets{};
  const auto arrival = std::make_shared<Arrival>();
  const Data data(Slice::Borrowed(octets), arrival);
  {
    const ArrivalLimit limit(&loop, data, std::chrono::milliseconds(1));
  }
  TurnFor(loop, std::chrono::milliseconds(5));
  bool has_waited = false;
  Spawn([](const Data& given, bool& done) -> Task<void> {
    (void)co_await given.ArrivedBeyond(0);
    done = true;
  }(data, has_waited));
  EXPECT_FALSE(has_waited) << "the wait has not ended";
  arrival->Advance(1);
  EXPECT_TRUE(has_waited);
}

}  // namespace
}  // namespace penstock::nfs
