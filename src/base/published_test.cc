#include "base/published.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace penstock {
namespace {

TEST(PublishedTest, GivesTheLatestVersion) {
  Published<int> published(std::make_shared<const int>(1));
  EXPECT_EQ(*published.Get(), 1);
  published.Set(std::make_shared<const int>(2));
  EXPECT_EQ(*published.Get(), 2);
  EXPECT_FALSE(Published<int>().Get());
}

TEST(PublishedTest, AVersionEndsWithItsLastUser) {
  Published<int> published(std::make_shared<const int>(1));
  auto used = published.Get();
  const auto last = published.Set(std::make_shared<const int>(2));
  EXPECT_EQ(*used, 1);
  EXPECT_EQ(last.get(), used.get());
  EXPECT_GT(last.use_count(), 1);
  used.reset();
  EXPECT_EQ(last.use_count(), 1);
}

TEST(PublishedTest, ThreadsSeeWholeVersionsWhileOthersArePublished) {
  Published<std::vector<int>> published(std::make_shared<const std::vector<int>>(100, 0));
  std::vector<std::thread> users;
  std::atomic<bool> ended = false;
  std::atomic<int> mixed = 0;
  for (int i = 0; i < 4; ++i) {
    users.emplace_back([&] {
      while (!ended) {
        const auto version = published.Get();
        for (const int each : *version) mixed += each != version->front();
      }
    });
  }
  for (int i = 1; i <= 1000; ++i) published.Set(std::make_shared<const std::vector<int>>(100, i));
  ended = true;
  for (std::thread& each : users) each.join();
  EXPECT_EQ(mixed, 0);
}

}  // namespace
}  // namespace penstock
