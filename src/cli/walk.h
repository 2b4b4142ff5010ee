// Walks a tree of a server, with several directories listed at a time. The results come in a stable order, whichever
// listing ends first.
#pragma once

#include <cstddef>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/signal.h"
#include "base/task.h"
#include "cli/mounts.h"
#include "client/mount.h"
#include "client/pieces.h"

namespace penstock::cli {

// Sorts by name, octet by octet.
void SortByName(std::vector<client::Entry>& entries);

bool IsDirectory(const client::Attributes& attributes);

struct WalkOptions {
  // The most listings at the same time. Zero: no listing begins before the caller asks for the directory.
  unsigned jobs = 8;
  // Brings the entries of a directory into their order, which is also that of its subdirectories. May remove entries.
  // Null: the order of the server.
  std::function<void(std::vector<client::Entry>&)> sort = SortByName;
  // Whether the walk goes into this subdirectory. `depth` is that of the subdirectory, from 1 on. Null: into all.
  std::function<bool(const client::Entry& entry, unsigned depth)> descend{};
  // Whether the walk goes on behind a referral to another server.
  bool follow_referrals = true;
  // Looks up entries whose attributes the server's listing lacks.
  bool completes = true;
};

struct WalkedDirectory {
  std::string path;    // below the start, without a leading '/'; empty for the start
  unsigned depth = 0;  // zero for the start
  client::Node node;   // only the name is certain if there is an error
  client::Handle parent{};
  // In the order of WalkOptions::sort. Each has its attributes, unless the server cannot read them. If there is an
  // error, the entries that the server had listed before.
  std::vector<client::Entry> entries{};
  std::optional<client::Error> error{};  // names the URL of the directory
};

// Runs `use(index)`, a Task<void>, for each index below `count`, `at_once` at the same time.
template <class Use>
Task<void> ForEachIndex(size_t count, unsigned at_once, Use use) {
  const auto run = [&](uint64_t index, uint32_t) -> Task<client::Result<void>> {
    co_await use(static_cast<size_t>(index));
    co_return client::Result<void>();
  };
  if (count > 0) (void)co_await client::MovePieces(count, 1, at_once, run);
}

// The path of an entry in a directory of the walk.
std::string JoinPath(std::string_view directory, std::string_view name);

// Yields the directories of a tree: each before its subdirectories, and those in the order of their entries. Does not
// follow symbolic links. An entry that disappears during the walk is left out.
//
// Listings run ahead of the caller, until they hold many entries.
class DirectoryWalk {
 public:
  // `start.mount` outlives the walk. `root` is the directory at which the walk starts.
  DirectoryWalk(const Mounted& start, client::Node root, WalkOptions options);
  ~DirectoryWalk();
  DirectoryWalk(const DirectoryWalk&) = delete;
  DirectoryWalk& operator=(const DirectoryWalk&) = delete;

  // Returns the next directory, or null at the end of the walk. One call at a time.
  Task<std::unique_ptr<WalkedDirectory>> Next();
  // Waits until no listing is under way. It is due before the walk is destroyed, unless Next() has returned null.
  Task<void> Stop();

 private:
  struct Pending;
  using Agenda = std::list<std::unique_ptr<Pending>>;

  void ReadAhead();
  Task<void> List(Agenda::iterator at);
  Task<client::Result<void>> ListInto(WalkedDirectory& directory);
  Task<void> Complete(WalkedDirectory& directory);
  void AddSubdirectories(Agenda::iterator at);

  const Mounted start_;
  const WalkOptions options_;
  // The directories that the caller has not got, in their order.
  Agenda agenda_;
  size_t running_ = 0;  // listings
  size_t held_ = 0;     // entries that have been listed and not been taken
  bool stopping_ = false;
  Signal listed_;
};

// An entry of the tree.
struct WalkedEntry {
  std::string path;  // below the start; empty for the start itself
  unsigned depth = 0;
  const client::Entry& entry;
  client::Handle directory;  // has the entry; not for the start
  bool is_last = true;       // of its directory
  bool enters = false;       // the walk goes into it, and calls WalkHandlers::leave for it
};

struct WalkHandlers {
  // Called for the start and then for each entry, a directory before its entries.
  std::function<Task<void>(const WalkedEntry& entry)> visit;
  // Called for each directory behind its last entry, with its own entry. May be null.
  std::function<Task<void>(const WalkedEntry& directory)> leave{};
  // Called for a directory that cannot be listed, or not completely. The walk goes on.
  std::function<void(const client::Error& error)> report;
};

// Walks the tree at `start`, which need not be a directory and is `node`. The entry of the start has `name`.
Task<void> Walk(const Mounted& start, client::Node node, std::string name, WalkOptions options,
                const WalkHandlers& handlers);

}  // namespace penstock::cli
