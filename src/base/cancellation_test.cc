#include "base/cancellation.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>

namespace penstock {
namespace {

TEST(Cancellation, EndsAllWorkOnceInItsOrder) {
  Cancellation cancellation;
  std::string ended;
  const Cancellation::Entry first(&cancellation, [&] { ended += "1"; });
  {
    const Cancellation::Entry over(&cancellation, [&] { ended += "over"; });
  }
  const Cancellation::Entry second(&cancellation, [&] { ended += "2"; });
  EXPECT_FALSE(cancellation.cancelled());
  cancellation.Cancel();
  EXPECT_TRUE(cancellation.cancelled());
  cancellation.Cancel();
  EXPECT_EQ(ended, "12");
}

TEST(Cancellation, WorkThatEndsMayDestroyItsEntryAndOthers) {
  Cancellation cancellation;
  std::optional<Cancellation::Entry> first, second, third;
  std::string ended;
  first.emplace(&cancellation, [&] {
    ended += "1";
    first.reset();
    second.reset();
  });
  second.emplace(&cancellation, [&] { ended += "2"; });
  third.emplace(&cancellation, [&] { ended += "3"; });
  cancellation.Cancel();
  EXPECT_EQ(ended, "13");
}

TEST(Cancellation, WorkThatEndsMayDestroyTheCancellation) {
  auto cancellation = std::make_unique<Cancellation>();
  std::optional<Cancellation::Entry> only;
  only.emplace(cancellation.get(), [&] {
    only.reset();
    cancellation.reset();
  });
  cancellation->Cancel();
  EXPECT_FALSE(cancellation);
}

TEST(Cancellation, WorkThatBeginsTooLateIsNotInTheList) {
  Cancellation cancellation;
  cancellation.Cancel();
  const Cancellation::Entry late(&cancellation, [] { ADD_FAILURE() << "called"; });
  cancellation.Cancel();
  EXPECT_TRUE(IsCancelled(&cancellation));
}

TEST(Cancellation, WorkMayHaveNone) {
  const Cancellation::Entry none(nullptr, [] { ADD_FAILURE() << "called"; });
  EXPECT_FALSE(IsCancelled(nullptr));
}

}  // namespace
}  // namespace penstock
