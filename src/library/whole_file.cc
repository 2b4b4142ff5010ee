// The functions of the C API for whole files.
#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>

#include "base/data.h"
#include "base/result.h"
#include "client/copy.h"
#include "library/error_text.h"
#include "library/file.h"
#include "library/mount.h"
#include "library/transfer.h"
#include "penstock/penstock.h"

using namespace penstock;           // NOLINT: the functions of the C API are in no namespace
using namespace penstock::library;  // NOLINT

namespace penstock::library {
namespace {

constexpr OpenHow kForReading{.access = client::Access::kRead};
OpenHow ForReplacing(uint32_t mode) {
  return {.access = client::Access::kWrite, .creates = true, .truncates = true, .mode = mode};
}

// Closes a file after its use, and returns the first failure of the two.
template <class T>
Task<client::Result<T>> CloseAfter(Loop& loop, std::unique_ptr<client::File> file, client::Result<T> result) {
  client::Result<void> closed = co_await file->Close();
  co_await NextTurn(loop);
  if (result && !closed) co_return std::unexpected(std::move(closed).error());
  co_return result;
}

struct Freed {
  void operator()(std::byte* memory) const { std::free(memory); }
};

// Memory of malloc(), which can grow.
class Contents {
 public:
  // Fails with EFBIG.
  client::Result<void> Resize(uint64_t size, const std::string& name) {
    // One octet more for the NUL.
    void* const moved = size < SIZE_MAX / 2 ? std::realloc(memory_.get(), size + 1) : nullptr;
    if (!moved) {
      return std::unexpected(
          client::Error{fmt::format("{}: {} octets do not fit in memory", name, size), std::nullopt, EFBIG});
    }
    (void)memory_.release();  // NOLINT(bugprone-unused-return-value): realloc() has freed it
    memory_.reset(static_cast<std::byte*>(moved));
    size_ = size;
    return {};
  }
  Bytes bytes() { return {memory_.get(), size_}; }
  // The caller frees it.
  std::byte* Release() {
    memory_.get()[size_] = std::byte{};
    return memory_.release();
  }

