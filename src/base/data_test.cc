#include "base/data.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <array>
#include <string>

namespace penstock {
namespace {

std::shared_ptr<const FileDescriptor> FileWith(std::string_view text) {
  FileDescriptor file(::memfd_create("data_test", 0));
  EXPECT_EQ(::write(file.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
  return std::make_shared<const FileDescriptor>(std::move(file));
}

std::string Text(const Data& data) {
  std::string text(data.size(), '?');
  EXPECT_TRUE(data.CopyTo(std::as_writable_bytes(std::span(text))));
  return text;
}

TEST(Data, HoldsMemory) {
  const Data data(Slice::Borrowed(AsBytes("turbine")));
  EXPECT_FALSE(data.is_file());
  EXPECT_EQ(Text(data.Sub(3, 4)), "bine");
}

TEST(Data, HoldsARangeOfAFile) {
  const Data data(FileWith("turbine"), 1, 5);
  EXPECT_TRUE(data.is_file());
  EXPECT_EQ(Text(data), "urbin");
  EXPECT_EQ(Text(data.Sub(2, 2)), "bi");
}

TEST(Data, ReadsZerosBeyondTheEndOfATruncatedFile) {
  EXPECT_EQ(Text(Data(FileWith("abc"), 1, 4)), std::string("bc\0\0", 4));
}

TEST(Data, LoadCopiesFilesAndReturnsMemoryUnchanged) {
  BufferPool pool;
  const auto loaded = Data(FileWith("turbine"), 1, 5).Load(pool);
  ASSERT_TRUE(loaded);
  EXPECT_EQ(Text(*loaded), "urbin");
  const std::string text = "turbine";
  EXPECT_EQ(Data(Slice::Borrowed(AsBytes(text))).Load(pool)->data(), AsBytes(text).data());
}

// A directory can be opened, but reading it fails.
TEST(Data, ReturnsTheErrorOfReadingItsFile) {
  const Data data(std::make_shared<FileDescriptor>(::open("/", O_RDONLY | O_DIRECTORY)), 0, 4);
  std::array<std::byte, 4> to{};
  EXPECT_EQ(data.CopyTo(to).error(), std::errc::is_a_directory);
  BufferPool pool;
  EXPECT_EQ(data.Load(pool).error(), std::errc::is_a_directory);
}

}  // namespace
}  // namespace penstock
