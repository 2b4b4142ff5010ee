// penstock head and tail: the first and the last part of files of a server.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "base/signal.h"
#include "cli/byte_source.h"
#include "cli/client_runtime.h"
#include "cli/commands.h"
#include "cli/interface.h"
#include "cli/mounts.h"
#include "cli/printable.h"
#include "cli/sizes.h"

namespace penstock::cli {
namespace {

using client::Result;

constexpr uint32_t kBlock = 64 << 10;

// How much of a file to print.
struct Part {
  bool lines = true;  // or octets
  uint64_t count = 10;
  bool from_start = false;  // for tail: from this line or octet on, counted from 1
};

struct PartOptions : ClientOptions {
  std::vector<std::string> urls;
  std::string lines;
  std::string octets;
  bool quiet = false;
};

void AddPartOptions(CLI::App& command, PartOptions& options, const std::string& which) {
  command.add_option("URL", options.urls, "The files")->required();
  CLI::Option* const lines =
      command.add_option("-n,--lines", options.lines, fmt::format("Print the {} lines; 10 by default", which));
  command
      .add_option("-c,--bytes", options.octets,
                  fmt::format("Print the {} octets. A unit such as K or M may follow", which))
      ->excludes(lines);
  command.add_flag("-q,--quiet", options.quiet, "Print no headings with the URLs of several files");
  AddClientOptions(command, options);
}

// Returns nothing for a text that is not a number.
std::optional<Part> ParsePart(const PartOptions& options, bool allows_start) {
  Part part;
  part.lines = options.octets.empty();
  std::string_view text = part.lines ? options.lines : options.octets;
  if (text.empty()) return part;
  part.from_start = allows_start && text.starts_with('+');
  if (part.from_start) text.remove_prefix(1);
  const auto count = ParseSize(text);
  if (!count) return std::nullopt;
  part.count = *count;
  return part;
}

int WrongPart(const PartOptions& options) {
  return PrintUsageError((options.octets.empty() ? options.lines : options.octets) +
                         ": not a number of lines or octets");
}

// Prints a heading if there are several files.
class Headings {
 public:
  Headings(ClientRuntime& runtime, const PartOptions& options)
      : runtime_(runtime), shown_(options.urls.size() > 1 && !options.quiet) {}

  // Does nothing if the last heading was that of the same file.
  Task<Result<void>> Show(const Mounted& at) {
    if (!shown_ || last_ == at.name) co_return Result<void>();
    const std::string text = fmt::format("{}==> {} <==\n", last_.empty() ? "" : "\n", Printable(at.name));
    last_ = at.name;
    co_return co_await WriteBytes(runtime_, AsBytes(text));
  }

