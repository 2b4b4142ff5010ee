#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "cli/client_runtime.h"
#include "cli/commands.h"

namespace penstock::cli {
namespace {

// errno, or 0.
int WriteAll(int fd, ConstBytes bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno;
    bytes = bytes.subspan(static_cast<size_t>(n));
  }
  return 0;
}

Task<client::Result<void>> CatOne(ClientRuntime& runtime, const client::Url& url) {
  PENSTOCK_CO_TRY(const auto mount, co_await runtime.Mount(url));
  PENSTOCK_CO_TRY(const client::Node node, co_await mount->Resolve(mount->path()));
  const BufferRef buffer = runtime.loop().buffers().Allocate(mount->sizes().read);
  for (uint64_t offset = 0;;) {
    PENSTOCK_CO_TRY(const client::Mount::ReadReply read,
                    co_await mount->Read(node.handle, offset, buffer->bytes().first(mount->sizes().read), url.path));
    const ConstBytes bytes = buffer->bytes().first(read.count);
    const int error =
        co_await Offload(runtime.loop(), runtime.workers(), [bytes] { return WriteAll(STDOUT_FILENO, bytes); });
    if (error != 0) {
      co_return std::unexpected(client::Error{fmt::format("standard output: {}", std::strerror(error)), std::nullopt});
    }
    offset += read.count;
    if (read.eof || read.count == 0) co_return client::Result<void>();
  }
}

Task<client::Result<void>> CatTask(ClientRuntime& runtime, const std::vector<client::Url>& urls) {
  for (const client::Url& url : urls) PENSTOCK_CO_CHECK(co_await CatOne(runtime, url));
  co_return client::Result<void>();
}

}  // namespace

int Cat(const CatOptions& options) {
  std::vector<client::Url> urls;
  for (const std::string& text : options.urls) {
    auto url = client::Url::Parse(text);
    if (!url) {
      PrintError(url.error().message);
      return 1;
    }
    urls.push_back(*std::move(url));
  }
  ClientRuntime runtime(options.trace);
  return runtime.Run(CatTask(runtime, urls));
}

}  // namespace penstock::cli
