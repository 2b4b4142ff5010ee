#include "cli/log_writer.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/data.h"

namespace penstock::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;

constexpr auto kLong = std::chrono::minutes(1);
// Only so long, since nobody reads.
constexpr auto kShort = std::chrono::milliseconds(20);

constexpr size_t kMost = 4000;
constexpr size_t kLine = 100;
// So many fill the pipe, and the queue likewise.
constexpr int kFills = 40;
// Many more than the pipe and the queue hold.
constexpr int kMany = 500;

// A line of kLine octets with a number.
std::string Numbered(int number) {
  std::string line = fmt::format("{} ", number);
  line.resize(kLine - 1, '.');
  return line + "\n";
}

std::vector<std::string> LinesOf(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

// Requires numbered lines in their order, with a line for the lost ones where some are missing. Returns the number
// that would follow.
int Account(const std::string& text, int& lost) {
  int next = 0;
  for (const std::string& line : LinesOf(text)) {
    if (line.contains("were lost")) {
      const int count = std::stoi(line.substr(line.find("warning ") + 8));
      lost += count;
      next += count;
    } else {
      EXPECT_EQ(std::stoi(line), next++);
    }
  }
  return next;
}

// A small pipe with a writer of its own.
class LogWriterTest : public testing::Test {
 protected:
  LogWriterTest() : before_(std::signal(SIGPIPE, SIG_IGN)) {
    std::array<int, 2> ends{};
    EXPECT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
    read_ = FileDescriptor(ends[0]);
    write_ = FileDescriptor(ends[1]);
    EXPECT_GT(::fcntl(write_.get(), F_SETPIPE_SZ, 4096), 0);
    writer_.emplace(write_.get(), kMost);
  }
  ~LogWriterTest() override {
    // Ends a thread that waits for the pipe.
    read_ = FileDescriptor(-1);
    EXPECT_TRUE(!writer_ || writer_->End(kLong));
    std::signal(SIGPIPE, before_);
  }

  // Waits for octets; returns them, or nothing at the end of the file. If none come in time, the test fails.
  std::string ReadSome() {
    pollfd readable{.fd = read_.get(), .events = POLLIN, .revents = 0};
    constexpr int kLimit = std::chrono::milliseconds(kLong).count();
    EXPECT_EQ(::poll(&readable, 1, kLimit), 1);
    if (readable.revents == 0) return {};
    std::string text(1 << 16, '\0');
    const ssize_t count = ::read(read_.get(), text.data(), text.size());
    EXPECT_GE(count, 0);
    text.resize(static_cast<size_t>(std::max<ssize_t>(count, 0)));
    return text;
  }
  std::string ReadUntil(std::string_view part) {
    std::string text;
    while (!text.contains(part)) {
      const std::string more = ReadSome();
      if (more.empty()) break;
      text += more;
    }
    EXPECT_THAT(text, ::testing::HasSubstr(part));
    return text;
  }
  // Adds the lines from 0 on that the pipe holds, and waits until they are in it.
  void FillThePipe() {
    for (int i = 0; i < kFills; ++i) writer_->Add(Numbered(i));
    WaitUntilThePipeIsFull();
  }
  void WaitUntilThePipeIsFull() {
    int octets = 0;
    while (octets + kLine <= 4096) ASSERT_EQ(::ioctl(read_.get(), FIONREAD, &octets), 0);
  }

  FileDescriptor read_{-1}, write_{-1};
  std::optional<LogWriter> writer_;

 private:
  void (*const before_)(int);
};

TEST_F(LogWriterTest, TheReasonOfAnEndIsNotLostAndIsWaitedFor) {
  writer_->Start();
  FillThePipe();
  for (int i = kFills; i < kMany; ++i) writer_->Add(Numbered(i));
  writer_->AddAnyway("the reason\n");
  std::thread reader([&] {
    std::this_thread::sleep_for(kShort);
    EXPECT_THAT(ReadUntil("the reason\n"), EndsWith("the reason\n"));
  });
  EXPECT_TRUE(writer_->End(std::nullopt));
  reader.join();
}

TEST_F(LogWriterTest, KeepsTheOrderOfLinesBeforeAndAfterItsThreadStarts) {
  writer_->Add("one\n");
  EXPECT_EQ(ReadSome(), "one\n") << "written by the caller";
  writer_->Add("two\n");
  writer_->Start();
  writer_->Add("three\n");
  writer_->Add("four\n");
  EXPECT_TRUE(writer_->Flush(kLong));
  EXPECT_EQ(ReadSome(), "two\nthree\nfour\n");
}

TEST_F(LogWriterTest, WritesWhatIsLeftWhenItEnds) {
  writer_->Start();
  writer_->Add("one\n");
  EXPECT_TRUE(writer_->End(kLong));
  EXPECT_EQ(ReadSome(), "one\n");
}

TEST_F(LogWriterTest, DropsLinesOnceItHasEnded) {
  writer_->Start();
  EXPECT_TRUE(writer_->End(kLong));
  writer_->Add("one\n");
  write_ = FileDescriptor(-1);
  EXPECT_EQ(ReadSome(), "");
}

TEST_F(LogWriterTest, TellsHowManyMessagesWereLostInTheirPlace) {
  writer_->Start();
  FillThePipe();
  for (int i = kFills; i < kMany; ++i) writer_->Add(Numbered(i));  // nobody reads, and this does not wait
  const std::string said = ReadUntil("were lost");
  EXPECT_THAT(said, testing::ContainsRegex(
                        "\n[^\n]* warning [0-9]+ messages were lost: standard error was not read fast enough\n$"));
  int lost = 0;
  EXPECT_EQ(Account(said, lost), kMany);
  EXPECT_GT(lost, 0);
  writer_->Add("the next one\n");
  EXPECT_EQ(ReadUntil("next one"), "the next one\n");
}

TEST_F(LogWriterTest, EachMessageIsWrittenOrCountedWhileAReaderIsSlow) {
  writer_->Start();
  FillThePipe();
  for (int i = kFills; i < kMany; ++i) writer_->Add(Numbered(i));
  std::string said;
  std::thread reader([&] {
    for (std::string more = ReadSome(); !more.empty(); more = ReadSome()) said += more;
  });
  for (int i = kMany; i < 10 * kMany; ++i) writer_->Add(Numbered(i));
  EXPECT_TRUE(writer_->End(kLong));
  write_ = FileDescriptor(-1);
  reader.join();
  int lost = 0;
  EXPECT_EQ(Account(said, lost), 10 * kMany);
  EXPECT_GT(lost, 0);
}

TEST_F(LogWriterTest, TellsOfLostMessagesInTheFormatOfTheLog) {
  writer_->SetFormat(LogFormat::kJournal);
  writer_->Start();
  FillThePipe();
  for (int i = kFills; i < kMany; ++i) writer_->Add(Numbered(i));
  EXPECT_THAT(ReadUntil("fast enough"), testing::ContainsRegex("\n<4>[0-9]+ messages were lost: "));
}

TEST_F(LogWriterTest, FlushAndEndWaitForAFullPipeNoLongerThanTheirLimits) {
  writer_->Start();
  FillThePipe();
  writer_->Add("last\n");
  writer_->Add(Numbered(kFills));
  EXPECT_FALSE(writer_->Flush(kShort));
  EXPECT_FALSE(writer_->End(kShort));
  // The thread does not use the pipe after this line.
  EXPECT_THAT(ReadUntil("40 "), testing::HasSubstr("last\n"));
}

TEST_F(LogWriterTest, WaitsForAPipeThatDoesNotBlock) {
  ASSERT_EQ(::fcntl(write_.get(), F_SETFL, O_NONBLOCK), 0);
  writer_->Start();
  for (int i = 0; i < 60; ++i) {
    if (i == kFills) WaitUntilThePipeIsFull();
    writer_->Add(Numbered(i));
  }
  const std::vector<std::string> lines = LinesOf(ReadUntil("59 "));
  EXPECT_EQ(lines.size(), 60u);
  EXPECT_TRUE(writer_->Flush(kLong));
}

TEST_F(LogWriterTest, SurvivesAReaderThatHasGone) {
  read_ = FileDescriptor(-1);
  writer_->Start();
  for (int i = 0; i < 3; ++i) writer_->Add("one\n");
  EXPECT_TRUE(writer_->Flush(kLong));
  EXPECT_TRUE(writer_->End(kLong));
}

TEST(LogWriter, ReportsAFailureOfTheFileWithTheNextMessageThatCanBeWritten) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
  const FileDescriptor read(ends[0]), write(ends[1]);
  // First a full disk, then a pipe.
  const FileDescriptor full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
  ASSERT_TRUE(full);
  const FileDescriptor file(::dup(full.get()));
  ASSERT_TRUE(file);
  LogWriter writer(file.get());
  writer.Start();
  writer.Add("one\n");
  writer.Add("two\n");
  EXPECT_TRUE(writer.Flush(kLong));
  ASSERT_GE(::dup2(write.get(), file.get()), 0);
  writer.Add("three\n");
  EXPECT_TRUE(writer.End(kLong));
  std::string text(1 << 16, '\0');
  text.resize(static_cast<size_t>(::read(read.get(), text.data(), text.size())));
  EXPECT_THAT(
      LinesOf(text),
      ElementsAre(EndsWith("2 messages were lost: standard error could not be written (No space left on device)"),
                  "three"));
}

}  // namespace
}  // namespace penstock::cli