 private:
  ClientRuntime& runtime_;
  const bool shown_;
  std::string last_;
};

// ---- head ----

// Returns the octets up to the end of the part, and takes them from the count.
ConstBytes TakeFirst(Part& part, ConstBytes octets) {
  if (!part.lines) {
    const size_t count = std::min<uint64_t>(part.count, octets.size());
    part.count -= count;
    return octets.first(count);
  }
  size_t at = 0;
  while (part.count > 0 && at < octets.size()) {
    const auto end = std::find(octets.begin() + static_cast<ptrdiff_t>(at), octets.end(), std::byte{'\n'});
    at = static_cast<size_t>(end - octets.begin());
    if (end == octets.end()) break;
    ++at;
    --part.count;
  }
  return octets.first(at);
}

Task<Result<void>> PrintFirst(ClientRuntime& runtime, ByteSource& source, Part part) {
  while (part.count > 0) {
    PENSTOCK_CO_TRY(const ConstBytes octets, co_await source.Next());
    if (octets.empty()) break;
    PENSTOCK_CO_CHECK(co_await WriteBytes(runtime, TakeFirst(part, octets)));
  }
  co_return Result<void>();
}

Task<Result<void>> HeadOne(ClientRuntime& runtime, const Mounted& at, Part part, Headings& headings) {
  ReadOptions how;
  // Few lines take one small READ.
  if (part.lines || part.count <= kBlock) how = {.offset = 0, .ahead = part.count > 1000 ? 4u : 1u, .piece = kBlock};
  PENSTOCK_CO_TRY(const auto source, co_await OpenRemote(runtime, at, how));
  Result<void> printed = co_await headings.Show(at);
  if (printed) printed = co_await PrintFirst(runtime, *source, part);
  Result<void> closed = co_await source->Close();
  if (!printed) co_return printed;
  co_return closed;
}

int Head(const PartOptions& options) {
  const auto part = ParsePart(options, false);
  if (!part) return WrongPart(options);
  return RunWithMounts(
      options.urls, options,
      [&](ClientRuntime& runtime, Mounts& mounts, const std::vector<client::Url>& urls) -> Task<Result<void>> {
        Headings headings(runtime, options);
        const UseMount use = [&](ClientRuntime& where, const Mounted& at) {
          return HeadOne(where, at, *part, headings);
        };
        co_return co_await ForEachMounted(runtime, mounts, urls, use);
      });
}

// ---- tail ----

struct TailOptions : PartOptions {
  bool follow = false;
  bool follow_name = false;
  double interval = 1;
};

// A file whose end is printed.
struct Tailed {
  Mounted at;
  client::Node node;
  std::unique_ptr<client::File> file{};  // null: there is none now
  uint64_t position = 0;                 // of the next octet to print
};

class Tail {
 public:
  Tail(ClientRuntime& runtime, const TailOptions& options, Part part)
      : runtime_(runtime), options_(options), part_(part), headings_(runtime, options) {}

  Task<Result<void>> Run(Mounts& mounts, const std::vector<client::Url>& urls);

 private:
  Task<Result<void>> Begin(Mounts& mounts, const client::Url& url);
  Task<Result<void>> Open(Tailed& tailed, client::Node node);
  Task<Result<void>> Close(Tailed& tailed);
  Task<Result<size_t>> ReadAt(Tailed& tailed, uint64_t offset, Bytes into);
  Task<Result<uint64_t>> FindStart(Tailed& tailed);
  Task<Result<uint64_t>> FindLastLines(Tailed& tailed);
  Task<Result<void>> PrintNew(Tailed& tailed);
  Task<Result<void>> Follow();
  Task<Result<void>> Poll(Tailed& tailed);
  Task<Result<void>> PollName(Tailed& tailed);
  // Prints a message about a file that changes its identity.
  void Tell(const Tailed& tailed, std::string_view what) { PrintError(fmt::format("{}: {}", tailed.at.name, what)); }

