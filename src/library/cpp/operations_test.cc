// Every operation of mounts and files, over each version of NFS.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <optional>
#include <ranges>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "library/cpp/test_support.h"
#include "penstock/penstock.hpp"

namespace penstock_test {
namespace {

using penstock::Attributes;
using penstock::Entry;
using penstock::FileType;
using penstock::Listing;
using penstock::LockConflict;
using penstock::MountInfo;
using penstock::Space;
using penstock::Symlinks;
using penstock::Time;

static_assert(std::ranges::input_range<Listing>);

class OperationsTest : public testing::TestWithParam<std::string> {
 protected:
  LoopbackServer server;
  Runtime runtime = Runtime::Make().value();
  Mount mount = Mount::Open(runtime, server.Url(GetParam())).Get().value();
};

INSTANTIATE_TEST_SUITE_P(Versions, OperationsTest, testing::Values("3", "4.0", "4.1", "4.2"), [](const auto& version) {
  std::string name = "V" + version.param;
  std::erase(name, '.');
  return name;
});

TEST_P(OperationsTest, TellWhatTheMountHasAgreedOn) {
  const MountInfo info = mount.GetInfo().Get().value();
  EXPECT_EQ(info.version, GetParam());
  EXPECT_EQ(info.transport, "tcp");
  EXPECT_GE(info.read_size, 4096u);
  EXPECT_GE(info.write_size, 4096u);
  EXPECT_EQ(info.reconnections, 0u);
  mount.Ping().Get().value();
}

TEST_P(OperationsTest, WriteAndReadWholeFiles) {
  mount.WriteFile("text", "hello\n").Get().value();
  EXPECT_EQ(mount.ReadFile("text").Get().value(), "hello\n");

  std::vector<std::byte> data(3'000'000);
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::byte>(i * 7 / 3);
  mount.WriteFile("data", data, 0640).Get().value();
  EXPECT_EQ(mount.ReadFileBytes("data").Get().value(), data);
  EXPECT_EQ(mount.GetAttributes("data").Get().value().mode, 0640u);

  mount.WriteFile("text", std::string_view()).Get().value();
  EXPECT_EQ(mount.ReadFile("text").Get().value(), "");
  EXPECT_TRUE(mount.ReadFileBytes("text").Get().value().empty());
  EXPECT_EQ(NumberOf(mount.ReadFile("absent").Get()), ENOENT);
}

TEST_P(OperationsTest, ReadAndWriteOpenFiles) {
  File file = mount.OpenFile("file", O_RDWR | O_CREAT | O_EXCL, 0600).Get().value();
  EXPECT_TRUE(file.is_open());
  EXPECT_NE(file.handle(), nullptr);
  file.Write(0, "0123456789").Get().value();
  std::string text(4, ' ');
  EXPECT_EQ(file.Read(8, text).Get().value(), 2u);
  EXPECT_EQ(text, "89  ");
  std::vector<std::byte> octets(3);
  EXPECT_EQ(file.Read(4, octets).Get().value(), 3u);
  EXPECT_EQ(octets, (std::vector<std::byte>{std::byte('4'), std::byte('5'), std::byte('6')}));
  octets.assign(2, std::byte('x'));
  file.Write(1, octets).Get().value();
  file.Sync().Get().value();
  file.SetLength(5).Get().value();
  const Attributes attributes = file.GetAttributes().Get().value();
  EXPECT_EQ(attributes.type, FileType::kRegular);
  EXPECT_EQ(attributes.length, 5u);
  EXPECT_EQ(attributes.mode, 0600u);
  file.Close().Get().value();
  EXPECT_FALSE(file.is_open());
  EXPECT_EQ(mount.ReadFile("file").Get().value(), "0xx34");
  EXPECT_EQ(NumberOf(mount.OpenFile("file", O_RDWR | O_CREAT | O_EXCL).Get()), EEXIST);
  EXPECT_EQ(NumberOf(mount.OpenFile("absent", O_RDONLY).Get()), ENOENT);
}

TEST_P(OperationsTest, ReadAndSetAttributes) {
  mount.WriteFile("file", "12345").Get().value();
  const Time accessed{1'000'000'000, 5}, modified{1'100'000'000, 6};
  mount
      .SetAttributes("file",
                     {.mode = 0600, .uid = 12, .gid = 34, .length = 3, .accessed = accessed, .modified = modified})
      .Get()
      .value();
  const Attributes attributes = mount.GetAttributes("/file").Get().value();
  EXPECT_EQ(attributes.type, FileType::kRegular);
  EXPECT_EQ(attributes.mode, 0600u);
  EXPECT_EQ(attributes.links, 1u);
  EXPECT_EQ(attributes.uid, 12u);
  EXPECT_EQ(attributes.gid, 34u);
  EXPECT_EQ(attributes.owner, "12");
  EXPECT_EQ(attributes.group, "34");
  EXPECT_EQ(attributes.length, 3u);
  EXPECT_EQ(attributes.accessed, accessed);
  EXPECT_EQ(attributes.modified, modified);
  EXPECT_NE(attributes.file_id, 0u);

  mount.SetAttributes("file", {.accessed_now = true, .modified_now = true}).Get().value();
  const Attributes now = mount.GetAttributes("file").Get().value();
  EXPECT_GT(now.accessed, accessed);
  EXPECT_GT(now.modified, modified);
  EXPECT_NE(now.change, attributes.change);
  EXPECT_EQ(mount.GetAttributes("").Get().value().type, FileType::kDirectory);
}

TEST_P(OperationsTest, MakeAndRemoveNames) {
  mount.MakeDirectory("directory", 0750).Get().value();
  EXPECT_EQ(mount.GetAttributes("directory").Get().value().mode, 0750u);
  EXPECT_EQ(NumberOf(mount.MakeDirectory("directory").Get()), EEXIST);
  mount.WriteFile("directory/a", "a").Get().value();
  mount.Link("directory/a", "b").Get().value();
  EXPECT_EQ(mount.GetAttributes("b").Get().value().links, 2u);
  mount.Rename("b", "directory/c").Get().value();
  EXPECT_EQ(NumberOf(mount.GetAttributes("b").Get()), ENOENT);
  EXPECT_EQ(NumberOf(mount.RemoveDirectory("directory").Get()), ENOTEMPTY);
  mount.Remove("directory/a").Get().value();
  mount.Remove("directory/c").Get().value();
  mount.RemoveDirectory("directory").Get().value();
  EXPECT_EQ(NumberOf(mount.GetAttributes("directory").Get()), ENOENT);
}

TEST_P(OperationsTest, MakeAndReadSymbolicLinks) {
  mount.WriteFile("file", "text").Get().value();
  mount.MakeSymlink("file", "link").Get().value();
  EXPECT_EQ(mount.ReadLink("link").Get().value(), "file");
  EXPECT_EQ(mount.GetAttributes("link").Get().value().type, FileType::kRegular);
  EXPECT_EQ(mount.GetAttributes("link", Symlinks::kNoFollow).Get().value().type, FileType::kSymlink);
  EXPECT_EQ(mount.ReadFile("link").Get().value(), "text");
  EXPECT_EQ(NumberOf(mount.ReadLink("file").Get()), EINVAL);
}

TEST_P(OperationsTest, ListDirectories) {
  mount.MakeDirectory("d").Get().value();
  EXPECT_TRUE(mount.List("d").Get().value().empty());
  for (int i = 0; i < 50; ++i) mount.WriteFile("d/" + std::to_string(i), std::to_string(i)).Get().value();
  Listing listing = mount.List("d").Get().value();
  EXPECT_EQ(listing.size(), 50u);
  std::vector<std::string> names;
  for (const Entry& entry : listing) {
    names.emplace_back(entry.name);
    ASSERT_TRUE(entry.attributes);
    EXPECT_EQ(entry.attributes->length, entry.name.size());
  }
  EXPECT_EQ(names.size(), 50u);
  EXPECT_TRUE(std::ranges::find(names, "17") != names.end());
  // A second loop begins again.
  EXPECT_EQ(std::ranges::distance(listing), 50);
  size_t count = 0;
  for (const Entry& entry : *mount.List().Get()) {
    EXPECT_EQ(entry.name, "d");
    ++count;
  }
  EXPECT_EQ(count, 1u);
  EXPECT_EQ(NumberOf(mount.List("d/1").Get()), ENOTDIR);
}

TEST_P(OperationsTest, AListingNeedsNoMount) {
  mount.WriteFile("file", "").Get().value();
  Listing listing = mount.List().Get().value();
  mount.Close().Get().value();
  EXPECT_EQ(listing.begin()->name, "file");
}

TEST_P(OperationsTest, TellTheSpace) {
  const Space space = mount.GetSpace().Get().value();
  EXPECT_GT(space.total_octets, 0u);
  EXPECT_LE(space.free_octets, space.total_octets);
  EXPECT_LE(space.available_files, space.total_files);
}

TEST_P(OperationsTest, LockRanges) {
  mount.WriteFile("file", "text").Get().value();
  File first = mount.OpenFile("file", O_RDWR).Get().value();
  File second = mount.OpenFile("file", O_RDWR).Get().value();
  first.Lock({.range = {10, 20}}).Get().value();
  EXPECT_EQ(NumberOf(second.Lock({.range = {15, 1}, .exclusive = false}).Get()), EAGAIN);
  // Other owners of the same file conflict as well.
  EXPECT_EQ(NumberOf(first.Lock({.range = {15, 1}, .owner = "other"}).Get()), EAGAIN);
  const std::optional<LockConflict> conflict = second.TestLock().Get().value();
  ASSERT_TRUE(conflict);
  EXPECT_EQ(conflict->range.offset, 10u);
  EXPECT_EQ(conflict->range.length, 20u);
  EXPECT_TRUE(conflict->exclusive);
  EXPECT_FALSE(second.TestLock({.range = {30, 0}}).Get().value());
  first.Unlock({15, 5}).Get().value();
  second.Lock({.range = {15, 5}, .exclusive = false}).Get().value();
  first.Unlock().Get().value();
  second.Lock({.wait = seconds(20)}).Get().value();
}

TEST_P(OperationsTest, CopyLocalFiles) {
  const int descriptor = ::memfd_create("local", MFD_CLOEXEC);
  ASSERT_GE(descriptor, 0);
  const std::string text(2'500'000, 'x');
  ASSERT_EQ(::write(descriptor, text.data(), text.size()), static_cast<ssize_t>(text.size()));
  uint64_t told = 0;
  uint64_t total = 0;
  const auto progress = [&](uint64_t done, uint64_t of) {
    told = done;
    total = of;
  };
  EXPECT_EQ(mount.Upload(descriptor, "copy", 0640, progress).Get().value(), text.size());
  EXPECT_EQ(told, text.size());
  EXPECT_EQ(total, text.size());
  EXPECT_EQ(mount.ReadFile("copy").Get().value(), text);

  ASSERT_EQ(::ftruncate(descriptor, 0), 0);
  told = total = 0;
  EXPECT_EQ(mount.Download("copy", descriptor, progress).Get().value(), text.size());
  EXPECT_EQ(told, text.size());
  EXPECT_EQ(total, text.size());
  std::string copied(text.size(), ' ');
  ASSERT_EQ(::pread(descriptor, copied.data(), copied.size(), 0), static_cast<ssize_t>(copied.size()));
  EXPECT_EQ(copied, text);
  EXPECT_EQ(mount.Download("copy", descriptor).Get().value(), text.size());
  ::close(descriptor);
}

TEST_P(OperationsTest, ATextWithANulFails) {
  using namespace std::string_view_literals;
  mount.WriteFile("a", "").Get().value();
  EXPECT_EQ(NumberOf(mount.Remove("a\0b"sv).Get()), EINVAL);
  EXPECT_EQ(NumberOf(mount.Rename("a", "b\0c"sv).Get()), EINVAL);
  EXPECT_EQ(NumberOf(Mount::Open(runtime, "nfs://localhost/\0"sv).Get()), EINVAL);
  const File file = mount.OpenFile("a", O_RDWR).Get().value();
  EXPECT_EQ(NumberOf(file.Lock({.owner = "o\0p"sv}).Get()), EINVAL);
  EXPECT_EQ(NumberOf(file.TestLock({.owner = "o\0p"sv}).Get()), EINVAL);
  EXPECT_TRUE(mount.GetAttributes("a").Get());
}

TEST(TimeTest, ConvertsToTheClockOfTheSystem) {
  const auto point = std::chrono::sys_time<std::chrono::nanoseconds>(std::chrono::nanoseconds(-1));
  EXPECT_EQ(Time::At(point), (Time{-1, 999'999'999}));
  EXPECT_EQ(Time::At(point).ToSystemTime(), point);
  EXPECT_EQ((Time{1'700'000'000, 7}).ToSystemTime().time_since_epoch().count(), 1'700'000'000'000'000'007);
  using Nanoseconds = std::chrono::sys_time<std::chrono::nanoseconds>;
  EXPECT_EQ((Time{INT64_MAX, 0}).ToSystemTime(), Nanoseconds::max());
  EXPECT_EQ((Time{INT64_MIN, 0}).ToSystemTime(), Nanoseconds::min());
  EXPECT_LT((Time{1, 2}), (Time{1, 3}));
}

}  // namespace
}  // namespace penstock_test
