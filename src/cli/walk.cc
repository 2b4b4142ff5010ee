#include "cli/walk.h"

#include <fmt/core.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <utility>

namespace penstock::cli {
namespace {

// Enough to keep all listings busy, and little memory beside one large directory.
constexpr size_t kMostHeldEntries = 20'000;
// A tree that is deeper leads into itself, by referrals.
constexpr unsigned kMostDepth = 4096;

bool MayHaveEntries(const client::Entry& entry) {
  return entry.attributes ? IsDirectory(*entry.attributes) : entry.is_referral;
}

bool IsGone(const client::Error& error) {
  return error.status == client::Status::kNotFound || error.status == client::Status::kStale;
}

}  // namespace

bool IsDirectory(const client::Attributes& attributes) { return attributes.type == client::FileType::kDirectory; }

void SortByName(std::vector<client::Entry>& entries) { std::ranges::sort(entries, {}, &client::Entry::name); }

std::string JoinPath(std::string_view directory, std::string_view name) {
  if (directory.empty()) return std::string(name);
  if (name.empty()) return std::string(directory);
  return fmt::format("{}{}{}", directory, directory.ends_with('/') ? "" : "/", name);
}

// ---- DirectoryWalk ----

struct DirectoryWalk::Pending {
  WalkedDirectory directory;
  bool known = false;  // the node is
  bool running = false;
  bool listed = false;
};

DirectoryWalk::DirectoryWalk(const Mounted& start, client::Node root, WalkOptions options)
    : start_(start), options_(std::move(options)) {
  auto first = std::make_unique<Pending>();
  first->directory.parent = root.directory;
  first->directory.node = std::move(root);
  first->known = true;
  agenda_.push_back(std::move(first));
}

DirectoryWalk::~DirectoryWalk() { assert(running_ == 0); }

Task<std::unique_ptr<WalkedDirectory>> DirectoryWalk::Next() {
  if (agenda_.empty()) co_return nullptr;
  ReadAhead();
  Pending& first = *agenda_.front();
  if (!first.running && !first.listed) Spawn(List(agenda_.begin()));
  while (!first.listed) co_await listed_;
  auto directory = std::make_unique<WalkedDirectory>(std::move(first.directory));
  held_ -= directory->entries.size();
  agenda_.pop_front();
  co_return directory;
}

Task<void> DirectoryWalk::Stop() {
  stopping_ = true;
  while (running_ > 0) co_await listed_;
}

// Begins listings of the next directories.
void DirectoryWalk::ReadAhead() {
  for (auto at = agenda_.begin(); at != agenda_.end(); ++at) {
    if (stopping_ || running_ >= options_.jobs || held_ >= kMostHeldEntries) return;
    // It may end at once, and insert its subdirectories behind this place.
    if (!(*at)->running && !(*at)->listed) Spawn(List(at));
  }
}

Task<void> DirectoryWalk::List(Agenda::iterator at) {
  Pending& pending = **at;
  WalkedDirectory& directory = pending.directory;
  pending.running = true;
  ++running_;
  client::Result<void> listed{};
  if (!pending.known) {
    auto node = co_await start_.mount->Lookup(directory.parent, directory.node.name);
    if (node) {
      directory.node = *std::move(node);
    } else {
      listed = std::unexpected(std::move(node).error());
    }
  }
  if (listed) listed = co_await ListInto(directory);
  if (!listed) {
    // ReadAhead() needs listings that suspend.
    co_await Sleep(start_.mount->loop(), Duration::zero());
    Mounted named = start_;
    named.path = JoinPath(start_.path, directory.path);
    named.server_path = JoinPath(start_.server_path, directory.path);
    named.name = JoinPath(start_.name, directory.path);
    directory.error = named.Named(std::move(listed).error());
  }
  if (options_.completes) co_await Complete(directory);
  if (options_.sort) options_.sort(directory.entries);
  held_ += directory.entries.size();
  AddSubdirectories(at);
  pending.listed = true;
  --running_;
  ReadAhead();
  listed_.Notify();
}

Task<client::Result<void>> DirectoryWalk::ListInto(WalkedDirectory& directory) {
  if (!IsDirectory(directory.node.attributes)) {
    // Another client has replaced it, perhaps by a symbolic link.
    co_return std::unexpected(client::ErrorOf(client::Status::kNotDirectory, directory.node.name));
  }
  const auto add = [&](client::Entry entry) { directory.entries.push_back(std::move(entry)); };
  co_return co_await start_.mount->List(directory.node.handle, JoinPath(start_.name, directory.path), add);
}

// Looks up entries without attributes: a server of version 3 may leave them out. Leaves out entries that are gone.
Task<void> DirectoryWalk::Complete(WalkedDirectory& directory) {
  std::vector<client::Entry>& entries = directory.entries;
  std::vector<size_t> unknown;
  for (size_t i = 0; i < entries.size(); ++i) {
    if (!entries[i].attributes && !entries[i].is_referral) unknown.push_back(i);
  }
  const auto look_up = [&](size_t index) -> Task<void> {
    client::Entry& entry = entries[unknown[index]];
    auto node = co_await start_.mount->Lookup(directory.node.handle, entry.name);
    if (node) entry.attributes = std::move(node->attributes);
    if (!node && IsGone(node.error())) entry.name.clear();
  };
  co_await ForEachIndex(unknown.size(), 16, look_up);
  std::erase_if(entries, [](const client::Entry& entry) { return entry.name.empty(); });
}

void DirectoryWalk::AddSubdirectories(Agenda::iterator at) {
  WalkedDirectory& directory = (*at)->directory;
  const unsigned depth = directory.depth + 1;
  const auto behind = std::next(at);
  for (const client::Entry& entry : directory.entries) {
    if (!MayHaveEntries(entry) || (entry.is_referral && !options_.follow_referrals)) continue;
    if (options_.descend && !options_.descend(entry, depth)) continue;
    if (depth > kMostDepth) {
      const std::string name = JoinPath(start_.name, directory.path);
      directory.error = client::Error{name + ": directories are nested too deeply", std::nullopt, ELOOP};
      return;
    }
    auto pending = std::make_unique<Pending>();
    pending->directory = {
        .path = JoinPath(directory.path, entry.name), .depth = depth, .node = {}, .parent = directory.node.handle};
    pending->directory.node.name = entry.name;
    agenda_.insert(behind, std::move(pending));
  }
}

// ---- Walk ----

namespace {

// A directory on the way from the start to the present entry.
struct Level {
  std::unique_ptr<WalkedDirectory> directory;
  client::Entry entry;  // of the directory
  size_t next = 0;
};

}  // namespace

Task<void> Walk(const Mounted& start, client::Node node, std::string name, WalkOptions options,
                const WalkHandlers& handlers) {
  client::Entry first{std::move(name), node.attributes};
  const bool enters = MayHaveEntries(first) && (!options.descend || options.descend(first, 0));
  const WalkedEntry whole{.path = {}, .depth = 0, .entry = first, .directory = node.directory, .enters = enters};
  co_await handlers.visit(whole);
  if (!enters) co_return;
  const auto descend = options.descend;
  const bool follows = options.follow_referrals;
  DirectoryWalk directories(start, std::move(node), std::move(options));
  std::vector<Level> levels;
  const auto enter = [&](client::Entry entry) -> Task<void> {
    auto directory = co_await directories.Next();
    if (directory->error) handlers.report(*directory->error);
    levels.push_back({std::move(directory), std::move(entry), 0});
  };
  co_await enter(std::move(first));
  while (!levels.empty()) {
    // `enter` moves the levels.
    const WalkedDirectory& directory = *levels.back().directory;
    if (levels.back().next == directory.entries.size()) {
      const Level left = std::move(levels.back());
      levels.pop_back();
      const WalkedEntry entry{
          .path = directory.path, .depth = directory.depth, .entry = left.entry, .directory = directory.parent};
      if (handlers.leave) co_await handlers.leave(entry);
      continue;
    }
    const client::Entry& entry = directory.entries[levels.back().next++];
    const unsigned depth = directory.depth + 1;
    const bool may_enter = MayHaveEntries(entry) && (follows || !entry.is_referral) && depth <= kMostDepth;
    const bool enters_it = may_enter && (!descend || descend(entry, depth));
    const WalkedEntry visited{.path = JoinPath(directory.path, entry.name),
                              .depth = depth,
                              .entry = entry,
                              .directory = directory.node.handle,
                              .is_last = levels.back().next == directory.entries.size(),
                              .enters = enters_it};
    co_await handlers.visit(visited);
    if (enters_it) co_await enter(entry);
  }
  co_await directories.Stop();
}

}  // namespace penstock::cli
