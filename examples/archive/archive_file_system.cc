#include "archive_file_system.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <optional>
#include <string_view>

namespace archive_server {
namespace {

using penstock::Error;

// The cookies of entries are their places in the order of their names, from here on.
constexpr uint64_t kFirstCookie = 3;

}  // namespace

const Node* ArchiveFileSystem::Find(const Handle& handle) const {
  const std::optional<Name> name = handle.As<Name>();
  if (!name || name->fingerprint != archive_.fingerprint() || name->index >= archive_.nodes().size()) return nullptr;
  return &archive_.nodes()[name->index];
}

Result<penstock_attributes> ArchiveFileSystem::GetAttributes(const Caller&, const Handle& object) {
  const Node* const node = Find(object);
  if (!node) return Error{ESTALE};
  return node->attributes;
}

Result<Handle> ArchiveFileSystem::Lookup(const Caller&, const Handle& directory, const char* name) {
  const Node* const node = Find(directory);
  if (!node) return Error{ESTALE};
  if (std::string_view(name) == "..") return HandleOf(node->parent);
  const auto entry = node->entries.find(name);
  if (entry == node->entries.end()) return Error{ENOENT};
  return HandleOf(entry->second);
}

Result<std::string> ArchiveFileSystem::ReadLink(const Caller&, const Handle& symlink) {
  const Node* const node = Find(symlink);
  if (!node) return Error{ESTALE};
  return node->target;
}

Result<size_t> ArchiveFileSystem::Read(const Caller&, const Handle& file, std::span<std::byte> buffer,
                                       uint64_t offset) {
  const Node* const node = Find(file);
  if (!node) return Error{ESTALE};
  const std::string& content = node->content;
  const size_t begin = std::min<uint64_t>(offset, content.size());
  const size_t count = std::min(buffer.size(), content.size() - begin);
  std::memcpy(buffer.data(), content.data() + begin, count);
  return count;
}

Result<void> ArchiveFileSystem::ReadDirectory(const Caller&, const Handle& directory, uint64_t cookie, const Add& add) {
  const Node* const node = Find(directory);
  if (!node) return Error{ESTALE};
  const uint64_t first = cookie == 0 ? 0 : cookie - kFirstCookie + 1;
  if (first > node->entries.size()) return Error{EINVAL};
  uint64_t place = first;
  for (auto entry = std::next(node->entries.begin(), static_cast<ptrdiff_t>(first)); entry != node->entries.end();
       ++entry) {
    const auto& [name, index] = *entry;
    const penstock_attributes& attributes = archive_.nodes()[index].attributes;
    const Handle handle = HandleOf(index);
    if (!add({name.c_str(), attributes.file_id, kFirstCookie + place++, &handle.raw(), &attributes})) break;
  }
  return {};
}

}  // namespace archive_server
