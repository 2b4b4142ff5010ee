#include "nfs/v4/engine/pseudo_file_system.h"

#include <algorithm>
#include <cassert>

#include "fs/names.h"

namespace penstock::nfs::v4 {
namespace {

constexpr uint64_t kFileSystemId = 0;

// FNV-1a. The hash is part of handles that clients keep for years, so it must never change.
uint64_t IdOf(std::string_view path) {
  uint64_t hash = 14695981039346656037u;
  for (const char c : path) hash = (hash ^ static_cast<uint8_t>(c)) * 1099511628211u;
  return hash;
}

}  // namespace

PseudoFileSystem::PseudoFileSystem(fs::Timestamp started) : started_(started) {
  properties_.max_file_size = 0;
  properties_.link_max = UINT32_MAX;
  properties_.hard_links = false;
  properties_.symlinks = false;
  properties_.can_set_time = false;
  auto root = std::make_unique<Node>(Node{.name = "", .path = "/", .id = IdOf("/")});
  by_id_.emplace(root->id, root.get());
  nodes_.push_back(std::move(root));
}

PseudoFileSystem::Node* PseudoFileSystem::Make(std::string_view path) {
  assert(path.starts_with('/'));
  if (path == "/") return nodes_.front().get();
  const uint64_t id = IdOf(path);
  if (const auto known = by_id_.find(id); known != by_id_.end()) {
    return known->second->path == path ? known->second : nullptr;
  }
  const size_t slash = path.rfind('/');
  Node* parent = Make(slash == 0 ? "/" : path.substr(0, slash));
  if (!parent) return nullptr;
  auto node = std::make_unique<Node>(
      Node{.name = std::string(path.substr(slash + 1)), .path = std::string(path), .id = id, .parent = parent});
  const auto place = std::ranges::lower_bound(parent->children, id, {}, &Node::id);
  parent->children.insert(place, node.get());
  by_id_.emplace(id, node.get());
  return nodes_.emplace_back(std::move(node)).get();
}

const PseudoFileSystem::Node* PseudoFileSystem::Find(const fs::Handle& handle) const {
  if (handle.size() != sizeof(uint64_t)) return nullptr;
  const auto found = by_id_.find(LoadBig<uint64_t>(handle.bytes().data()));
  return found == by_id_.end() ? nullptr : found->second;
}

const PseudoFileSystem::Node* PseudoFileSystem::Find(std::string_view path) const {
  const auto found = by_id_.find(IdOf(path));
  return found == by_id_.end() || found->second->path != path ? nullptr : found->second;
}

fs::Handle PseudoFileSystem::HandleOf(const Node& node) {
  std::byte bytes[sizeof(uint64_t)];
  StoreBig(bytes, node.id);
  return *fs::Handle::FromBytes(bytes);
}

fs::Attributes PseudoFileSystem::AttributesOf(const Node& node) const {
  constexpr uint64_t kNanosecondsPerSecond = 1'000'000'000;
  return {.type = fs::FileType::kDirectory,
          .mode = 0555,
          .nlink = 1,  // a number of directories would tell of exports that are hidden from the client
          .uid = 0,
          .gid = 0,
          .size = 0,
          .used = 0,
          .rdev = {},
          .fsid = kFileSystemId,
          .fileid = node.id,
          .atime = started_,
          .mtime = started_,
          .ctime = started_,
          .born = std::nullopt,
          .change = static_cast<uint64_t>(started_.seconds) * kNanosecondsPerSecond + started_.nanoseconds};
}

std::optional<fs::Attributes> PseudoFileSystem::AttributesOf(const fs::Handle& handle) const {
  const Node* node = Find(handle);
  if (!node) return std::nullopt;
  return AttributesOf(*node);
}

fs::WeakCacheData PseudoFileSystem::Unchanged(const fs::Handle& handle) const {
  const auto attributes = AttributesOf(handle);
  if (!attributes) return {};
  return {fs::BeforeOf(*attributes), attributes};
}

template <class T>
fs::Changed<T> PseudoFileSystem::Refuse(const fs::Handle& handle, fs::Error error) const {
  return {std::unexpected(error), Unchanged(handle)};
}

Task<fs::Result<fs::Attributes>> PseudoFileSystem::GetAttributes(const fs::RequestContext&, const fs::Handle& object) {
  const Node* node = Find(object);
  if (!node) co_return std::unexpected(fs::Error::kStale);
  co_return AttributesOf(*node);
}

Task<fs::Observed<fs::Node>> PseudoFileSystem::Lookup(const fs::RequestContext&, const fs::Handle& directory,
                                                      std::string_view name) {
  const Node* node = Find(directory);
  if (!node) co_return fs::Observed<fs::Node>{std::unexpected(fs::Error::kStale), {}};
  if (const auto name_is_possible = fs::CheckName(name, properties_.name_max); !name_is_possible) {
    co_return fs::Observed<fs::Node>{std::unexpected(name_is_possible.error()), AttributesOf(*node)};
  }
  const Node* found = nullptr;
  if (name == ".") {
    found = node;
  } else if (name == "..") {
    found = node->parent ? node->parent : node;
  } else {
    const auto child = std::ranges::find(node->children, name, &Node::name);
    if (child != node->children.end()) found = *child;
  }
  if (!found) co_return fs::Observed<fs::Node>{std::unexpected(fs::Error::kNoEnt), AttributesOf(*node)};
  co_return fs::Observed<fs::Node>{fs::Node{HandleOf(*found), AttributesOf(*found)}, AttributesOf(*node)};
}

Task<fs::Observed<fs::AccessMask>> PseudoFileSystem::Access(const fs::RequestContext&, const fs::Handle& object,
                                                            fs::AccessMask wanted) {
  const auto attributes = AttributesOf(object);
  if (!attributes) co_return fs::Observed<fs::AccessMask>{std::unexpected(fs::Error::kStale), {}};
  co_return fs::Observed<fs::AccessMask>{wanted & (fs::kAccessRead | fs::kAccessLookup), attributes};
}

// The cookies of "." and ".." are 1 and 2. The following cookies belong to the children in their order.
Task<fs::Observed<fs::ReadDirectoryReply>> PseudoFileSystem::ReadDirectory(const fs::RequestContext&,
                                                                           const fs::Handle& directory,
                                                                           const fs::ReadDirectoryArguments& arguments,
                                                                           fs::EntrySink& sink) {
  const Node* node = Find(directory);
  if (!node) co_return fs::Observed<fs::ReadDirectoryReply>{std::unexpected(fs::Error::kStale), {}};
  const size_t count = 2 + node->children.size();
  if (arguments.cookie.value() > count)
    co_return fs::Observed<fs::ReadDirectoryReply>{std::unexpected(fs::Error::kBadCookie), AttributesOf(*node)};

  fs::ReadDirectoryReply reply{.verifier = {}, .eof = true};
  for (size_t i = arguments.cookie.value(); i < count; ++i) {
    const Node& entry = i >= 2 ? *node->children[i - 2] : i == 1 && node->parent ? *node->parent : *node;
    fs::DirectoryEntry to{.fileid = entry.id,
                          .name = i == 0   ? "."
                                  : i == 1 ? ".."
                                           : std::string_view(entry.name),
                          .cookie = fs::Cookie(i + 1)};
    if (arguments.with_nodes) {
      to.attributes = AttributesOf(entry);
      to.handle = HandleOf(entry);
    }
    if (!sink.Add(to)) {
      reply.eof = false;
      break;
    }
  }
  co_return fs::Observed<fs::ReadDirectoryReply>{reply, AttributesOf(*node)};
}

Task<fs::Observed<fs::Space>> PseudoFileSystem::GetSpace(const fs::RequestContext&, const fs::Handle& object) {
  const auto attributes = AttributesOf(object);
  if (!attributes) co_return fs::Observed<fs::Space>{std::unexpected(fs::Error::kStale), {}};
  co_return fs::Observed<fs::Space>{fs::Space{}, attributes};
}

Task<fs::Changed<void>> PseudoFileSystem::SetAttributes(const fs::RequestContext&, const fs::Handle& object,
                                                        const fs::NewAttributes&, std::optional<fs::Timestamp>) {
  co_return Refuse<void>(object);
}

Task<fs::Observed<std::string>> PseudoFileSystem::ReadLink(const fs::RequestContext&, const fs::Handle& symlink) {
  co_return fs::Observed<std::string>{std::unexpected(fs::Error::kInvalid), AttributesOf(symlink)};
}

Task<fs::Observed<fs::ReadReply>> PseudoFileSystem::Read(const fs::RequestContext&, const fs::Handle& file, uint64_t,
                                                         uint32_t) {
  co_return fs::Observed<fs::ReadReply>{std::unexpected(fs::Error::kIsDir), AttributesOf(file)};
}

Task<fs::Changed<fs::WriteReply>> PseudoFileSystem::Write(const fs::RequestContext&, const fs::Handle& file, uint64_t,
                                                          const Data&, fs::Stability) {
  co_return Refuse<fs::WriteReply>(file, fs::Error::kIsDir);
}

Task<fs::Changed<fs::WriteVerifier>> PseudoFileSystem::Commit(const fs::RequestContext&, const fs::Handle& file) {
  co_return Refuse<fs::WriteVerifier>(file, fs::Error::kIsDir);
}

Task<fs::Changed<fs::Node>> PseudoFileSystem::Create(const fs::RequestContext&, const fs::Handle& directory,
                                                     std::string_view, const fs::CreateHow&) {
  co_return Refuse<fs::Node>(directory);
}

Task<fs::Changed<fs::Node>> PseudoFileSystem::MakeDirectory(const fs::RequestContext&, const fs::Handle& directory,
                                                            std::string_view, const fs::NewAttributes&) {
  co_return Refuse<fs::Node>(directory);
}

Task<fs::Changed<fs::Node>> PseudoFileSystem::MakeSymlink(const fs::RequestContext&, const fs::Handle& directory,
                                                          std::string_view, std::string_view,
                                                          const fs::NewAttributes&) {
  co_return Refuse<fs::Node>(directory);
}

Task<fs::Changed<fs::Node>> PseudoFileSystem::MakeNode(const fs::RequestContext&, const fs::Handle& directory,
                                                       std::string_view, const fs::NodeType&,
                                                       const fs::NewAttributes&) {
  co_return Refuse<fs::Node>(directory);
}

Task<fs::Changed<void>> PseudoFileSystem::Remove(const fs::RequestContext&, const fs::Handle& directory,
                                                 std::string_view) {
  co_return Refuse<void>(directory);
}

Task<fs::Changed<void>> PseudoFileSystem::RemoveDirectory(const fs::RequestContext&, const fs::Handle& directory,
                                                          std::string_view) {
  co_return Refuse<void>(directory);
}

Task<fs::Renamed> PseudoFileSystem::Rename(const fs::RequestContext&, const fs::Handle& from_directory,
                                           std::string_view, const fs::Handle& to_directory, std::string_view) {
  co_return fs::Renamed{std::unexpected(fs::Error::kReadOnly), Unchanged(from_directory), Unchanged(to_directory)};
}

Task<fs::Linked> PseudoFileSystem::Link(const fs::RequestContext&, const fs::Handle& file, const fs::Handle& directory,
                                        std::string_view) {
  co_return fs::Linked{std::unexpected(fs::Error::kReadOnly), AttributesOf(file), Unchanged(directory)};
}

Task<fs::Result<fs::Pinned>> PseudoFileSystem::Pin(const fs::RequestContext&, const fs::Handle&) {
  co_return std::unexpected(fs::Error::kIsDir);
}

Task<fs::Observed<fs::SeekReply>> PseudoFileSystem::Seek(const fs::RequestContext&, const fs::Handle& file, uint64_t,
                                                         fs::SeekWhat) {
  co_return fs::Observed<fs::SeekReply>{std::unexpected(fs::Error::kIsDir), AttributesOf(file)};
}

Task<fs::Changed<void>> PseudoFileSystem::Allocate(const fs::RequestContext&, const fs::Handle& file, uint64_t,
                                                   uint64_t) {
  co_return Refuse<void>(file, fs::Error::kIsDir);
}

Task<fs::Changed<void>> PseudoFileSystem::Deallocate(const fs::RequestContext&, const fs::Handle& file, uint64_t,
                                                     uint64_t) {
  co_return Refuse<void>(file, fs::Error::kIsDir);
}

Task<fs::Changed<fs::CopyReply>> PseudoFileSystem::Copy(const fs::RequestContext&, const fs::Handle&, uint64_t,
                                                        const fs::Handle& to, uint64_t, uint64_t) {
  co_return Refuse<fs::CopyReply>(to, fs::Error::kIsDir);
}

Task<fs::Changed<void>> PseudoFileSystem::Clone(const fs::RequestContext&, const fs::Handle&, uint64_t,
                                                const fs::Handle& to, uint64_t, uint64_t) {
  co_return Refuse<void>(to, fs::Error::kIsDir);
}

Task<fs::Result<void>> PseudoFileSystem::Advise(const fs::RequestContext&, const fs::Handle&, uint64_t, uint64_t,
                                                fs::Advice) {
  co_return std::unexpected(fs::Error::kIsDir);
}

Task<fs::Observed<std::vector<std::byte>>> PseudoFileSystem::GetXattr(const fs::RequestContext&,
                                                                      const fs::Handle& object, std::string_view) {
  co_return fs::Observed<std::vector<std::byte>>{std::unexpected(fs::Error::kNotSupported), AttributesOf(object)};
}

Task<fs::Changed<void>> PseudoFileSystem::SetXattr(const fs::RequestContext&, const fs::Handle& object,
                                                   std::string_view, ConstBytes, fs::XattrMode) {
  co_return Refuse<void>(object, fs::Error::kNotSupported);
}

Task<fs::Changed<void>> PseudoFileSystem::RemoveXattr(const fs::RequestContext&, const fs::Handle& object,
                                                      std::string_view) {
  co_return Refuse<void>(object, fs::Error::kNotSupported);
}

Task<fs::Observed<std::vector<std::string>>> PseudoFileSystem::ListXattrs(const fs::RequestContext&,
                                                                          const fs::Handle& object) {
  co_return fs::Observed<std::vector<std::string>>{std::unexpected(fs::Error::kNotSupported), AttributesOf(object)};
}

Task<fs::Observed<fs::Acls>> PseudoFileSystem::GetAcls(const fs::RequestContext&, const fs::Handle& object) {
  const auto attributes = AttributesOf(object);
  if (!attributes) co_return fs::Observed<fs::Acls>{std::unexpected(fs::Error::kStale), {}};
  co_return fs::Observed<fs::Acls>{fs::Acls{.access = fs::AclOfMode(attributes->mode), .defaults = {}}, attributes};
}

Task<fs::Changed<void>> PseudoFileSystem::SetAcls(const fs::RequestContext&, const fs::Handle& object,
                                                  const fs::NewAcls&) {
  co_return Refuse<void>(object);
}

}  // namespace penstock::nfs::v4
