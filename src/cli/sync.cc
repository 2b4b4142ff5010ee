// penstock sync: makes one tree equal to another.
#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <utility>

#include "base/result.h"
#include "cli/commands.h"
#include "cli/copy_run.h"
#include "cli/interface.h"

namespace penstock::cli {
namespace {

struct SyncOptions : CopyRunOptions {
  std::string from;
  std::string to;
};

Task<client::Result<CopyPlan>> PlanSync(CopyEnds& ends, const SyncOptions& options) {
  PENSTOCK_CO_TRY(CopyEnd from, co_await ends.Find(options.from, true));
  if (!from.name.empty() && !from.entry) {
    co_return std::unexpected(client::ErrorOf(client::Status::kNotFound, from.text()));
  }
  if (!from.is_directory()) {
    co_return std::unexpected(client::ErrorOf(client::Status::kNotDirectory, from.text()));
  }
  PENSTOCK_CO_TRY(const CopyEnd to, co_await ends.Find(options.to, true));
  CopyPlan plan{.target = to.tree};
  if (to.is_directory()) {
    PENSTOCK_CO_TRY(auto directory, co_await to.Open());
    plan.sources.push_back({.from = std::move(from), .to = std::move(directory), .name = {}, .contents_only = true});
    co_return plan;
  }
  if (to.entry) co_return std::unexpected(client::ErrorOf(client::Status::kNotDirectory, to.text()));
  if (!from.name.empty()) {
    plan.sources.push_back({.from = std::move(from), .to = to.directory, .name = to.name});
    co_return plan;
  }
  // The root of a tree is the entry of no directory.
  plan.sources.push_back({.from = std::move(from), .to = to.directory, .name = to.name, .contents_only = true});
  co_return plan;
}

int Sync(const SyncOptions& options) {
  if (!client::Url::LooksLikeOne(options.from) && !client::Url::LooksLikeOne(options.to)) {
    return PrintUsageError("sync: at least one of the two must be an nfs:// URL");
  }
  return RunCopy({options.from, options.to}, options,
                 [&options](CopyEnds& ends, CopyReport&) { return PlanSync(ends, options); });
}

}  // namespace

Command AddSync(CLI::App& program) {
  CLI::App* const command =
      program.add_subcommand("sync", "Make a directory equal to another one, on an NFS server or from it");
  const auto options = std::make_shared<SyncOptions>();
  copying::Options& copy = options->copy;
  copy.recursive = copy.skip_same = copy.replace_others = copy.special_files = true;
  copy.keep_modes = copy.keep_times = copy.keep_owners = copy.keep_groups = true;
  command->add_option("FROM", options->from, "A directory, local or an nfs:// URL")->required();
  command->add_option("TO", options->to, "The directory that becomes equal to it; it need not exist")->required();
  command->add_flag("-c,--checksum", copy.compare_contents,
                    "Read files of the same size and compare their contents, instead of their times");
  command->add_flag("--delete", copy.delete_others, "Delete what FROM does not have");
  command->add_flag("--partial", copy.keep_partial,
                    "Keep what is complete of a large file after an error or an interruption; the next copy goes on\n"
                    "behind it");
  command->add_flag("--no-owner", options->no_owner, "Do not set owners and groups; without it, root sets them");
  AddCopyRunOptions(*command, *options);
  SetFooter(*command,
            "Modes, times and symbolic links are kept, and owners and groups if the user is root. A file that has the\n"
            "size and the time of its source is not copied. Each file is replaced when its copy is complete and on\n"
            "stable storage. After an interruption, the same command goes on where it ended.",
            {"# Copy a directory to a server, and delete what is not in it",
             "penstock sync --delete ./photos nfs://server.example/photos",
             "# Look what a copy from one server to another would do",
             "penstock sync -n 'nfs://old.example/home?proto=rdma' 'nfs://new.example/home?proto=rdma'"});
  AddClientOptions(*command, *options);
  return {command, [options] { return Sync(*options); }};
}

}  // namespace penstock::cli
