#include "penstock/result.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace penstock_test {
namespace {

using penstock::Error;
using penstock::Failure;
using penstock::Result;

TEST(ResultTest, HoldsAValue) {
  Result<std::string> result = "text";
  ASSERT_TRUE(result);
  EXPECT_TRUE(result.has_value());
  EXPECT_EQ(*result, "text");
  EXPECT_EQ(result->size(), 4u);
  EXPECT_EQ(result.value(), "text");
  EXPECT_EQ(result.value_or("other"), "text");
}

TEST(ResultTest, HoldsAnError) {
  const Result<std::string> result = Error{ENOENT, "a: no such file or directory"};
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error(), (Error{ENOENT, "a: no such file or directory"}));
  EXPECT_EQ(result.error().code(), std::errc::no_such_file_or_directory);
  EXPECT_EQ(result.value_or("other"), "other");
}

TEST(ResultTest, ThrowsTheErrorOfAFailure) {
  const Result<int> result = Error{EACCES, "permission denied"};
  try {
    (void)result.value();
    FAIL() << "no exception";
  } catch (const std::system_error& failure) {
    EXPECT_EQ(failure.code(), std::errc::permission_denied);
    EXPECT_STREQ(failure.what(), "permission denied");
  }
  try {
    Result<void>(Error{EIO, ""}).value();
    FAIL() << "no exception";
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.error().number, EIO);
    EXPECT_STREQ(failure.what(), std::generic_category().message(EIO).c_str());
  }
}

TEST(ResultTest, MovesValuesThatCannotBeCopied) {
  Result<std::unique_ptr<int>> result = std::make_unique<int>(7);
  Result<std::unique_ptr<int>> moved = std::move(result);
  const std::unique_ptr<int> value = std::move(moved).value();
  EXPECT_EQ(*value, 7);
}

TEST(ResultTest, ATemporaryResultGivesItsValueToALoop) {
  const auto make = [] { return Result<std::vector<int>>(std::vector<int>{1, 2, 3}); };
  int sum = 0;
  for (const int each : *make()) sum += each;
  for (const int each : make().value()) sum += each;
  EXPECT_EQ(sum, 12);
}

TEST(ResultTest, OfVoidSucceedsByDefault) {
  const Result<> success;
  EXPECT_TRUE(success);
  success.value();
  const Result<> failure = Error{EIO, "lost"};
  EXPECT_FALSE(failure);
  EXPECT_EQ(failure.error().message, "lost");
}

}  // namespace
}  // namespace penstock_test
