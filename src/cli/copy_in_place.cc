#include "cli/copy_in_place.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <memory>
#include <utility>

#include "base/data.h"
#include "base/result.h"
#include "cli/client_runtime.h"
#include "cli/local_target.h"
#include "cli/on_interrupt.h"
#include "cli/progress.h"
#include "client/copy.h"

namespace penstock::cli {
namespace {

using client::Error;
using client::Result;

std::unexpected<Error> FailureOf(std::string_view what, int error) {
  return std::unexpected(Error{fmt::format("{}: {}", what, DescribeErrno(error)), std::nullopt});
}

std::string BaseName(std::string_view path) {
  while (path.ends_with('/')) path.remove_suffix(1);
  return std::string(path.substr(path.rfind('/') + 1));
}

client::CopyOptions TransferOptions(const InPlaceOptions& options, ProgressBar& bar) {
  client::CopyOptions transfer;
  transfer.in_flight = options.in_flight;
  if (!options.quiet) transfer.progress = [&bar](uint64_t done, uint64_t total) { bar.Show(done, total); };
  return transfer;
}

// Closes `file`, and returns the error of `copied`, or else the error of closing.
Task<Result<void>> Closed(client::File& file, Result<uint64_t> copied) {
  Result<void> closed = co_await file.Close();
  if (!copied) co_return std::unexpected(std::move(copied).error());
  co_return closed;
}

Task<Result<std::unique_ptr<client::File>>> OpenSource(client::Mount& mount, const client::Node& node) {
  PENSTOCK_CO_CHECK(client::CheckRegular(node, mount.url().path));
  co_return co_await mount.OpenFile(node, mount.url().path, client::Access::kRead);
}

Task<Result<void>> DownloadToOutput(ClientRuntime& runtime, client::Mount& mount, const InPlaceOptions& options) {
  PENSTOCK_CO_TRY(const client::Node node, co_await mount.Resolve(mount.path()));
  PENSTOCK_CO_TRY(const auto file, co_await OpenSource(mount, node));
  ProgressBar bar;
  client::CopyOptions transfer = TransferOptions(options, bar);
  transfer.in_order = true;
  transfer.local_name = "standard output";
  auto copied = co_await client::Download(mount, runtime.workers(), *file, STDOUT_FILENO, std::move(transfer));
  co_return co_await Closed(*file, std::move(copied));
}

Task<Result<void>> DownloadTask(ClientRuntime& runtime, client::Mount& mount, const InPlaceOptions& options) {
  const std::string& path = mount.url().path;
  PENSTOCK_CO_TRY(const client::Node node, co_await mount.Resolve(mount.path()));
  PENSTOCK_CO_CHECK(client::CheckRegular(node, path));
  std::filesystem::path to = options.to;
  std::error_code ignored;  // opening the path reports the error
  if (std::filesystem::is_directory(to, ignored)) to /= BaseName(path);
  LocalTarget local(to, node.attributes.mode & 0777, options.in_place);
  const OnInterrupt interrupted(runtime.loop(), [&local] { local.Discard(); });
  PENSTOCK_CO_CHECK(co_await Offload(runtime.loop(), runtime.workers(), [&local] { return local.Open(); }));

  ProgressBar bar;
  client::CopyOptions transfer = TransferOptions(options, bar);
  transfer.in_order = local.is_stream();
  transfer.local_name = to.native();
  PENSTOCK_CO_TRY(const auto file, co_await OpenSource(mount, node));
  auto copied = co_await client::Download(mount, runtime.workers(), *file, local.fd(), std::move(transfer));
  PENSTOCK_CO_CHECK(co_await Closed(*file, std::move(copied)));
  Result<void> committed = co_await Offload(runtime.loop(), runtime.workers(), [&local] { return local.Commit(); });
  co_return committed;
}

// Opens the regular file that an upload writes to: `path` itself, or a file with the source's name in it if `path` is a
// directory.
Task<Result<std::unique_ptr<client::File>>> UploadTarget(client::Mount& mount, std::string path,
                                                         const std::string& source_name, uint32_t mode) {
  auto target = co_await mount.Resolve(path);
  if (target && target->attributes.type == client::FileType::kDirectory) {
    co_return co_await mount.CreateFile(target->handle, source_name, mode);
  }
  if (!target && target.error().status != client::Status::kNotFound) {
    co_return std::unexpected(std::move(target).error());
  }
  PENSTOCK_CO_TRY(const client::Mount::Place place, co_await mount.ResolvePlace(path));
  co_return co_await mount.CreateFile(place.directory, place.name, mode);
}

Task<Result<void>> UploadTask(ClientRuntime& runtime, client::Mount& mount, const InPlaceOptions& options,
                              const FileDescriptor& local) {
  struct stat status{};
  if (::fstat(local.get(), &status) != 0) co_return FailureOf(options.from, errno);
  if (!S_ISREG(status.st_mode)) {
    co_return std::unexpected(Error{options.from + ": not a regular file", std::nullopt});
  }
  PENSTOCK_CO_TRY(const auto file,
                  co_await UploadTarget(mount, mount.path(), BaseName(options.from), status.st_mode & 0777));
  ProgressBar bar;
  client::CopyOptions transfer = TransferOptions(options, bar);
  transfer.local_name = options.from;
  auto copied = co_await client::Upload(mount, runtime.workers(), local.get(), static_cast<uint64_t>(status.st_size),
                                        *file, std::move(transfer));
  co_return co_await Closed(*file, std::move(copied));
}

}  // namespace

int DownloadInPlace(const InPlaceOptions& options, const ClientOptions& client) {
  const auto url = ParseUrl(options.from, client);
  if (!url) return PrintUsageError(url.error().message);
  ClientRuntime runtime(client.trace, client.rdma, client.kerberos);
  return runtime.Run(runtime.WithMount(*url, [&](client::Mount& mount) {
    return options.to == "-" ? DownloadToOutput(runtime, mount, options) : DownloadTask(runtime, mount, options);
  }));
}

int UploadInPlace(const InPlaceOptions& options, const ClientOptions& client) {
  const auto url = ParseUrl(options.to, client);
  if (!url) return PrintUsageError(url.error().message);
  // Before the first call to the server.
  const FileDescriptor from(::open(options.from.c_str(), O_RDONLY | O_CLOEXEC));
  if (!from) return PrintError(FailureOf(options.from, errno).error().message);
  ClientRuntime runtime(client.trace, client.rdma, client.kerberos);
  return runtime.Run(
      runtime.WithMount(*url, [&](client::Mount& mount) { return UploadTask(runtime, mount, options, from); }));
}

}  // namespace penstock::cli