  ClientRuntime& runtime_;
  const TailOptions& options_;
  const Part part_;
  Headings headings_;
  std::vector<Tailed> files_;
};

Task<Result<void>> Tail::Run(Mounts& mounts, const std::vector<client::Url>& urls) {
  for (const client::Url& url : urls) {
    const auto begun = co_await Begin(mounts, url);
    if (!begun) runtime_.Report(begun.error());
  }
  Result<void> followed{};
  if (options_.follow || options_.follow_name) followed = co_await Follow();
  for (Tailed& tailed : files_) {
    const auto closed = co_await Close(tailed);
    if (!closed) runtime_.Report(closed.error());
  }
  co_return followed;
}

// Prints the end of the file, and keeps it open.
Task<Result<void>> Tail::Begin(Mounts& mounts, const client::Url& url) {
  PENSTOCK_CO_TRY(Mounted at, co_await mounts.At(url));
  auto node = co_await at.Resolve();
  if (!node && options_.follow_name) {
    runtime_.Report(node.error());
    files_.push_back({std::move(at), {}});
    co_return Result<void>();
  }
  if (!node) co_return std::unexpected(node.error());
  Tailed tailed{std::move(at), {}};
  Result<void> printed = co_await Open(tailed, *std::move(node));
  if (printed) printed = co_await headings_.Show(tailed.at);
  if (printed) {
    const auto start = co_await FindStart(tailed);
    if (start) {
      tailed.position = *start;
      printed = co_await PrintNew(tailed);
    } else {
      printed = std::unexpected(start.error());
    }
  }
  if (!printed) printed = std::unexpected(tailed.at.Named(std::move(printed).error()));
  files_.push_back(std::move(tailed));
  co_return printed;
}

Task<Result<void>> Tail::Open(Tailed& tailed, client::Node node) {
  PENSTOCK_CO_CHECK(client::CheckRegular(node, tailed.at.name));
  PENSTOCK_CO_TRY(tailed.file, co_await tailed.at.mount->OpenFile(node, tailed.at.name, client::Access::kRead));
  tailed.node = std::move(node);
  tailed.position = 0;
  co_return Result<void>();
}

Task<Result<void>> Tail::Close(Tailed& tailed) {
  if (!tailed.file) co_return Result<void>();
  const std::unique_ptr<client::File> file = std::move(tailed.file);
  co_return co_await file->Close();
}

// Returns less than into.size() only at the end of the file.
Task<Result<size_t>> Tail::ReadAt(Tailed& tailed, uint64_t offset, Bytes into) {
  size_t count = 0;
  while (count < into.size()) {
    PENSTOCK_CO_TRY(const auto read, co_await tailed.file->Read(offset + count, into.subspan(count)));
    count += read.count;
    if (read.eof || read.count == 0) break;
  }
  co_return count;
}

// Returns the offset of the first octet to print.
Task<Result<uint64_t>> Tail::FindStart(Tailed& tailed) {
  const uint64_t size = tailed.node.attributes.size;
  if (!part_.lines) {
    if (part_.from_start) co_return std::min(size, part_.count == 0 ? 0 : part_.count - 1);
    co_return size - std::min(size, part_.count);
  }
  if (!part_.from_start) co_return co_await FindLastLines(tailed);
  const BufferRef buffer = runtime_.loop().buffers().Allocate(kBlock);
  uint64_t lines = 1;  // the number of the line that begins at `offset` or goes on there
  for (uint64_t offset = 0; lines < part_.count;) {
    PENSTOCK_CO_TRY(const size_t count, co_await ReadAt(tailed, offset, buffer->bytes().first(kBlock)));
    for (size_t i = 0; i < count; ++i) {
      if (buffer->bytes()[i] == std::byte{'\n'} && ++lines == part_.count) co_return offset + i + 1;
    }
    offset += count;
    if (count < kBlock) co_return offset;
  }
  co_return uint64_t{0};
}

// Reads backwards. A line break at the end of the file ends the last line.
Task<Result<uint64_t>> Tail::FindLastLines(Tailed& tailed) {
  const BufferRef buffer = runtime_.loop().buffers().Allocate(kBlock);
  const uint64_t size = tailed.node.attributes.size;
  if (part_.count == 0) co_return size;
  uint64_t breaks = 0;
  for (uint64_t end = size; end > 0;) {
    const uint64_t begin = (end - 1) / kBlock * kBlock;
    const size_t wanted = end - begin;
    PENSTOCK_CO_TRY(const size_t count, co_await ReadAt(tailed, begin, buffer->bytes().first(wanted)));
    for (size_t i = count; i > 0; --i) {
      const bool is_break = buffer->bytes()[i - 1] == std::byte{'\n'};
      if (is_break && begin + i != size && ++breaks == part_.count) co_return begin + i;
    }
    end = begin;
  }
  co_return uint64_t{0};
}

// Prints the octets behind the position.
Task<Result<void>> Tail::PrintNew(Tailed& tailed) {
  const uint32_t piece = tailed.at.mount->sizes().read;
  const BufferRef buffer = runtime_.loop().buffers().Allocate(piece);
  for (;;) {
    PENSTOCK_CO_TRY(const auto read, co_await tailed.file->Read(tailed.position, buffer->bytes().first(piece)));
    if (read.count > 0) {
      PENSTOCK_CO_CHECK(co_await headings_.Show(tailed.at));
      PENSTOCK_CO_CHECK(co_await WriteBytes(runtime_, buffer->bytes().first(read.count)));
    }
    tailed.position += read.count;
    if (read.eof || read.count == 0) co_return Result<void>();
  }
}

Task<Result<void>> Tail::Follow() {
  const auto interval = std::chrono::duration_cast<Duration>(std::chrono::duration<double>(options_.interval));
  while (!files_.empty()) {
    co_await Sleep(runtime_.loop(), interval);
    for (size_t i = 0; i < files_.size();) {
      Task<Result<void>> poll = options_.follow_name ? PollName(files_[i]) : Poll(files_[i]);
      const auto polled = co_await std::move(poll);
      if (!polled) {
        // Output that is lost ends the command.
        if (!polled.error().status) co_return polled;
        runtime_.Report(files_[i].at.Named(polled.error()));
        (void)co_await Close(files_[i]);
        files_.erase(files_.begin() + static_cast<ptrdiff_t>(i));
        continue;
      }
      ++i;
    }
  }
  co_return Result<void>();
}

// Prints what has been appended to the file that was opened.
Task<Result<void>> Tail::Poll(Tailed& tailed) {
  if (!tailed.file) co_return std::unexpected(client::ErrorOf(client::Status::kNotFound, tailed.at.name));
  PENSTOCK_CO_TRY(const auto attributes, co_await tailed.at.mount->GetAttributes(tailed.node.handle, tailed.at.name));
  if (attributes.size < tailed.position) {
    Tell(tailed, "file truncated");
    tailed.position = 0;
  }
  if (attributes.size > tailed.position) co_return co_await PrintNew(tailed);
  co_return Result<void>();
}

// Prints what has been appended to the file that has the name now.
Task<Result<void>> Tail::PollName(Tailed& tailed) {
  auto node = co_await tailed.at.Resolve();
  const bool other = node && tailed.file && node->handle != tailed.node.handle;
  if (tailed.file && (!node || other)) {
    // What the old file got before it was renamed or removed. It may be gone already.
    (void)co_await PrintNew(tailed);
    (void)co_await Close(tailed);
    Tell(tailed, node ? "the name belongs to another file now" : "the file is not accessible: " + node.error().message);
  }
  if (!node) {
    if (!node.error().status) co_return std::unexpected(node.error());
    co_return Result<void>();
  }
  if (!tailed.file) PENSTOCK_CO_CHECK(co_await Open(tailed, *std::move(node)));
  co_return co_await Poll(tailed);
}

int RunTail(const TailOptions& options) {
  const auto part = ParsePart(options, true);
  if (!part) return WrongPart(options);
  return RunWithMounts(
      options.urls, options,
      [&](ClientRuntime& runtime, Mounts& mounts, const std::vector<client::Url>& urls) -> Task<Result<void>> {
        Tail tail(runtime, options, *part);
        co_return co_await tail.Run(mounts, urls);
      });
}

}  // namespace

Command AddHead(CLI::App& program) {
  CLI::App* const command = program.add_subcommand("head", "Print the first part of files of an NFS server");
  const auto options = std::make_shared<PartOptions>();
  AddPartOptions(*command, *options, "first NUMBER");
  SetFooter(
      *command, "",
      {"# Print the first ten lines of a file", "penstock head nfs://server.example/notes.txt",
       "# Print the first 512 octets of a disk image", "penstock head -c 512 nfs://server.example/disk.img | xxd"});
  return {command, [options] { return Head(*options); }};
}

Command AddTail(CLI::App& program) {
  CLI::App* const command = program.add_subcommand("tail", "Print the last part of files of an NFS server");
  const auto options = std::make_shared<TailOptions>();
  AddPartOptions(*command, *options, "last NUMBER, or with +NUMBER all from there on,");
  command->add_flag("-f", options->follow, "Go on, and print what is appended to the files");
  command->add_flag("-F", options->follow_name,
                    "The same, and open the file again if the name belongs to another one; a file may come later");
  command->add_option("-s,--sleep-interval", options->interval, "With -f: look for more each so many seconds")
      ->capture_default_str()
      ->check(SecondsBetween(0.01, 3600));
  SetFooter(*command, "",
            {"# Print the last 100 lines of a log", "penstock tail -n 100 nfs://server.example/log",
             "# Follow a log that is rotated", "penstock tail -F 'nfs://server.example/log?proto=rdma'"});
  return {command, [options] { return RunTail(*options); }};
}

}  // namespace penstock::cli
