#include "cli/copy_run.h"

#include <fmt/core.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <optional>
#include <utility>

#include "base/descriptor_limit.h"
#include "base/result.h"
#include "cli/on_interrupt.h"
#include "cli/sizes.h"

namespace penstock::cli {
namespace {

using client::Result;

// After a signal, copies that are under way get this time to end. A server that does not answer gets no more.
constexpr Duration kTimeToEnd = std::chrono::milliseconds(200);
constexpr Duration kTimeToDiscard = std::chrono::seconds(5);

// Cleans up after a signal. `end` ends the process.
Task<void> CleanUp(Loop& loop, copying::Copier& copier, const bool& ended, std::function<void()> end) {
  copier.Stop();
  const TimePoint limit = loop.Now() + kTimeToEnd;
  while (!ended && loop.Now() < limit) co_await Sleep(loop, std::chrono::milliseconds(10));
  const auto timer = loop.MakeTimer(end);
  timer->ExpireAfter(kTimeToDiscard);
  co_await copier.Discard();
  end();
}

Task<Result<void>> RunPlan(ClientRuntime& runtime, CopyPlan plan, const CopyRunOptions& options, CopyReport& report) {
  if (!plan.target) {
    report.Ended({});
    co_return Result<void>();
  }
  copying::Copier copier(runtime.loop(), *plan.target, options.copy, report);
  for (CopyPlan::Source& each : plan.sources) {
    if (plan.stream.fd >= 0) {
      copier.AddStream(
          {.workers = &runtime.workers(), .fd = plan.stream.fd, .name = plan.stream.from, .mode = plan.stream.mode},
          std::move(each.to), std::move(each.name));
    } else if (each.contents_only) {
      PENSTOCK_CO_TRY(auto from, co_await each.from.Open());
      if (each.name.empty()) {
        copier.AddContents(std::move(from), std::move(each.to));
      } else {
        copier.AddDirectory(std::move(from), std::move(each.to), std::move(each.name));
      }
    } else {
      copier.AddEntry(each.from.directory, *each.from.entry, std::move(each.to), std::move(each.name));
    }
  }
  plan.sources.clear();
  bool ended = false;
  bool interrupted = false;
  const OnInterrupt on_interrupt(runtime.loop(), [&](std::function<void()> end) {
    interrupted = true;
    Spawn(CleanUp(runtime.loop(), copier, ended, std::move(end)));
  });
  const Result<void> result = co_await copier.Run();
  ended = true;
  // The signal ends the process.
  while (interrupted) co_await Sleep(runtime.loop(), std::chrono::seconds(1));
  if (!result) report.Failed(result.error());
  report.Ended(copier.totals());
  co_return Result<void>();
}

Task<Result<void>> RunAll(ClientRuntime& runtime, const CopyRunOptions& options, const MakePlan& make) {
  Mounts mounts(runtime);
  std::optional<CopyEnds> ends(std::in_place, runtime, mounts, options);
  CopyReport report(runtime, options.report);
  auto plan = co_await make(*ends, report);
  Result<void> result;
  if (!plan) {
    result = std::unexpected(std::move(plan).error());
  } else {
    result = co_await RunPlan(runtime, *std::move(plan), options, report);
  }
  if (!result) report.Failed(result.error());
  plan = std::unexpected(client::Error());  // its directories end before their trees
  ends.reset();                             // and these before their mounts
  co_await mounts.Close();
  co_return Result<void>();
}

}  // namespace

void AddCopyRunOptions(CLI::App& command, CopyRunOptions& options) {
  copying::Options& copy = options.copy;
  const auto rule = [&command, &copy](const char* name, bool includes, const char* help) {
    command
        .add_option_function<std::string>(
            name, [&copy, includes](const std::string& pattern) { copy.filter.Add(includes, pattern); }, help)
        ->trigger_on_parse();
  };
  rule("--include", true,
       "Copy what matches this pattern, although a later --exclude matches as well. The first of these options whose\n"
       "pattern matches decides");
  rule("--exclude", false,
       "Do not copy what matches this pattern: * stands for any text without /, ** also for text with /, ? for one\n"
       "character, [a-z] for one of a set. A pattern with / matches the path below the source, others the last name.\n"
       "With / at its end it matches directories only");
  command.add_flag("-A,--acls", copy.keep_acls,
                   "Keep access control lists, and with them modes. A target that has no such lists gets a mode that\n"
                   "allows nobody more, and an error says so");
  command.add_flag("-X,--xattrs", copy.keep_xattrs,
                   "Keep extended attributes of users; on a server they need version 4.2");
  command.add_flag("-H,--hard-links", copy.hard_links, "Keep the hard links between files of the tree");
  command.add_flag("-n,--dry-run", copy.dry_run, "List what would be done, and do nothing");
  command.add_flag("-i,--itemize", options.report.list, "List what is done, one line for each action");
  command.add_flag("--verify", copy.verify, "Read each copy back and compare it with its source");
  command.add_option("--jobs", copy.jobs, "Number of files that are copied at the same time")
      ->capture_default_str()
      ->check(CLI::Range(1u, 1024u));
  command.add_option("--in-flight", copy.in_flight, "Number of READs or WRITEs of one file at the same time")
      ->capture_default_str()
      ->check(CLI::Range(1u, 64u));
  command.add_option("--limit", options.limit, "Move at most this number of octets a second, such as 100M");
  command.add_flag("--json", options.report.json, "Write what happens to standard output, one JSON object a line");
  command.add_flag("-q,--quiet", options.report.quiet, "Show no progress bar");
}

int RunCopy(const std::vector<std::string>& texts, CopyRunOptions options, const MakePlan& plan) {
  for (const std::string& text : texts) {
    if (!client::Url::LooksLikeOne(text)) continue;
    const auto url = ParseUrl(text, options);
    if (!url) return PrintUsageError(url.error().message);
  }
  if (!options.limit.empty()) {
    const auto rate = ParseSize(options.limit);
    if (!rate || *rate == 0) {
      return PrintUsageError(
          fmt::format("--limit {}: must be a number of octets, such as 500K or 100M", options.limit));
    }
    options.copy.rate = *rate;
  }
  if (options.copy.dry_run) options.report.list = true;
  // Only root may give files to others.
  const bool owners = ::geteuid() == 0 && !options.no_owner;
  options.copy.keep_owners = options.copy.keep_owners && owners;
  options.copy.keep_groups = options.copy.keep_groups && owners;
  if (options.copy.keep_acls) options.copy.keep_modes = true;
  RaiseDescriptorLimit();
  ClientRuntime runtime(options.trace, options.rdma, options.kerberos);
  runtime.WantNoDelegations();
  return runtime.Run(RunAll(runtime, options, plan));
}

}  // namespace penstock::cli
