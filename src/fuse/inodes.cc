#include "fuse/inodes.h"

#include <algorithm>
#include <cassert>
#include <string_view>
#include <tuple>

#include "fuse/open_file.h"
#include "fuse/write_behind.h"

namespace penstock::fuse {

size_t Inodes::Hash::operator()(const client::Handle& handle) const {
  return std::hash<std::string_view>()(AsText(handle.bytes())) ^ handle.part;
}

FileEnd::Question Inode::AskForEnd() { return end.Ask(writes ? writes->unsent_end() : 0); }

Inodes::Inodes(const client::Node& root, const CacheTimes& times) : times_(times) { Add(root, kRoot, {}); }

Inode* Inodes::Find(uint64_t number) {
  const auto at = inodes_.find(number);
  return at == inodes_.end() ? nullptr : at->second.get();
}

Inode* Inodes::FindHandle(const client::Handle& handle) const {
  const auto at = by_handle_.find(handle);
  return at == by_handle_.end() ? nullptr : at->second;
}

void NameChanges::Note(std::string_view name, Moment at) {
  if (const auto known = names_.find(name); known != names_.end()) {
    known->second = at;
    return;
  }
  if (names_.size() == kMostNames) {
    names_.clear();
    others_ = at;
  }
  names_.emplace(name, at);
}

bool NameChanges::MayBeAfter(std::string_view name, Moment moment) const {
  const auto known = names_.find(name);
  return (known == names_.end() ? others_ : known->second) > moment;
}

Inode& Inodes::Add(const client::Node& node, uint64_t parent, std::string_view name) {
  Inode& inode = Refer(node, parent, name);
  Update(inode, node.attributes);
  return inode;
}

Inode* Inodes::AddListed(const client::Node& node, const Inode& directory, const std::string& name, Moment asked) {
  assert(directory.name_changes);
  const Inode* const known = FindHandle(node.handle);
  const bool is_named = known && FindName(directory.number, name) == known;
  if (!is_named && directory.name_changes->MayBeAfter(name, asked)) return nullptr;
  if (!known || std::max(known->updated, known->written) <= asked) return &Add(node, directory.number, name);
  return &Refer({.handle = node.handle, .attributes = known->attributes}, directory.number, name);
}

void Inodes::BeginListing(Inode& directory) {
  if (directory.listings++ == 0) directory.name_changes = std::make_unique<NameChanges>();
}

void Inodes::EndListing(Inode& directory) {
  if (--directory.listings == 0) directory.name_changes.reset();
}

void Inodes::NoteChange(uint64_t parent, const std::string& name) {
  const auto directory = inodes_.find(parent);
  ++now_;
  if (directory != inodes_.end() && directory->second->name_changes) directory->second->name_changes->Note(name, now_);
}

Inode& Inodes::Refer(const client::Node& node, uint64_t parent, std::string_view name) {
  Inode* inode = FindHandle(node.handle);
  if (!inode) {
    auto made = std::make_unique<Inode>();
    made->number = next_++;
    made->handle = node.handle;
    made->type = node.attributes.type;
    inode = made.get();
    by_handle_.emplace(node.handle, inode);
    inodes_.emplace(inode->number, std::move(made));
  }
  ++inode->lookups;
  if (inode->number != kRoot && !inode->hidden) {
    AddName(*inode, parent, std::string(name));
    if (node.attributes.links <= 1) ForgetOtherNames(*inode);
  }
  return *inode;
}

void Inodes::Update(Inode& inode, const client::Attributes& attributes) {
  const bool is_directory = attributes.type == client::FileType::kDirectory;
  const Duration least = is_directory ? times_.directory_least : times_.file_least;
  const Duration most = is_directory ? times_.directory_most : times_.file_most;
  // The change attribute of another server, where the file has moved to, means nothing here (RFC 8881 §11.11.5).
  const bool is_elsewhere = inode.attributes.file_system != attributes.file_system;
  if (is_elsewhere) {
    inode.cached_change.reset();
    inode.end.Forget();
  }
  const bool same = !is_elsewhere && inode.attributes.change == attributes.change && inode.validity > Duration::zero();
  // What has not changed for long will not change soon.
  inode.validity = same ? std::clamp(inode.validity * 2, least, std::max(least, most)) : least;
  if (!same) {
    for (OpenFile* const each : inode.opens) each->reader->ForgetAll();
  }
  inode.attributes = attributes;
  inode.updated = ++now_;
}

void Inodes::Forget(uint64_t number, uint64_t count) {
  Inode* const inode = Find(number);
  if (!inode) return;
  inode->lookups -= std::min(count, inode->lookups);
  Release(*inode);
}

void Inodes::Release(Inode& inode) {
  if (inode.lookups > 0 || inode.pins > 0 || !inode.opens.empty() || inode.number == kRoot) return;
  assert(!inode.writes || inode.writes->clean());
  ForgetOtherNames(inode);
  if (FindName(inode.parent, inode.name) == &inode) by_name_.erase({inode.parent, inode.name});
  by_handle_.erase(inode.handle);
  inodes_.erase(inode.number);
}

void Inodes::HandleOpened(Inode& inode, OpenFile& file) {
  inode.opens.push_back(&file);
  open_.insert(&inode);
}

void Inodes::HandleClosed(Inode& inode, OpenFile& file) {
  std::erase(inode.opens, &file);
  if (inode.opens.empty()) open_.erase(&inode);
}

Inode* Inodes::FindName(uint64_t parent, const std::string& name) const {
  const auto at = by_name_.find({parent, name});
  return at == by_name_.end() ? nullptr : at->second;
}

std::optional<client::KnownNames::Place> Inodes::PlaceOf(const client::Handle& object) const {
  const Inode* const inode = FindHandle(object);
  if (!inode) return std::nullopt;
  if (inode->number == kRoot) return Place{.directory = {}, .name = {}, .type = inode->type};
  const auto place = [&](uint64_t number, const std::string& name) -> std::optional<Place> {
    const auto parent = inodes_.find(number);
    if (parent == inodes_.end() || FindName(number, name) != inode) return std::nullopt;
    return Place{.directory = parent->second->handle, .name = name, .type = inode->type};
  };
  auto found = place(inode->parent, inode->name);
  // The kernel may have forgotten that directory.
  for (const auto& [number, name] : inode->other_names) {
    if (!found) found = place(number, name);
  }
  return found;
}

std::optional<client::Handle> Inodes::ObjectAt(const client::Handle& directory, std::string_view name) const {
  const Inode* const parent = FindHandle(directory);
  if (!parent) return std::nullopt;
  const Inode* const inode = FindName(parent->number, std::string(name));
  if (!inode) return std::nullopt;
  return inode->handle;
}

Inode* Inodes::FindOpen(uint64_t parent, const std::string& name) {
  Inode* const inode = FindName(parent, name);
  return inode && inode->in_use() ? inode : nullptr;
}

void Inodes::HandleRenamed(uint64_t from_parent, const std::string& from, uint64_t to_parent, const std::string& to) {
  Inode* const inode = FindName(from_parent, from);
  HandleRemoved(to_parent, to);
  HandleRemoved(from_parent, from);
  if (!inode) return;
  AddName(*inode, to_parent, to);
}

void Inodes::HandleRemoved(uint64_t parent, const std::string& name) {
  const auto at = by_name_.find({parent, name});
  NoteChange(parent, name);
  if (at == by_name_.end()) return;
  Inode& inode = *at->second;
  by_name_.erase(at);
  if (inode.parent != parent || inode.name != name) {
    inode.other_names.erase({parent, name});
  } else if (!inode.other_names.empty()) {
    std::tie(inode.parent, inode.name) = inode.other_names.extract(inode.other_names.begin()).value();
  }
}

void Inodes::AddName(Inode& inode, uint64_t parent, std::string name) {
  Inode*& named = by_name_[{parent, name}];
  if (named != &inode) NoteChange(parent, name);
  named = &inode;
  if (inode.parent == parent && inode.name == name) return;
  inode.other_names.erase({parent, name});
  if (FindName(inode.parent, inode.name) == &inode) inode.other_names.emplace(inode.parent, std::move(inode.name));
  inode.parent = parent;
  inode.name = std::move(name);
}

void Inodes::ForgetOtherNames(Inode& inode) {
  for (const auto& name : inode.other_names) {
    const auto at = by_name_.find(name);
    if (at != by_name_.end() && at->second == &inode) by_name_.erase(at);
  }
  inode.other_names.clear();
}

}  // namespace penstock::fuse
