// penstock cp: copies files and trees from a server, to it, or between two servers.
#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/data.h"
#include "base/result.h"
#include "cli/commands.h"
#include "cli/copy_in_place.h"
#include "cli/copy_run.h"
#include "cli/interface.h"
#include "cli/modes.h"

namespace penstock::cli {
namespace {

using client::Error;
using client::Result;
using client::Status;

struct CopyCommandOptions : CopyRunOptions {
  std::vector<std::string> paths;  // the last one is the target
  bool preserve = false;
  bool archive = false;
  bool resume = false;
  bool in_place = false;
};

bool IsUrl(const std::string& text) { return client::Url::LooksLikeOne(text); }

// Whether the local target of a download is written in place: a pipe, a device, or a symbolic link, which may lead to
// an open file.
bool NeedsInPlace(const std::string& target) {
  struct stat status{};
  if (target == "-") return true;
  if (::lstat(target.c_str(), &status) == 0 && S_ISLNK(status.st_mode)) {
    return ::stat(target.c_str(), &status) != 0 || !S_ISDIR(status.st_mode);
  }
  return ::stat(target.c_str(), &status) == 0 && !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode);
}

// Opens a local source whose size is known only when it has been read: standard input, a pipe, a file of /proc.
// Returns an invalid descriptor if the source is not of this kind.
FileDescriptor OpenUnsized(const std::string& source) {
  if (source == "-") return FileDescriptor(::dup(STDIN_FILENO));
  struct stat status{};
  if (IsUrl(source) || ::stat(source.c_str(), &status) != 0) return FileDescriptor(-1);
  const bool is_unsized = S_ISFIFO(status.st_mode) || S_ISCHR(status.st_mode) || S_ISSOCK(status.st_mode) ||
                          (S_ISREG(status.st_mode) && status.st_size == 0);
  FileDescriptor opened(is_unsized ? ::open(source.c_str(), O_RDONLY | O_CLOEXEC) : -1);
  char first = 0;
  // A file that is empty has attributes to copy, as others have.
  if (opened && S_ISREG(status.st_mode) && ::pread(opened.get(), &first, 1, 0) == 0) return FileDescriptor(-1);
  return opened;
}

// Returns the first given option that a copy which writes into the target itself does not have, or null.
const char* OptionForReplacing(const CopyCommandOptions& options) {
  const copying::Options& copy = options.copy;
  if (copy.dry_run) return "--dry-run";
  if (options.preserve) return "--preserve";
  if (options.resume) return "--resume";
  if (copy.verify) return "--verify";
  if (copy.keep_acls) return "--acls";
  if (copy.keep_xattrs) return "--xattrs";
  if (options.report.list) return "--itemize";
  if (options.report.json) return "--json";
  return options.limit.empty() ? nullptr : "--limit";
}

// Where the copy of a source goes.
void AddSource(CopyPlan& plan, CopyEnd from, const CopyEnd& to, const std::shared_ptr<copying::Directory>& into) {
  if (into && !from.name.empty()) {
    std::string name = from.given_name;
    plan.sources.push_back({.from = std::move(from), .to = into, .name = std::move(name)});
  } else if (into) {
    plan.sources.push_back({.from = std::move(from), .to = into, .name = {}, .contents_only = true});
  } else if (!from.name.empty()) {
    plan.sources.push_back({.from = std::move(from), .to = to.directory, .name = to.name});
  } else {
    // The root of a tree is the entry of no directory.
    plan.sources.push_back({.from = std::move(from), .to = to.directory, .name = to.name, .contents_only = true});
  }
}

Task<Result<CopyPlan>> PlanCopy(CopyEnds& ends, CopyReport& report, const CopyCommandOptions& options,
                                const FileDescriptor& stream) {
  // Local sources are found before the first call to a server.
  std::vector<CopyEnd> sources;
  for (size_t i = 0; i + 1 < options.paths.size() && !stream; ++i) {
    auto found = co_await ends.FindSources(options.paths[i], !options.copy.recursive);
    if (!found) {
      report.Failed(found.error());
      continue;
    }
    for (CopyEnd& each : *found) sources.push_back(std::move(each));
  }
  CopyPlan plan;
  if (sources.empty() && !stream) co_return plan;
  PENSTOCK_CO_TRY(const CopyEnd to, co_await ends.Find(options.paths.back(), true));
  plan.target = to.tree;
  std::shared_ptr<copying::Directory> into;
  if (to.is_directory()) {
    PENSTOCK_CO_TRY(into, co_await to.Open());
  }
  if (stream) {
    const std::string& source = options.paths.front();
    if (into && source == "-") co_return std::unexpected(client::ErrorOf(Status::kIsDirectory, to.text()));
    const std::string name = into ? source.substr(source.rfind('/') + 1) : to.name;
    plan.stream.fd = stream.get();
    plan.stream.from = source == "-" ? "standard input" : source;
    plan.stream.mode = 0666 & ~ProcessUmask();
    CopyPlan::Source to_write;
    to_write.to = into ? into : to.directory;
    to_write.name = name;
    plan.sources.push_back(std::move(to_write));
    co_return plan;
  }
  if ((sources.size() > 1 || options.paths.size() > 2) && !into) {
    co_return std::unexpected(client::ErrorOf(Status::kNotDirectory, to.text()));
  }
  for (CopyEnd& each : sources) {
    if (each.name.empty() && !options.copy.recursive) {
      const Error error{"is a directory; -r copies it with its contents", Status::kIsDirectory, EISDIR};
      report.Failed(each.text(), "", error);
      continue;
    }
    AddSource(plan, std::move(each), to, into);
  }
  co_return plan;
}

int Copy(const CopyCommandOptions& given) {
  CopyCommandOptions options = given;
  if (options.paths.size() < 2) return PrintUsageError("cp: needs a source and a target");
  const std::string& source = options.paths.front();
  const std::string& target = options.paths.back();
  bool some_url = false;
  for (const std::string& path : options.paths) some_url = some_url || IsUrl(path);
  if (!some_url) return PrintUsageError("cp: at least one of the files must be an nfs:// URL, the others may be local");
  const bool one = options.paths.size() == 2;
  for (const std::string& path : options.paths) {
    if (path == "-" && !one) return PrintUsageError("cp: - is for one source and one target");
  }
  copying::Options& copy = options.copy;
  if (options.archive) copy.recursive = copy.hard_links = copy.special_files = options.preserve = true;
  if (options.preserve) copy.keep_modes = copy.keep_times = copy.keep_owners = copy.keep_groups = true;
  if (options.resume) copy.skip_same = copy.keep_partial = true;

  InPlaceOptions in_place{.from = source,
                          .to = target,
                          .in_flight = copy.in_flight,
                          .in_place = options.in_place,
                          .quiet = options.report.quiet};
  const auto url = ParseUrl(source, options);
  const bool has_pattern = url && copying::IsPattern(url->path);
  if (options.in_place && (!one || copy.recursive || IsUrl(source) == IsUrl(target))) {
    return PrintUsageError("cp: --in-place is for one file, from a server or to it");
  }
  const bool downloads = one && IsUrl(source) && !IsUrl(target) && !copy.recursive && !has_pattern &&
                         (options.in_place || NeedsInPlace(target));
  const char* const other = downloads || options.in_place ? OptionForReplacing(options) : nullptr;
  if (other) {
    return PrintUsageError(
        fmt::format("cp: {} goes neither with --in-place nor with standard output, a pipe, a device or a symbolic "
                    "link as the target",
                    other));
  }
  if (downloads) return DownloadInPlace(in_place, options);
  if (options.in_place) return UploadInPlace(in_place, options);
  const FileDescriptor stream = one && !copy.recursive ? OpenUnsized(source) : FileDescriptor(-1);
  return RunCopy(options.paths, options,
                 [&](CopyEnds& ends, CopyReport& report) { return PlanCopy(ends, report, options, stream); });
}

}  // namespace

