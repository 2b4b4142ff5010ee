#include "cli/output.h"

#include <cerrno>
#include <cstdio>
#include <optional>

#include "base/result.h"
#include "cli/client_runtime.h"

namespace penstock::cli {

namespace {

std::unexpected<client::Error> OutputError(int error) {
  return std::unexpected(
      client::Error{fmt::format("{}{}", kStandardOutput, DescribeErrno(error)), std::nullopt, error});
}

}  // namespace

client::Result<void> WriteOutput(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size()) return OutputError(errno);
  return {};
}

client::Result<void> FlushOutput() {
  if (std::fflush(stdout) != 0) return OutputError(errno);
  // An earlier error, whose errno is gone.
  if (std::ferror(stdout) != 0) return OutputError(EIO);
  return {};
}

int PrintOutput(std::string_view text) {
  client::Result<void> written = WriteOutput(text);
  if (written) written = FlushOutput();
  return written ? 0 : PrintError(written.error().message);
}

}  // namespace penstock::cli
