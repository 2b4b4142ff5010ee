#include "cli/copy_ends.h"

#include <fmt/core.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/result.h"
#include "client/set_up.h"
#include "copying/patterns.h"

namespace penstock::cli {
namespace {

using client::Error;
using client::Result;
using client::Status;
using copying::Entry;

std::unexpected<Error> Named(Error error, std::string_view name) {
  error.message = fmt::format("{}: {}", name, copying::ReasonOf(error, name));
  return std::unexpected(std::move(error));
}

// Takes the name of an entry from `directory`, which may not have it.
Task<Result<CopyEnd>> FindIn(copying::Tree& tree, std::shared_ptr<copying::Directory> directory, std::string name) {
  CopyEnd end{.tree = &tree, .directory = std::move(directory), .name = std::move(name)};
  auto entry = co_await end.directory->Find(end.name);
  if (entry) {
    end.entry = *std::move(entry);
  } else if (entry.error().status != Status::kNotFound) {
    co_return Named(entry.error(), end.text());
  }
  co_return end;
}

std::string LastOf(std::string_view path) {
  while (path.ends_with('/')) path.remove_suffix(1);
  return std::string(path.substr(path.rfind('/') + 1));
}

}  // namespace

Task<Result<std::shared_ptr<copying::Directory>>> CopyEnd::Open() const {
  if (name.empty()) co_return directory;
  auto opened = co_await directory->OpenDirectory(*entry);
  if (!opened) co_return Named(opened.error(), text());
  co_return opened;
}

CopyEnds::CopyEnds(ClientRuntime& runtime, Mounts& mounts, const AccessOptions& options)
    : mounts_(mounts), options_(options), local_(runtime.loop(), runtime.workers()) {}
CopyEnds::~CopyEnds() = default;

Task<Result<CopyEnd>> CopyEnds::Find(const std::string& argument, bool follow) {
  if (!client::Url::LooksLikeOne(argument)) {
    PENSTOCK_CO_TRY(CopyEnd end, co_await FindLocal(argument, follow));
    end.given_name = LastOf(argument);
    co_return end;
  }
  const auto url = ParseUrl(argument, options_);
  if (!url) co_return std::unexpected(Error{url.error().message, std::nullopt, EINVAL});
  PENSTOCK_CO_TRY(CopyEnd end, co_await FindRemote(*url, follow));
  end.given_name = LastOf(url->path);
  co_return end;
}

Task<Result<CopyEnd>> CopyEnds::FindLocal(std::string path, bool follow) {
  constexpr int kMostLinks = 40;  // Linux follows as many
  const bool needs_directory = path.ends_with('/');
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  for (int links = 0;; ++links) {
    const std::filesystem::path whole = path;
    const std::string name = whole.filename();
    if (name.empty() || name == "." || name == "..") {
      auto opened = co_await local_.Open(path);
      if (!opened) co_return Named(opened.error(), path);
      co_return CopyEnd{.tree = &local_, .directory = *std::move(opened)};
    }
    const std::string parent = whole.parent_path();
    auto above = co_await local_.Open(parent);
    if (!above) co_return Named(above.error(), path);
    PENSTOCK_CO_TRY(CopyEnd end, co_await FindIn(local_, *std::move(above), name));
    const bool is_link = end.entry && end.entry->attributes.type == client::FileType::kSymlink;
    if (!is_link || !(follow || needs_directory)) co_return end;
    if (links == kMostLinks) co_return Named(copying::LocalError(ELOOP), path);
    auto target = co_await end.directory->ReadLink(*end.entry);
    if (!target) co_return Named(target.error(), path);
    path = whole.parent_path() / *target;
    while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  }
}

copying::RemoteTree& CopyEnds::TreeOf(const client::Url& url, const Mounted& mounted) {
  auto& tree = trees_[mounted.mount];
  if (!tree) {
    client::Url server = url;
    server.path.clear();
    tree = std::make_unique<copying::RemoteTree>(*mounted.mount, NameOf(server));
  }
  return *tree;
}

Task<Result<CopyEnd>> CopyEnds::FindRemote(const client::Url& url, bool follow) {
  PENSTOCK_CO_TRY(const Mounted at, co_await mounts_.At(url));
  copying::RemoteTree& tree = TreeOf(url, at);
  std::string path = at.server_path;
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  const auto node = co_await at.Resolve(follow || at.server_path.ends_with('/'));
  if (!node && node.error().status != Status::kNotFound) co_return std::unexpected(node.error());
  // The root of the mount, or a directory that `..` leads to.
  if (node && node->name.empty()) {
    co_return CopyEnd{.tree = &tree, .directory = tree.Open(node->handle, path)};
  }
  const std::string above = path.substr(0, path.rfind('/'));
  if (node) {
    // Behind a symbolic link, the name is that of its target.
    CopyEnd end{.tree = &tree, .directory = tree.Open(node->directory, above), .name = node->name};
    end.entry = Entry{.name = node->name, .attributes = node->attributes, .handle = node->handle};
    co_return end;
  }
  PENSTOCK_CO_TRY(const client::Mount::Place place, co_await at.ResolvePlace());
  CopyEnd end{.tree = &tree, .directory = tree.Open(place.directory, above), .name = place.name};
  co_return end;
}

Task<Result<std::vector<CopyEnd>>> CopyEnds::FindSources(const std::string& argument, bool follow) {
  std::vector<CopyEnd> found;
  auto literal = co_await Find(argument, follow);
  if (literal && (literal->name.empty() || literal->entry)) {
    found.push_back(*std::move(literal));
    co_return found;
  }
  const auto url = ParseUrl(argument, options_);
  const bool is_pattern = client::Url::LooksLikeOne(argument) && url && copying::IsPattern(url->path);
  if (!literal && (!is_pattern || literal.error().status != Status::kNotFound)) {
    co_return std::unexpected(std::move(literal).error());
  }
  const std::string name = url ? NameOf(*url) : argument;
  if (!is_pattern) co_return std::unexpected(client::ErrorOf(Status::kNotFound, name));
  // The directory above the first pattern.
  std::vector<std::string> components = client::ComponentsOf(url->path);
  const auto first = std::ranges::find_if(components, &copying::IsPattern);
  client::Url above = *url;
  above.path = "/";
  for (auto each = components.begin(); each != first; ++each) above.path += *each + '/';
  components.erase(components.begin(), first);
  PENSTOCK_CO_TRY(CopyEnd start, co_await FindRemote(above, true));
  PENSTOCK_CO_CHECK(co_await Expand(std::move(start), components, 0, found));
  if (found.empty()) co_return std::unexpected(Error{name + ": no file matches", Status::kNotFound, ENOENT});
  for (CopyEnd& each : found) {
    each.given_name = each.name;
    if (!follow || each.entry->attributes.type != client::FileType::kSymlink) continue;
    client::Url link = above;
    link.path = each.text().substr(static_cast<copying::RemoteTree*>(each.tree)->name().size());
    PENSTOCK_CO_TRY(CopyEnd target, co_await FindRemote(link, true));
    target.given_name = std::move(each.given_name);
    each = std::move(target);
  }
  co_return found;
}

Task<Result<void>> CopyEnds::Expand(CopyEnd at, const std::vector<std::string>& patterns, size_t index,
                                    std::vector<CopyEnd>& found) {
  if (index == patterns.size()) {
    found.push_back(std::move(at));
    co_return Result<void>();
  }
  if (!at.is_directory()) co_return Result<void>();
  PENSTOCK_CO_TRY(const auto directory, co_await at.Open());
  auto entries = co_await directory->List();
  if (!entries) co_return Named(entries.error(), directory->name());
  std::ranges::sort(*entries, {}, &Entry::name);
  for (Entry& entry : *entries) {
    // As in a shell, a pattern matches a hidden file only if it begins with a dot.
    if (entry.name.starts_with('.') && !patterns[index].starts_with('.')) continue;
    if (!copying::IsEntryName(entry.name) || !copying::Matches(patterns[index], entry.name)) continue;
    if (entry.attributes.type == client::FileType::kOther) {
      PENSTOCK_CO_TRY(entry, co_await directory->Find(entry.name));
    }
    CopyEnd next{.tree = at.tree, .directory = directory, .name = entry.name};
    next.entry = std::move(entry);
    PENSTOCK_CO_CHECK(co_await Expand(std::move(next), patterns, index + 1, found));
  }
  co_return Result<void>();
}

}  // namespace penstock::cli