 private:
  std::unique_ptr<std::byte, Freed> memory_;
  size_t size_ = 0;
};

// Reads a file to its end, also if it is longer than its attributes say.
Task<client::Result<void>> ReadAll(Transferred what, Contents& contents) {
  const std::string& name = what.file.name();
  PENSTOCK_CO_TRY(const client::Attributes attributes,
                  co_await what.mount.GetAttributes(what.file.node().handle, name));
  // Nothing of such a size fits in memory, and one octet more is no smaller number.
  uint64_t size = std::min(attributes.size, UINT64_MAX - 1);
  uint64_t done = 0;
  for (;;) {
    // One octet more than expected shows whether the file has grown.
    PENSTOCK_CO_CHECK(contents.Resize(size + 1, name));
    PENSTOCK_CO_TRY(const int64_t read, co_await ReadRange(what, done, contents.bytes().subspan(done)));
    done += static_cast<uint64_t>(read);
    if (done <= size) break;
    if (what.operation.abandoned()) co_return Abandoned();
    size += std::max<uint64_t>(size, what.mount.sizes().read);
  }
  co_return contents.Resize(done, name);
}

// A duplicate of a descriptor of the host, so that the host may close its own at any time.
client::Result<FileDescriptor> Duplicate(int fd) {
  FileDescriptor duplicate(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
  if (!duplicate) {
    const int error = errno;
    return std::unexpected(client::Error{fmt::format("the local file: {}", DescribeErrno(error)), std::nullopt, error});
  }
  return duplicate;
}

client::CopyOptions OptionsOf(Operation& operation, penstock_progress* progress, void* context) {
  client::CopyOptions options;
  options.stops = [&operation] { return operation.abandoned(); };
  if (progress) {
    options.progress = [&operation, progress, context](uint64_t done, uint64_t total) {
      if (!operation.abandoned()) progress(context, done, total);
    };
  }
  return options;
}

// Asks on a thread that may block.
Task<client::Result<struct stat>> StatusOf(client::Mount& mount, Workers& workers, const FileDescriptor& file) {
  struct stat status{};
  const int error =
      co_await Offload(mount.loop(), workers, [&] { return ::fstat(file.get(), &status) == 0 ? 0 : errno; });
  if (error != 0) {
    co_return std::unexpected(
        client::Error{fmt::format("the local file: {}", DescribeErrno(error)), std::nullopt, error});
  }
  co_return status;
}

}  // namespace
}  // namespace penstock::library

int penstock_read_file(penstock_mount* mount, const char* path, void** data, size_t* size, const penstock_call* call) {
  return Guarded([&] {
    std::string taken = path ? path : "";
    return static_cast<int>(StartOn(
        mount, {path, static_cast<const void*>(data), size}, call,
        [mount, taken = std::move(taken), data, size](Operation& operation, client::Mount& inner) -> Task<Outcome> {
          PENSTOCK_CO_TRY(std::unique_ptr<client::File> file,
                          co_await OpenByPath(inner, PathOf(*mount, taken), kForReading));
          Contents contents;
          client::Result<void> read =
              co_await ReadAll({.mount = inner, .file = *file, .operation = operation}, contents);
          PENSTOCK_CO_CHECK(co_await CloseAfter(inner.loop(), std::move(file), std::move(read)));
          if (operation.abandoned()) co_return 0;
          *size = contents.bytes().size();
          *data = contents.Release();
          co_return 0;
        }));
  });
}

int penstock_write_file(penstock_mount* mount, const char* path, const void* data, size_t size, uint32_t mode,
                        const penstock_call* call) {
  return Guarded([&] {
    if (mode > 07777) return Fail(EINVAL, "a mode has twelve bits");
    if (!data && size > 0) return Fail(EINVAL, "an argument is null");
    const ConstBytes from(static_cast<const std::byte*>(data), size);
    std::string taken = path ? path : "";
    return static_cast<int>(StartOn(
        mount, {path}, call,
        [mount, taken = std::move(taken), from, mode](Operation& operation, client::Mount& inner) -> Task<Outcome> {
          PENSTOCK_CO_TRY(std::unique_ptr<client::File> file,
                          co_await OpenByPath(inner, PathOf(*mount, taken), ForReplacing(mode)));
          Outcome written = 0;
          if (operation.abandoned()) {
            written = Abandoned();
          } else {
            written = co_await WriteStable({.mount = inner, .file = *file, .operation = operation}, 0, from);
          }
          PENSTOCK_CO_CHECK(co_await CloseAfter(inner.loop(), std::move(file), std::move(written)));
          co_return 0;
        }));
  });
}

int64_t penstock_download(penstock_mount* mount, const char* path, int fd, penstock_progress* progress, void* context,
                          const penstock_call* call) {
  return Guarded([&]() -> int64_t {
    auto local = Duplicate(fd);
    if (!local) return Fail(local.error().number, local.error().message);
    std::string taken = path ? path : "";
    return StartOn(mount, {path}, call,
                   [mount, taken = std::move(taken), local = *std::move(local), progress, context](
                       Operation& operation, client::Mount& inner) -> Task<Outcome> {
                     Workers& workers = mount->runtime.workers();
                     PENSTOCK_CO_TRY(const struct stat status, co_await StatusOf(inner, workers, local));
                     PENSTOCK_CO_TRY(std::unique_ptr<client::File> file,
                                     co_await OpenByPath(inner, PathOf(*mount, taken), kForReading));
                     client::CopyOptions options = OptionsOf(operation, progress, context);
                     options.in_order = !S_ISREG(status.st_mode);
                     auto copied = co_await client::Download(inner, workers, *file, local.get(), std::move(options));
                     PENSTOCK_CO_TRY(const uint64_t octets,
                                     co_await CloseAfter(inner.loop(), std::move(file), std::move(copied)));
                     co_return static_cast<int64_t>(octets);
                   });
  });
}

int64_t penstock_upload(penstock_mount* mount, int fd, const char* path, uint32_t mode, penstock_progress* progress,
                        void* context, const penstock_call* call) {
  return Guarded([&]() -> int64_t {
    if (mode > 07777) return Fail(EINVAL, "a mode has twelve bits");
    auto local = Duplicate(fd);
    if (!local) return Fail(local.error().number, local.error().message);
    std::string taken = path ? path : "";
    return StartOn(
        mount, {path}, call,
        [mount, taken = std::move(taken), local = *std::move(local), mode, progress, context](
            Operation& operation, client::Mount& inner) -> Task<Outcome> {
          Workers& workers = mount->runtime.workers();
          PENSTOCK_CO_TRY(const struct stat status, co_await StatusOf(inner, workers, local));
          if (!S_ISREG(status.st_mode)) {
            co_return std::unexpected(client::Error{"the local file is not a regular file", std::nullopt, EINVAL});
          }
          PENSTOCK_CO_TRY(std::unique_ptr<client::File> file,
                          co_await OpenByPath(inner, PathOf(*mount, taken), ForReplacing(mode)));
          auto copied = co_await client::Upload(inner, workers, local.get(), static_cast<uint64_t>(status.st_size),
                                                *file, OptionsOf(operation, progress, context));
          PENSTOCK_CO_TRY(const uint64_t octets, co_await CloseAfter(inner.loop(), std::move(file), std::move(copied)));
          co_return static_cast<int64_t>(octets);
        });
  });
}
