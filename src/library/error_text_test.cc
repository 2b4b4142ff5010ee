#include "library/error_text.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <thread>

#include "penstock/penstock.h"

namespace penstock::library {
namespace {

TEST(ErrorTextTest, EachThreadHasItsOwnText) {
  EXPECT_EQ(Fail(EBUSY, "it is in use"), -EBUSY);
  std::thread([] {
    EXPECT_STREQ(penstock_error_text(), "");
    SetErrorText("another");
    EXPECT_STREQ(penstock_error_text(), "another");
  }).join();
  EXPECT_STREQ(penstock_error_text(), "it is in use");
}

}  // namespace
}  // namespace penstock::library
