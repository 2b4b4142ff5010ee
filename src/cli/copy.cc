// penstock cp: copies a file from a server, or to it.
#include <fcntl.h>
#include <fmt/core.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "base/data.h"
#include "base/file_io.h"
#include "base/result.h"
#include "cli/client_runtime.h"
#include "cli/commands.h"
#include "cli/interface.h"
#include "cli/local_target.h"
#include "cli/on_interrupt.h"
#include "cli/progress.h"
#include "client/copy.h"

namespace penstock::cli {
namespace {

using client::Error;
using client::Result;

struct CopyCommandOptions : ClientOptions {
  std::string from;
  std::string to;
  unsigned in_flight = 8;
  bool in_place = false;  // write into the local file instead of replacing it
  bool quiet = false;
};

std::unexpected<Error> Failure(std::string_view what, int error) {
  return std::unexpected(Error{fmt::format("{}: {}", what, DescribeErrno(error)), std::nullopt});
}

std::string BaseName(std::string_view path) {
  while (path.ends_with('/')) path.remove_suffix(1);
  return std::string(path.substr(path.rfind('/') + 1));
}

client::CopyOptions TransferOptions(const CopyCommandOptions& options, ProgressBar& bar) {
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

Task<Result<void>> DownloadTask(ClientRuntime& runtime, client::Mount& mount, const CopyCommandOptions& options) {
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
  PENSTOCK_CO_TRY(const auto file, co_await mount.OpenFile(node, path, client::Access::kRead));
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

// Loads a file whose size is known only when it has been read, like those of /proc, into memory. Returns nothing if the
// file is empty.
Result<std::optional<FileDescriptor>> LoadUnsized(const FileDescriptor& file, const std::string& name) {
  std::array<std::byte, 64 << 10> octets;
  std::optional<FileDescriptor> loaded;
  for (;;) {
    const ssize_t read = ::read(file.get(), octets.data(), octets.size());
    if (read < 0 && errno == EINTR) continue;
    if (read < 0) return Failure(name, errno);
    if (read == 0) return loaded;
    if (!loaded) loaded.emplace(::memfd_create("penstock", MFD_CLOEXEC));
    const auto written = WriteAll(loaded->get(), ConstBytes(octets).first(static_cast<size_t>(read)));
    if (!written) return Failure(name, written.error());
  }
}

Task<Result<void>> UploadTask(ClientRuntime& runtime, client::Mount& mount, const CopyCommandOptions& options,
                              const FileDescriptor& opened) {
  struct stat status{};
  if (::fstat(opened.get(), &status) != 0) co_return Failure(options.from, errno);
  if (!S_ISREG(status.st_mode)) {
    co_return std::unexpected(Error{options.from + ": not a regular file", std::nullopt});
  }
  std::optional<FileDescriptor> loaded;
  if (status.st_size == 0) {
    PENSTOCK_CO_TRY(loaded, LoadUnsized(opened, options.from));
    if (loaded) status.st_size = ::lseek(loaded->get(), 0, SEEK_CUR);
  }
  const FileDescriptor& local = loaded ? *loaded : opened;
  PENSTOCK_CO_TRY(const auto file,
                  co_await UploadTarget(mount, mount.path(), BaseName(options.from), status.st_mode & 0777));
  ProgressBar bar;
  client::CopyOptions transfer = TransferOptions(options, bar);
  transfer.local_name = options.from;
  auto copied = co_await client::Upload(mount, runtime.workers(), local.get(), static_cast<uint64_t>(status.st_size),
                                        *file, std::move(transfer));
  co_return co_await Closed(*file, std::move(copied));
}

int Copy(const CopyCommandOptions& options) {
  const bool download = client::Url::LooksLikeOne(options.from);
  if (download == client::Url::LooksLikeOne(options.to)) {
    return PrintUsageError("cp: one of the two must be an nfs:// URL, the other a local file");
  }
  const auto url = ParseUrl(download ? options.from : options.to, options);
  if (!url) return PrintUsageError(url.error().message);
  // Before the first call to the server.
  const FileDescriptor from(download ? -1 : ::open(options.from.c_str(), O_RDONLY | O_CLOEXEC));
  if (!download && !from) return PrintError(Failure(options.from, errno).error().message);
  ClientRuntime runtime(options.trace, options.rdma, options.kerberos);
  return runtime.Run(runtime.WithMount(*url, [&](client::Mount& mount) {
    return download ? DownloadTask(runtime, mount, options) : UploadTask(runtime, mount, options, from);
  }));
}

}  // namespace

Command AddCopy(CLI::App& program) {
  CLI::App* const command = program.add_subcommand("cp", "Copy a file from an NFS server, or to it");
  const auto options = std::make_shared<CopyCommandOptions>();
  command->add_option("FROM", options->from, "A local file or an nfs:// URL")->required();
  command->add_option("TO", options->to, "A local file, a directory or an nfs:// URL")->required();
  command->add_option("--in-flight", options->in_flight, "Number of READs or WRITEs at the same time")
      ->capture_default_str()
      ->check(CLI::Range(1u, 64u));
  command->add_flag(
      "--in-place", options->in_place,
      "Write into the local file itself: it stays the same file and keeps its hard links, also in a directory that is\n"
      "not writable; a copy that fails leaves the file half written");
  command->add_flag("-q,--quiet", options->quiet, "Show no progress bar");
  SetFooter(
      *command,
      "A local file is replaced when the copy is complete and on the disk. The new file gets the mode, the owner and\n"
      "the access control list of the old one. If the copy fails or is interrupted, the old file stays as it was. For\n"
      "that, its directory must be writable and have room for both files. If the source grows during the copy, the\n"
      "copy ends at the size that the source had at the start; if it shrinks, the copy fails.",
      {"# Copy a file to a server, over RDMA", "penstock cp disk.img 'nfs://server.example/images/disk.img?proto=rdma'",
       "# Copy a file from a server into this directory, encrypted by TLS",
       "penstock cp --xprtsec tls nfs://server.example/images/disk.img ."});
  AddClientOptions(*command, *options);
  return {command, [options] { return Copy(*options); }};
}

}  // namespace penstock::cli
