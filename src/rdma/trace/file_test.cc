// A capture file on a disk that is slow or full.
#include "rdma/trace/file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/test_log.h"
#include "rdma/trace/trace_reader_test_support.h"

namespace penstock::rdma::trace {
namespace {

using testing::HasSubstr;

TEST(TraceFile, ReportsWhyTheFileCannotBeMade) {
  const auto file = File::Open("/absent/trace.pcapng", Duration::zero());
  ASSERT_FALSE(file);
  EXPECT_THAT(file.error().message, HasSubstr("/absent/trace.pcapng: No such file or directory"));
}

// It may hold the data of files. The program's umask is zero.
TEST(TraceFile, OnlyItsOwnerMayReadIt) {
  const std::string path = testing::TempDir() + "/file_test.mode." + std::to_string(::getpid());
  const mode_t mask = ::umask(0);
  auto file = File::Open(path, Duration::zero());
  ::umask(mask);
  ASSERT_TRUE(file);
  struct stat stat{};
  EXPECT_EQ(::stat(path.c_str(), &stat), 0);
  EXPECT_EQ(stat.st_mode & 07777, 0600u);
  ::unlink(path.c_str());
}

TEST(TraceFile, DropsPacketsIfTheDiskIsTooSlowAndRecordsHowMany) {
  const std::string path = testing::TempDir() + "/file_test.fifo." + std::to_string(::getpid());
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  const FileDescriptor reader(::open(path.c_str(), O_RDONLY | O_NONBLOCK));
  auto file = File::Open(path, Duration::zero(), {.max_queued = 100000}).value();
  const std::vector<std::byte> packet(1001);
  uint64_t added = 0;
  for (; file->lost() < 10; ++added) file->Add(TimePoint(Duration(added)), packet, "a comment");

  std::string read;
  std::thread drain([&] {
    ::fcntl(reader.get(), F_SETFL, 0);
    char part[4096];
    for (ssize_t n; (n = ::read(reader.get(), part, sizeof part)) > 0;) read.append(part, static_cast<size_t>(n));
  });
  // When the queue has room again, the file takes packets again.
  for (uint64_t before = 0; before != file->lost(); ++added) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    before = file->lost();
    file->Add(TimePoint(Duration(added)), packet);
  }
  const uint64_t lost = file->lost();
  file.reset();
  drain.join();
  ::unlink(path.c_str());

  const Capture capture = CaptureReader(AsBytes(read)).Read();
  EXPECT_EQ(capture.received, added);
  EXPECT_EQ(capture.dropped, lost);
  EXPECT_EQ(capture.packets.size(), added - lost);
  uint64_t told = 0;
  for (const Packet& each : capture.packets) {
    told += each.lost;
    EXPECT_EQ(each.bytes, packet);
  }
  EXPECT_EQ(told, lost);
}

TEST(TraceFile, StopsWhenTheDiskIsFull) {
  const CapturedLog log;
  auto file = File::Open("/dev/full", Duration::zero()).value();
  const std::vector<std::byte> packet(100);
  for (int i = 0; i < 100; ++i) {
    file->Add(TimePoint(), packet);
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  file.reset();
  const std::string said = log.text();
  EXPECT_THAT(said, HasSubstr("/dev/full: No space left on device: tracing has stopped"));
  EXPECT_EQ(said.find("tracing has stopped"), said.rfind("tracing has stopped")) << "the warning appears once";
}

}  // namespace
}  // namespace penstock::rdma::trace
