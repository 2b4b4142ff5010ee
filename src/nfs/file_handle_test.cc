#include "nfs/file_handle.h"

#include <gtest/gtest.h>

#include <string>

#include "nfs/test_values.h"

namespace penstock::nfs {
namespace {

TEST(FileHandle, RoundTrips) {
  const std::string longest(fs::Handle::kMaxSize, 'h');
  for (const auto object : {std::string_view("x"), std::string_view("inode 42"), std::string_view(longest)}) {
    const FileHandle handle = HandleOf(0x01020304, object);
    EXPECT_EQ(FileHandle::Parse(EncodedHandle(handle).bytes()), handle);
  }
}

TEST(FileHandle, LayoutNeverChanges) {
  const EncodedHandle encoded(HandleOf(0x01020304, "ab"));
  EXPECT_EQ(AsText(encoded.bytes()), std::string_view("\x01\x01\x02\x03\x04"
                                                      "ab"));
}

TEST(FileHandle, RejectsMalformedHandles) {
  using std::string_view_literals::operator""sv;
  EXPECT_FALSE(FileHandle::Parse({}));
  EXPECT_FALSE(FileHandle::Parse(AsBytes("\x01\x01\x02\x03")));            // truncated in the export id
  EXPECT_FALSE(FileHandle::Parse(AsBytes("\x01\x01\x02\x03\x04")));        // without an object
  EXPECT_FALSE(FileHandle::Parse(AsBytes("\x02\x01\x02\x03\x04object")));  // an unknown version
  EXPECT_FALSE(FileHandle::Parse(AsBytes("\x00\x01\x02\x03\x04object"sv)));
  const std::string too_long = "\x01\x01\x02\x03\x04" + std::string(fs::Handle::kMaxSize + 1, 'h');
  EXPECT_FALSE(FileHandle::Parse(AsBytes(too_long)));
}

}  // namespace
}  // namespace penstock::nfs
