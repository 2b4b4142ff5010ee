#include "nfs/padded_handle.h"

#include <gtest/gtest.h>

#include <string>

#include "nfs/test_values.h"

namespace penstock::nfs {
namespace {

TEST(PaddedHandle, RoundTripsEachLengthThatFits) {
  for (size_t size = 1; size <= kMaxPaddedObject; ++size) {
    const FileHandle handle = HandleOf(0x01020304, std::string(size, 'h'));
    const auto padded = ToPadded(handle);
    ASSERT_TRUE(padded) << size;
    EXPECT_EQ(FromPadded(*padded), handle) << size;
  }
}

// The file system may use any octets, also zeros at the end.
TEST(PaddedHandle, KeepsZerosAtTheEndOfAHandle) {
  using std::string_view_literals::operator""sv;
  EXPECT_EQ(FromPadded(*ToPadded(HandleOf(7, "ab\0\0"sv))), HandleOf(7, "ab\0\0"sv));
  EXPECT_NE(*ToPadded(HandleOf(7, "ab\0\0"sv)), *ToPadded(HandleOf(7, "ab\0"sv)));
}

TEST(PaddedHandle, LayoutNeverChanges) {
  const auto padded = ToPadded(HandleOf(0x01020304, "ab"));
  EXPECT_EQ(AsText(*padded), std::string("\x82\x01\x02\x03\x04"
                                         "ab") +
                                 std::string(25, '\0'));
}

TEST(PaddedHandle, RejectsAHandleThatIsTooLong) {
  EXPECT_EQ(kMaxPaddedObject, 27u);
  EXPECT_FALSE(ToPadded(HandleOf(1, std::string(28, 'h'))));
  EXPECT_FALSE(ToPadded(HandleOf(1, std::string(fs::Handle::kMaxSize, 'h'))));
}

TEST(PaddedHandle, RejectsOctetsInThePadding) {
  const PaddedHandle good = *ToPadded(HandleOf(0x01020304, "ab"));
  for (size_t at = FileHandle::kHeaderSize + 2; at < good.size(); ++at) {
    PaddedHandle bad = good;
    bad[at] = std::byte{1};
    EXPECT_FALSE(FromPadded(bad)) << at;
  }
}

TEST(PaddedHandle, RejectsUnknownFormats) {
  const PaddedHandle good = *ToPadded(HandleOf(0x01020304, std::string(27, 'h')));
  for (const int first : {0x00, 0x01, 0x1b, 0x7f, 0x80, 0x80 + 28, 0xff}) {
    PaddedHandle bad = good;
    bad[0] = static_cast<std::byte>(first);
    EXPECT_FALSE(FromPadded(bad)) << first;
  }
  EXPECT_FALSE(FromPadded(PaddedHandle{}));
}

}  // namespace
}  // namespace penstock::nfs
