// penstock cmp: compares two files, each of a server or of this host.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "cli/byte_source.h"
#include "cli/client_runtime.h"
#include "cli/commands.h"
#include "cli/interface.h"
#include "cli/mounts.h"
#include "cli/output.h"
#include "cli/sizes.h"
#include "client/url.h"

namespace penstock::cli {
namespace {

using client::Result;

struct CompareOptions : ClientOptions {
  std::string one;
  std::string other;
  bool silent = false;
  std::string limit;
};

// A file of the comparison.
struct Side {
  std::string name;
  std::unique_ptr<ByteSource> source{};
  ConstBytes octets{};  // that have not been compared
  bool ended = false;
};

Task<Result<void>> Refill(Side& side) {
  if (!side.octets.empty() || side.ended) co_return Result<void>();
  PENSTOCK_CO_TRY(side.octets, co_await side.source->Next());
  side.ended = side.octets.empty();
  co_return Result<void>();
}

// Compares at most `limit` octets. Prints the first difference, and returns whether there is one.
Task<Result<bool>> CompareSides(Side& one, Side& other, uint64_t limit, bool silent) {
  uint64_t compared = 0;
  uint64_t line = 1;
  while (compared < limit) {
    PENSTOCK_CO_CHECK(co_await Refill(one));
    PENSTOCK_CO_CHECK(co_await Refill(other));
    if (one.ended && other.ended) break;
    if (one.ended || other.ended) {
      const Side& shorter = one.ended ? one : other;
      if (!silent) PrintError(fmt::format("cmp: {} ends after octet {}, line {}", shorter.name, compared, line));
      co_return true;
    }
    const size_t count = std::min<uint64_t>({one.octets.size(), other.octets.size(), limit - compared});
    const auto left = one.octets.first(count);
    const auto [at, _] = std::ranges::mismatch(left, other.octets.first(count));
    const auto same = static_cast<size_t>(at - left.begin());
    line += static_cast<uint64_t>(std::count(left.begin(), at, std::byte{'\n'}));
    compared += same;
    if (same < count) {
      if (silent) co_return true;
      PENSTOCK_CO_CHECK(Print("{} {} differ: octet {}, line {}\n", one.name, other.name, compared + 1, line));
      co_return true;
    }
    one.octets = one.octets.subspan(count);
    other.octets = other.octets.subspan(count);
  }
  co_return false;
}

// Opens the file. A URL takes the next one of the parsed URLs.
Task<Result<void>> OpenSide(ClientRuntime& runtime, Mounts& mounts, Side& side, const std::vector<client::Url>& urls,
                            size_t& next) {
  if (client::Url::LooksLikeOne(side.name)) {
    PENSTOCK_CO_TRY(const Mounted at, co_await mounts.At(urls[next++]));
    side.name = at.name;
    PENSTOCK_CO_TRY(side.source, co_await OpenRemote(runtime, at));
  } else {
    PENSTOCK_CO_TRY(side.source, co_await OpenLocal(runtime, side.name));
  }
  co_return Result<void>();
}

Task<Result<void>> CompareTask(ClientRuntime& runtime, Mounts& mounts, const std::vector<client::Url>& urls,
                               const CompareOptions& options, uint64_t limit, bool& differ) {
  Side one{options.one};
  Side other{options.other};
  size_t next = 0;
  Result<void> result = co_await OpenSide(runtime, mounts, one, urls, next);
  if (result) result = co_await OpenSide(runtime, mounts, other, urls, next);
  if (result) {
    const auto compared = co_await CompareSides(one, other, limit, options.silent);
    if (compared) differ = *compared;
    if (!compared) result = std::unexpected(compared.error());
  }
  for (Side* const side : {&one, &other}) {
    if (!side->source) continue;
    const Result<void> closed = co_await side->source->Close();
    if (result && !closed) result = closed;
  }
  co_return result;
}

// The exit code is that of cmp(1): 1 for a difference, 2 for trouble.
int Compare(const CompareOptions& options) {
  const auto limit = options.limit.empty() ? ~uint64_t{0} : ParseSize(options.limit);
  if (!limit) return PrintUsageError(options.limit + ": not a number of octets");
  std::vector<std::string> urls;
  for (const std::string& name : {options.one, options.other}) {
    if (client::Url::LooksLikeOne(name)) urls.push_back(name);
  }
  if (urls.empty()) return PrintUsageError("cmp: one of the two must be an nfs:// URL");
  bool differ = false;
  const int code =
      RunWithMounts(urls, options, [&](ClientRuntime& runtime, Mounts& mounts, const std::vector<client::Url>& parsed) {
        return CompareTask(runtime, mounts, parsed, options, *limit, differ);
      });
  if (code != 0) return 2;
  return differ ? 1 : 0;
}

}  // namespace

Command AddCompare(CLI::App& program) {
  CLI::App* const command = program.add_subcommand("cmp", "Compare two files, each on an NFS server or local");
  const auto options = std::make_shared<CompareOptions>();
  command->add_option("FILE1", options->one, "An nfs:// URL, a local file, or - for standard input")->required();
  command->add_option("FILE2", options->other, "The other one")->required();
  command->add_flag("-s,--silent", options->silent, "Print nothing: only the exit code tells the result");
  command->add_option("-n,--bytes", options->limit,
                      "Compare at most this many octets. A unit such as K or M may follow");
  AddClientOptions(*command, *options);
  SetFooter(*command, "The exit code is 0 if the files are equal, 1 if they differ, and 2 after an error.",
            {"# Compare a local file with its copy on a server",
             "penstock cmp disk.img nfs://server.example/images/disk.img", "# Compare what two versions of NFS read",
             "penstock cmp 'nfs://server.example/a?vers=3' 'nfs://server.example/a?vers=4.2'"});
  return {command, [options] { return Compare(*options); }};
}

}  // namespace penstock::cli
