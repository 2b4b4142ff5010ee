#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <string>

#include "base/data.h"
#include "cli/progress.h"

namespace penstock::cli {
namespace {

using ::testing::EndsWith;
using ::testing::StartsWith;

constexpr char kRedraw[] = "\r\x1b[K";  // returns to the first column and clears the line

// Makes a pseudo terminal, which replaces stderr for the time of Output().
class ProgressBarTest : public testing::Test {
 protected:
  void SetUp() override {
    terminal_ = FileDescriptor(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
    char name[64];
    if (!terminal_ || ::grantpt(terminal_.get()) != 0 || ::unlockpt(terminal_.get()) != 0 ||
        ::ptsname_r(terminal_.get(), name, sizeof name) != 0) {
      GTEST_SKIP() << "this machine has no pseudo terminals";
    }
    program_ = FileDescriptor(::open(name, O_RDWR | O_NOCTTY | O_CLOEXEC));
    ASSERT_TRUE(program_);
    termios modes{};
    ASSERT_EQ(::tcgetattr(program_.get(), &modes), 0);
    ::cfmakeraw(&modes);  // without translation of "\n"
    ASSERT_EQ(::tcsetattr(program_.get(), TCSANOW, &modes), 0);
  }

  void SetColumns(unsigned short columns) {
    const winsize size{.ws_row = 24, .ws_col = columns, .ws_xpixel = 0, .ws_ypixel = 0};
    ASSERT_EQ(::ioctl(program_.get(), TIOCSWINSZ, &size), 0);
  }

  // Runs `use` with a new bar, and returns the output of the bar from its constructor to its destructor.
  template <class F>
  std::string Output(F use) {
    const FileDescriptor before(::dup(STDERR_FILENO));
    ::dup2(program_.get(), STDERR_FILENO);
    {
      ProgressBar bar;
      use(bar);
    }
    ::dup2(before.get(), STDERR_FILENO);
    EXPECT_EQ(::write(program_.get(), "\x04", 1), 1);
    std::string output;
    for (char next = 0; ::read(terminal_.get(), &next, 1) == 1 && next != '\x04';) output += next;
    return output;
  }

 private:
  FileDescriptor terminal_{-1};  // the side of the user
  FileDescriptor program_{-1};
};

TEST(ProgressBar, DrawsNothingIfStderrIsNoTerminal) {
  testing::internal::CaptureStderr();
  {
    ProgressBar bar;
    bar.Show(1, 2);
    bar.Show(2, 2);
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST_F(ProgressBarTest, DrawsTheLineOnATerminalAndEndsItWithALineBreak) {
  SetColumns(80);
  const std::string output = Output([](ProgressBar& bar) { bar.Show(5, 10); });
  EXPECT_THAT(output, StartsWith(std::string(kRedraw) + " 50 % ["));
  EXPECT_THAT(output, EndsWith("\n"));
}

TEST_F(ProgressBarTest, PrintsNoLineBreakIfItHasDrawnNothing) {
  EXPECT_EQ(Output([](ProgressBar&) {}), "");
}

TEST_F(ProgressBarTest, DrawsTheEndAtOnce) {
  SetColumns(80);
  const std::string output = Output([](ProgressBar& bar) {
    bar.Show(1, 10);
    bar.Show(10, 10);
  });
  EXPECT_THAT(output.substr(output.rfind(kRedraw)), StartsWith(std::string(kRedraw) + "100 % ["));
}

TEST_F(ProgressBarTest, DrawsAtMostTenTimesPerSecond) {
  SetColumns(80);
  const auto began = std::chrono::steady_clock::now();
  const std::string output = Output([](ProgressBar& bar) {
    for (unsigned i = 0; i < 30; ++i) bar.Show(i, 1000);
  });
  const auto took = std::chrono::steady_clock::now() - began;
  EXPECT_GE(std::ranges::count(output, '\r'), 1);
  EXPECT_LE(std::ranges::count(output, '\r'), 1 + took / std::chrono::milliseconds(100));
}

// A line as wide as the terminal would make some terminals begin a new line.
TEST_F(ProgressBarTest, LeavesTheLastColumnOfTheTerminalFree) {
  for (const unsigned short columns : {80, 40, 20, 2}) {
    SetColumns(columns);
    const std::string output = Output([](ProgressBar& bar) { bar.Show(uint64_t{1} << 30, uint64_t{2} << 30); });
    const size_t width = output.size() - std::string(kRedraw).size() - 1;
    EXPECT_GT(width, 0u);
    EXPECT_LT(width, columns) << output;
  }
}

TEST_F(ProgressBarTest, AssumesEightyColumnsIfTheTerminalDoesNotTellItsWidth) {
  const auto show = [](ProgressBar& bar) { bar.Show(0, 1); };
  SetColumns(0);
  const std::string unknown = Output(show);
  SetColumns(80);
  EXPECT_EQ(unknown.find(']'), Output(show).find(']'));
  SetColumns(60);
  EXPECT_NE(unknown.find(']'), Output(show).find(']'));
}

}  // namespace
}  // namespace penstock::cli
