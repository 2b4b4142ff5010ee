// Data, names and opens through the C API.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <map>
#include <string>
#include <vector>

#include "library/library_test_support.h"
#include "penstock/penstock.h"

namespace penstock::library {
namespace {

using testing::HasSubstr;

std::string Pattern(size_t size) {
  std::string text(size, '\0');
  for (size_t i = 0; i < size; ++i) text[i] = static_cast<char>(i * 31 + i / 4096);
  return text;
}

constexpr std::array kUses{Use{"Driven3", 0, "vers=3"},
                           Use{"Driven42", 0, "vers=4.2"},
                           Use{"DrivenRdma", 0, "vers=4.1&proto=rdma"},
                           Use{"Threads3Rdma", 2, "vers=3&proto=rdma"},
                           Use{"Threads40", 1, "vers=4.0"},
                           Use{"Threads41", 2, "vers=4.1"}};
INSTANTIATE_TEST_SUITE_P(Uses, LibraryTest, testing::ValuesIn(kUses), NameOf);

// ---- data ----

TEST_P(LibraryTest, WritesAndReadsWholeFiles) {
  for (const size_t size : {size_t{0}, size_t{1}, size_t{5'000'000}}) {
    const std::string contents = Pattern(size);
    Write("file", contents);
    EXPECT_EQ(Read("/file"), contents);
  }
}

TEST_P(LibraryTest, ReadsAndWritesRangesOfAnySize) {
  const std::string contents = Pattern(3'000'001);
  penstock_file* const file = Open("file", O_RDWR | O_CREAT);
  EXPECT_EQ(penstock_pwrite(file, contents.data(), contents.size(), 0, nullptr), 3'000'001);
  std::string read(3'000'100, '\0');
  EXPECT_EQ(penstock_pread(file, read.data(), read.size(), 0, nullptr), 3'000'001) << "the file ends";
  EXPECT_EQ(read.substr(0, contents.size()), contents);
  EXPECT_EQ(penstock_pread(file, read.data(), 100, 2'999'999, nullptr), 2);
  EXPECT_EQ(penstock_pread(file, read.data(), 100, 9'000'000, nullptr), 0);
  EXPECT_EQ(penstock_pread(file, read.data(), 0, 0, nullptr), 0);
  EXPECT_EQ(penstock_fsync(file, nullptr), 0);
  EXPECT_EQ(penstock_close(file, nullptr), 0);
}

TEST_P(LibraryTest, OperationsWithALimitMoveTheSameData) {
  const std::string contents = Pattern(2'500'000);
  penstock_file* const file = Open("file", O_RDWR | O_CREAT);
  penstock_call call = PENSTOCK_CALL_INIT;
  call.timeout_ms = 60'000;
  EXPECT_EQ(penstock_pwrite(file, contents.data(), contents.size(), 7, &call), 2'500'000);
  std::string read(contents.size(), '\0');
  EXPECT_EQ(penstock_pread(file, read.data(), read.size(), 7, &call), 2'500'000);
  EXPECT_EQ(read, contents);
  EXPECT_EQ(penstock_close(file, &call), 0);
}

TEST_P(LibraryTest, ManyOperationsRunAtTheSameTime) {
  constexpr size_t kCount = 1000, kSize = 512;
  const std::string contents = Pattern(kCount * kSize);
  Write("file", contents);
  penstock_file* const file = Open("file", O_RDONLY);
  std::vector<std::array<char, kSize>> buffers(kCount);
  std::vector<Done> done(kCount);
  for (size_t i = 0; i < kCount; ++i) {
    const penstock_call call = done[i].Call();
    ASSERT_EQ(penstock_pread(file, buffers[i].data(), kSize, i * kSize, &call), 0) << penstock_error_text();
  }
  EXPECT_EQ(penstock_close(file, nullptr), -EBUSY);
  for (size_t i = 0; i < kCount; ++i) {
    ASSERT_EQ(Wait(done[i]), static_cast<int64_t>(kSize)) << done[i].error();
    ASSERT_EQ(std::string_view(buffers[i].data(), kSize), std::string_view(contents).substr(i * kSize, kSize));
  }
  EXPECT_EQ(penstock_close(file, nullptr), 0);
}

TEST_P(LibraryTest, CopiesLocalFiles) {
  const std::string contents = Pattern(2'000'003);
  const int local = ::memfd_create("local", MFD_CLOEXEC);
  ASSERT_EQ(::write(local, contents.data(), contents.size()), static_cast<ssize_t>(contents.size()));
  struct Progress {
    uint64_t done = 0, total = 0;
  } progress;
  const auto note = [](void* context, uint64_t done, uint64_t total) {
    *static_cast<Progress*>(context) = {.done = done, .total = total};
  };
  EXPECT_EQ(penstock_upload(mount, local, "file", 0600, note, &progress, nullptr), 2'000'003);
  EXPECT_EQ(progress.done, 2'000'003u);
  EXPECT_EQ(progress.total, 2'000'003u);
  EXPECT_EQ(Read("file"), contents);
  const int other = ::memfd_create("other", MFD_CLOEXEC);
  EXPECT_EQ(penstock_download(mount, "file", other, nullptr, nullptr, nullptr), 2'000'003);
  std::string copied(contents.size(), '\0');
  EXPECT_EQ(::pread(other, copied.data(), copied.size(), 0), 2'000'003);
  EXPECT_EQ(copied, contents);
  ::close(local);
  ::close(other);
  EXPECT_EQ(penstock_upload(mount, local, "file", 0600, nullptr, nullptr, nullptr), -EBADF);
}

// A server may answer with fewer octets than were asked for (RFC 1813 §3.3.6, §3.3.7).
TEST_P(LibraryTest, GoesOnAfterShortReplies) {
  constexpr std::string_view kData = "ten octets";
  server.files().Add({.operation = fs::faulty::Operation::kWrite, .effect = fs::faulty::Short(3)});
  server.files().Add({.operation = fs::faulty::Operation::kRead, .effect = fs::faulty::Short(4)});
  penstock_file* const file = Open("file", O_RDWR | O_CREAT);
  EXPECT_EQ(penstock_pwrite(file, kData.data(), kData.size(), 0, nullptr), 10);
  std::array<char, 16> read{};
  Done done;
  penstock_call call = done.Call();
  EXPECT_EQ(penstock_pread(file, read.data(), read.size(), 0, &call), 0);
  EXPECT_EQ(Wait(done), 10) << "the file ends there";
  EXPECT_EQ(std::string_view(read.data(), 10), kData);
  // An error after the first octets is an error of the whole.
  server.files().Add({.operation = fs::faulty::Operation::kRead,
                      .when = fs::faulty::Nth(2),
                      .effect = fs::faulty::FailWith(fs::Error::kIo)});
  EXPECT_EQ(penstock_pread(file, read.data(), read.size(), 0, nullptr), -EIO);
  server.Release();
  EXPECT_EQ(penstock_close(file, nullptr), 0);
}

TEST_P(LibraryTest, AFailedReadGivesNoData) {
  Write("file", Pattern(4'000'000));
  penstock_file* const file = Open("file", O_RDONLY);
  server.files().Add({.operation = fs::faulty::Operation::kRead,
                      .when = fs::faulty::Nth(3),
                      .effect = fs::faulty::FailWith(fs::Error::kIo)});
  std::string read(4'000'000, '\0');
  EXPECT_EQ(penstock_pread(file, read.data(), read.size(), 0, nullptr), -EIO);
  EXPECT_THAT(penstock_error_text(), HasSubstr("input/output error"));
  EXPECT_EQ(penstock_close(file, nullptr), 0);
}

// RFC 1813 §4.11: another verifier says that the server has restarted and may have lost the data.
TEST_P(LibraryTest, FsyncTellsOnceThatTheServerLostData) {
  penstock_file* const file = Open("file", O_RDWR | O_CREAT);
  server.files().Add({.operation = fs::faulty::Operation::kCommit, .effect = fs::faulty::FailWith(fs::Error::kIo)});
  EXPECT_EQ(penstock_pwrite(file, "data", 4, 0, nullptr), 4);
  EXPECT_EQ(penstock_fsync(file, nullptr), -EIO);
  EXPECT_EQ(penstock_fsync(file, nullptr), -EIO) << "the data are still not stable";
  server.Release();
  EXPECT_EQ(penstock_fsync(file, nullptr), 0);
  server.files().Add(
      {.operation = fs::faulty::Operation::kCommit, .effect = fs::faulty::FailWith(fs::Error::kNoSpace)});
  EXPECT_EQ(penstock_fsync(file, nullptr), 0) << "nothing was written since";
  EXPECT_EQ(penstock_pwrite(file, "data", 4, 0, nullptr), 4);
  EXPECT_EQ(penstock_close(file, nullptr), -ENOSPC) << "the error of the last data, before they are lost silently";
}

// ---- names ----

TEST_P(LibraryTest, ChangesNames) {
  EXPECT_EQ(penstock_mkdir(mount, "directory", 0750, nullptr), 0);
  EXPECT_EQ(penstock_mkdir(mount, "directory", 0750, nullptr), -EEXIST);
  Write("directory/one", "1");
  EXPECT_EQ(penstock_rename(mount, "directory/one", "two", nullptr), 0);
  EXPECT_EQ(penstock_link(mount, "two", "directory/three", nullptr), 0);
  EXPECT_EQ(penstock_symlink(mount, "../two", "directory/link", nullptr), 0);
  EXPECT_EQ(Read("directory/link"), "1");
  std::array<char, 7> text{};
  EXPECT_EQ(penstock_readlink(mount, "directory/link", text.data(), text.size(), nullptr), 6);
  EXPECT_STREQ(text.data(), "../two");
  EXPECT_EQ(penstock_readlink(mount, "directory/link", text.data(), 6, nullptr), -ERANGE);
  EXPECT_EQ(penstock_readlink(mount, "two", text.data(), text.size(), nullptr), -EINVAL);

  penstock_attributes attributes = PENSTOCK_ATTRIBUTES_INIT;
  EXPECT_EQ(penstock_stat(mount, "two", 0, &attributes, nullptr), 0);
  EXPECT_EQ(attributes.type, PENSTOCK_REGULAR);
  EXPECT_EQ(attributes.links, 2u);
  EXPECT_EQ(attributes.length, 1u);
  EXPECT_EQ(attributes.mode, 0644u);
  EXPECT_EQ(penstock_stat(mount, "directory/link", PENSTOCK_NOFOLLOW, &attributes, nullptr), 0);
  EXPECT_EQ(attributes.type, PENSTOCK_SYMLINK);

  EXPECT_EQ(penstock_rmdir(mount, "directory", nullptr), -ENOTEMPTY);
  EXPECT_EQ(penstock_unlink(mount, "directory", nullptr), -EISDIR);
  EXPECT_EQ(penstock_unlink(mount, "directory/link", nullptr), 0);
  EXPECT_EQ(penstock_unlink(mount, "directory/three", nullptr), 0);
  EXPECT_EQ(penstock_rmdir(mount, "directory", nullptr), 0);
  EXPECT_EQ(penstock_stat(mount, "directory", 0, &attributes, nullptr), -ENOENT);
  EXPECT_THAT(penstock_error_text(), HasSubstr("directory: no such file or directory"));
}

TEST_P(LibraryTest, ListsDirectories) {
  EXPECT_EQ(penstock_mkdir(mount, "directory", 0755, nullptr), 0);
  std::map<std::string, uint64_t> expected;
  for (int i = 0; i < 60; ++i) {
    const std::string name = "name " + std::to_string(i);
    Write(("directory/" + name).c_str(), Pattern(static_cast<size_t>(i)));
    expected[name] = static_cast<uint64_t>(i);
  }
  penstock_listing* listing = nullptr;
  ASSERT_EQ(penstock_list(mount, "directory", &listing, nullptr), 60) << penstock_error_text();
  for (int round = 0; round < 2; ++round) {
    std::map<std::string, uint64_t> found;
    penstock_entry entry = PENSTOCK_ENTRY_INIT;
    while (penstock_listing_next(listing, &entry) == 1) {
      ASSERT_NE(entry.attributes, nullptr);
      EXPECT_EQ(entry.attributes->type, PENSTOCK_REGULAR);
      found[entry.name] = entry.attributes->length;
    }
    EXPECT_EQ(found, expected);
    penstock_listing_rewind(listing);
  }
  penstock_listing_free(listing);
  EXPECT_EQ(penstock_list(mount, "directory/name 1", &listing, nullptr), -ENOTDIR);
}

TEST_P(LibraryTest, SetsAttributes) {
  Write("file", "contents");
  penstock_new_attributes values = PENSTOCK_NEW_ATTRIBUTES_INIT;
  values.set = PENSTOCK_SET_MODE | PENSTOCK_SET_LENGTH | PENSTOCK_SET_MODIFIED;
  values.mode = 0600;
  values.length = 3;
  values.modified = {1'000'000'000, 5};
  EXPECT_EQ(penstock_set_attributes(mount, "file", 0, &values, nullptr), 0) << penstock_error_text();
  penstock_attributes attributes = PENSTOCK_ATTRIBUTES_INIT;
  EXPECT_EQ(penstock_stat(mount, "file", 0, &attributes, nullptr), 0);
  EXPECT_EQ(attributes.mode, 0600u);
  EXPECT_EQ(attributes.length, 3u);
  EXPECT_EQ(attributes.modified.seconds, 1'000'000'000);
  EXPECT_EQ(attributes.modified.nanoseconds, 5u);
  values.set = PENSTOCK_SET_MODIFIED_NOW;
  EXPECT_EQ(penstock_set_attributes(mount, "file", 0, &values, nullptr), 0);
  EXPECT_EQ(penstock_stat(mount, "file", 0, &attributes, nullptr), 0);
  EXPECT_GT(attributes.modified.seconds, 1'500'000'000);
  values.set = 1u << 20;
  EXPECT_EQ(penstock_set_attributes(mount, "file", 0, &values, nullptr), -EINVAL);
  values.set = PENSTOCK_SET_MODE;
  values.mode = 010000;
  EXPECT_EQ(penstock_set_attributes(mount, "file", 0, &values, nullptr), -EINVAL);
}

TEST_P(LibraryTest, TellsTheSpaceAndTheMount) {
  penstock_space space = PENSTOCK_SPACE_INIT;
  EXPECT_EQ(penstock_statfs(mount, "", &space, nullptr), 0) << penstock_error_text();
  EXPECT_GT(space.total_octets, 0u);
  EXPECT_LE(space.available_octets, space.free_octets);
  penstock_mount_info info = PENSTOCK_MOUNT_INFO_INIT;
  EXPECT_EQ(penstock_mount_get_info(mount, &info, nullptr), 0);
  EXPECT_THAT(GetParam().options, HasSubstr(info.version));
  EXPECT_STREQ(info.transport, strstr(GetParam().options, "rdma") ? "rdma" : "tcp");
  EXPECT_GE(info.read_size, 4096u);
  EXPECT_EQ(penstock_ping(mount, nullptr), 0);
}

TEST_P(LibraryTest, AMountOfADirectoryHasPathsBelowIt) {
  EXPECT_EQ(penstock_mkdir(mount, "a", 0755, nullptr), 0);
  EXPECT_EQ(penstock_mkdir(mount, "a/b", 0755, nullptr), 0);
  Write("a/b/file", "deep");
  Write("top", "top");
  CloseMount();
  OpenMount("/a/b");
  EXPECT_EQ(Read("file"), "deep");
  EXPECT_EQ(Read("/./../b//file"), "deep");
  EXPECT_EQ(Read("../../top"), "top");
  EXPECT_EQ(Read("../../../../../top"), "top") << "the parent of the root is the root";
}

TEST_P(LibraryTest, AMountOfAFileIsThatFile) {
  Write("file", "contents");
  CloseMount();
  OpenMount("/file");
  EXPECT_EQ(Read(""), "contents");
}

TEST_P(LibraryTest, NoMountOfAPathThatIsMissing) {
  penstock_mount* other = nullptr;
  const std::string url = server.Url(GetParam().options, "/missing");
  EXPECT_EQ(penstock_mount_open(runtime, url.c_str(), nullptr, &other, nullptr), -ENOENT) << penstock_error_text();
  EXPECT_EQ(other, nullptr);
}

TEST_P(LibraryTest, AnAbandonedMountKeepsNoRuntime) {
  penstock_runtime_options options = PENSTOCK_RUNTIME_OPTIONS_INIT;
  options.threads = GetParam().threads;
  penstock_runtime* own = nullptr;
  ASSERT_EQ(penstock_runtime_new(&options, &own), 0);
  server.files().Add({.operation = fs::faulty::Operation::kGetAttributes, .effect = fs::faulty::Hang()});
  penstock_call call = PENSTOCK_CALL_INIT;
  call.timeout_ms = 30;
  penstock_mount* other = nullptr;
  EXPECT_EQ(penstock_mount_open(own, server.Url(GetParam().options).c_str(), nullptr, &other, &call), -ETIMEDOUT);
  EXPECT_EQ(penstock_runtime_free(own), 0) << penstock_error_text();
  EXPECT_EQ(other, nullptr);
}

// ---- opening ----

TEST_P(LibraryTest, OpensAsAsked) {
  penstock_file* file = nullptr;
  EXPECT_EQ(penstock_open(mount, "file", O_RDONLY, 0, &file, nullptr), -ENOENT);
  EXPECT_EQ(penstock_close(Open("file", O_WRONLY | O_CREAT | O_EXCL, 0640), nullptr), 0);
  EXPECT_EQ(penstock_open(mount, "file", O_WRONLY | O_CREAT | O_EXCL, 0640, &file, nullptr), -EEXIST);
  Write("file", "contents");
  EXPECT_EQ(penstock_close(Open("file", O_RDWR | O_CREAT), nullptr), 0);
  EXPECT_EQ(Read("file"), "contents");
  EXPECT_EQ(penstock_symlink(mount, "file", "link", nullptr), 0);
  EXPECT_EQ(penstock_close(Open("link", O_RDWR | O_CREAT), nullptr), 0) << "through the link";
  EXPECT_EQ(penstock_open(mount, "link", O_RDONLY | O_NOFOLLOW, 0, &file, nullptr), -ELOOP);
  EXPECT_EQ(Read("file"), "contents");
  EXPECT_EQ(penstock_close(Open("link", O_RDWR | O_CREAT | O_TRUNC), nullptr), 0);
  EXPECT_EQ(Read("file"), "");
  EXPECT_EQ(penstock_mkdir(mount, "directory", 0755, nullptr), 0);
  EXPECT_EQ(penstock_open(mount, "directory", O_RDONLY, 0, &file, nullptr), -EISDIR);
  EXPECT_EQ(penstock_open(mount, "file", O_RDONLY | O_APPEND, 0, &file, nullptr), -EINVAL);
  EXPECT_EQ(penstock_open(mount, "file", O_RDONLY | O_TRUNC, 0, &file, nullptr), -EINVAL);
  EXPECT_EQ(file, nullptr);
}

TEST_P(LibraryTest, CreatesTheFileToWhichALinkLeads) {
  EXPECT_EQ(penstock_mkdir(mount, "directory", 0755, nullptr), 0);
  EXPECT_EQ(penstock_symlink(mount, "../one", "directory/link", nullptr), 0);
  EXPECT_EQ(penstock_symlink(mount, "directory/link", "link", nullptr), 0);
  Write("link", "through two links");
  EXPECT_EQ(Read("one"), "through two links");
  penstock_file* file = nullptr;
  EXPECT_EQ(penstock_symlink(mount, "two", "dangling", nullptr), 0);
  EXPECT_EQ(penstock_open(mount, "dangling", O_RDWR | O_CREAT | O_EXCL, 0644, &file, nullptr), -EEXIST);
  EXPECT_EQ(penstock_symlink(mount, "loop", "loop", nullptr), 0);
  EXPECT_EQ(penstock_open(mount, "loop", O_RDWR | O_CREAT, 0644, &file, nullptr), -ELOOP);
}

TEST_P(LibraryTest, TheRootHasNoName) {
  EXPECT_EQ(penstock_mkdir(mount, "/", 0755, nullptr), -EEXIST);
  EXPECT_EQ(penstock_symlink(mount, "target", "", nullptr), -EEXIST);
  EXPECT_EQ(penstock_unlink(mount, "/", nullptr), -EISDIR);
  EXPECT_EQ(penstock_rmdir(mount, "//", nullptr), -EBUSY);
}

TEST_P(LibraryTest, AnOpenFileAllowsWhatItWasOpenedFor) {
  Write("file", "contents");
  penstock_file* const reader = Open("file", O_RDONLY);
  EXPECT_EQ(penstock_pwrite(reader, "x", 1, 0, nullptr), -EBADF);
  EXPECT_EQ(penstock_ftruncate(reader, 0, nullptr), -EBADF);
  penstock_file* const writer = Open("file", O_WRONLY);
  char octet = 0;
  EXPECT_EQ(penstock_pread(writer, &octet, 1, 0, nullptr), -EBADF);
  EXPECT_EQ(penstock_pwrite(writer, "x", 1, UINT64_MAX, nullptr), -EINVAL);
  EXPECT_EQ(penstock_ftruncate(writer, 2, nullptr), 0);
  penstock_attributes attributes = PENSTOCK_ATTRIBUTES_INIT;
  EXPECT_EQ(penstock_fstat(reader, &attributes, nullptr), 0);
  EXPECT_EQ(attributes.length, 2u);
  EXPECT_EQ(penstock_mount_close(mount, nullptr), -EBUSY);
  EXPECT_EQ(penstock_runtime_free(runtime), -EBUSY);
  EXPECT_EQ(penstock_close(reader, nullptr), 0);
  EXPECT_EQ(penstock_close(writer, nullptr), 0);
}

TEST_P(LibraryTest, StableWritesNeedNoFsync) {
  penstock_file* const file = Open("file", O_WRONLY | O_CREAT | O_SYNC);
  EXPECT_EQ(penstock_pwrite(file, "stable", 6, 0, nullptr), 6);
  server.files().Add({.operation = fs::faulty::Operation::kCommit, .effect = fs::faulty::FailWith(fs::Error::kIo)});
  EXPECT_EQ(penstock_pwrite(file, "x", 1, 0, nullptr), -EIO);
  EXPECT_EQ(penstock_fsync(file, nullptr), 0);
  EXPECT_EQ(penstock_close(file, nullptr), 0);
}

TEST_P(LibraryTest, LocksRanges) {
  Write("file", "contents");
  penstock_file* const one = Open("file", O_RDWR);
  penstock_file* const two = Open("file", O_RDWR);
  penstock_lock_request request = PENSTOCK_LOCK_REQUEST_INIT;
  request.offset = 2;
  request.length = 4;
  EXPECT_EQ(penstock_lock(one, &request, nullptr), 0) << penstock_error_text();
  EXPECT_EQ(penstock_lock(two, &request, nullptr), -EAGAIN);
  penstock_lock_request conflict = PENSTOCK_LOCK_REQUEST_INIT;
  EXPECT_EQ(penstock_test_lock(two, &request, &conflict, nullptr), 1);
  EXPECT_EQ(conflict.offset, 2u);
  EXPECT_EQ(conflict.length, 4u);
  EXPECT_EQ(conflict.exclusive, 1);
  EXPECT_EQ(penstock_unlock(one, &request, nullptr), 0);
  EXPECT_EQ(penstock_test_lock(two, &request, nullptr, nullptr), 0);
  EXPECT_EQ(penstock_lock(two, &request, nullptr), 0);
  EXPECT_EQ(penstock_close(one, nullptr), 0);
  EXPECT_EQ(penstock_close(two, nullptr), 0);
}

}  // namespace
}  // namespace penstock::library