Command AddCopy(CLI::App& program) {
  CLI::App* const command =
      program.add_subcommand("cp", "Copy files and directories from an NFS server, to it, or between two");
  const auto options = std::make_shared<CopyCommandOptions>();
  command
      ->add_option("FILE", options->paths,
                   "The files and directories to copy, and at the end the target: local names, nfs:// URLs, or - for\n"
                   "standard input or output. The last part of a URL's path may be a pattern with * ? [")
      ->required();
  command->add_flag("-r,-R,--recursive", options->copy.recursive, "Copy directories with what they have");
  command->add_flag("-p,--preserve", options->preserve,
                    "Keep modes and times, and owners and groups if the user is root");
  command->add_flag("-a,--archive", options->archive, "The same as -r -p -H, and copy devices, FIFOs and sockets");
  command->add_flag(
      "--resume", options->resume,
      "Leave out files that have the size and the time of their source already, as -p sets it; keep what\n"
      "is complete of a large file after an error or an interruption, and go on behind it");
  command->add_flag("--no-owner", options->no_owner, "Do not set owners and groups");
  command->add_flag("--in-place", options->in_place,
                    "Write into the target file itself: it stays the same file and keeps its hard links, also in a "
                    "directory that is\n"
                    "not writable; a copy that fails leaves the file half written");
  AddCopyRunOptions(*command, *options);
  SetFooter(
      *command,
      "A file gets its name when the copy is complete and on stable storage; until then, the copy has a temporary\n"
      "name in the same directory. A file that is replaced keeps its mode, owner and, on this machine, access control\n"
      "list. If the copy fails or is interrupted, the old file stays as it was. For that, its directory must be\n"
      "writable and have room for both files. If the source grows during the copy, the copy ends at the size that the\n"
      "source had at the start; if it shrinks, the copy fails.",
      {"# Copy a file to a server, over RDMA", "penstock cp disk.img 'nfs://server.example/images/disk.img?proto=rdma'",
       "# Copy a directory to a server, with modes and times", "penstock cp -r -p photos nfs://server.example/backup/",
       "# Copy all images of a directory, encrypted by TLS",
       "penstock cp --xprtsec tls 'nfs://server.example/images/*.iso' ."});
  AddClientOptions(*command, *options);
  return {command, [options] { return Copy(*options); }};
}

}  // namespace penstock::cli
