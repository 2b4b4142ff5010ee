#include "nfs/file_handle.h"

#include <gtest/gtest.h>

#include <string>

namespace penstock::nfs {
namespace {

FileHandle HandleOf(uint32_t export_id, std::string_view object) {
  return {ExportId(export_id), *fs::Handle::FromBytes(AsBytes(object))};
}

TEST(FileHandle, ComesBackAsItWasGivenOut) {
  const std::string longest(fs::Handle::kMaxSize, 'h');
  for (const auto object : {std::string_view("x"), std::string_view("inode 42"), std::string_view(longest)}) {
    const FileHandle handle = HandleOf(0x01020304, object);
    EXPECT_EQ(FileHandle::Parse(EncodedHandle(handle).bytes()), handle);
  }
}

TEST(FileHandle, HasALayoutThatClientsMayKeepForYears) {
  const EncodedHandle encoded(HandleOf(0x01020304, "ab"));
  EXPECT_EQ(AsText(encoded.bytes()), std::string_view("\x01\x01\x02\x03\x04"
                                                      "ab"));
}

TEST(FileHandle, OtherBytesAreNoHandle) {
  using std::string_view_literals::operator""sv;
  EXPECT_FALSE(FileHandle::Parse({}));
  EXPECT_FALSE(FileHandle::Parse(AsBytes("\x01\x01\x02\x03")));            // cut off in the export id
  EXPECT_FALSE(FileHandle::Parse(AsBytes("\x01\x01\x02\x03\x04")));        // no object
  EXPECT_FALSE(FileHandle::Parse(AsBytes("\x02\x01\x02\x03\x04object")));  // a version that never was
  EXPECT_FALSE(FileHandle::Parse(AsBytes("\x00\x01\x02\x03\x04object"sv)));
  const std::string too_long = "\x01\x01\x02\x03\x04" + std::string(fs::Handle::kMaxSize + 1, 'h');
  EXPECT_FALSE(FileHandle::Parse(AsBytes(too_long)));
}

}  // namespace
}  // namespace penstock::nfs
