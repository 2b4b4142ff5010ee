#include "cli/output.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <string>

#include "base/data.h"

namespace penstock::cli {
namespace {

// Replaces standard output by a file for the time of its life.
class StandardOutput {
 public:
  explicit StandardOutput(int replacement) : kept_(::dup(STDOUT_FILENO)) {
    std::fflush(stdout);
    ::dup2(replacement, STDOUT_FILENO);
  }
  ~StandardOutput() {
    // What a failed write leaves in the buffer must not come out later.
    const FileDescriptor nothing(::open("/dev/null", O_WRONLY | O_CLOEXEC));
    ::dup2(nothing.get(), STDOUT_FILENO);
    std::fflush(stdout);
    std::clearerr(stdout);
    ::dup2(kept_.get(), STDOUT_FILENO);
  }

 private:
  const FileDescriptor kept_;
};

TEST(Output, PrintsFormattedTexts) {
  testing::internal::CaptureStdout();
  const bool printed = Print("{} of {}\n", 1, "two").has_value() && WriteOutput("{}").has_value();
  const bool flushed = FlushOutput().has_value();
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "1 of two\n{}");
  EXPECT_TRUE(printed && flushed);
}

TEST(Output, AFullDiskIsAnError) {
  const FileDescriptor full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
  ASSERT_TRUE(full);
  const StandardOutput output(full.get());
  EXPECT_TRUE(Print("a short text\n"));
  const auto flushed = FlushOutput();
  ASSERT_FALSE(flushed);
  EXPECT_EQ(flushed.error().message, "standard output: No space left on device");
  EXPECT_EQ(flushed.error().number, ENOSPC);
}

TEST(Output, ATextThatIsLongerThanTheBufferFailsAtOnce) {
  const FileDescriptor full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
  ASSERT_TRUE(full);
  const StandardOutput output(full.get());
  const auto written = WriteOutput(std::string(1 << 20, 'x'));
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().number, ENOSPC);
  EXPECT_FALSE(FlushOutput());
}

TEST(Output, AClosedPipeIsAnErrorWithExitCodeOne) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
  ::close(ends[0]);
  const FileDescriptor pipe(ends[1]);
  const auto before = std::signal(SIGPIPE, SIG_IGN);
  testing::internal::CaptureStderr();
  int code = 0;
  {
    const StandardOutput output(pipe.get());
    code = PrintOutput("a text\n");
  }
  std::signal(SIGPIPE, before);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "penstock: standard output: Broken pipe\n");
  EXPECT_EQ(code, 1);
}

}  // namespace
}  // namespace penstock::cli
