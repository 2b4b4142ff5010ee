// A writable file system in memory, for penstock::FileSystem: an example of all methods. It uses the public headers of
// libpenstock only.
#pragma once

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include <penstock/server.hpp>

namespace memory_server {

using penstock::Caller;
using penstock::Error;
using penstock::Handle;
using penstock::Result;

// Any thread: every method holds a lock for a short time, so that event loops may call the methods
// (PENSTOCK_FS_NONBLOCKING). The files are lost when the process ends, so handles have a random number: a client that
// comes back after a restart gets ESTALE.
class MemoryFileSystem : public penstock::BasicFileSystem {
 public:
  explicit MemoryFileSystem(uint64_t capacity = uint64_t{1} << 30, uint32_t root_mode = 0755) : capacity_(capacity) {
    Node& root = Add(PENSTOCK_DIRECTORY);
    root.attributes.mode = root_mode;
    root.parent = kRoot;
  }

  Result<Handle> Root() override { return HandleOf(kRoot); }

  Result<penstock_attributes> GetAttributes(const Caller&, const Handle& object) override {
    const std::lock_guard lock(mutex_);
    Node* const node = Find(object);
    if (!node) return Error{ESTALE};
    return node->attributes;
  }

  Result<void> SetAttributes(const Caller&, const Handle& object, const penstock_new_attributes& values) override {
    const std::lock_guard lock(mutex_);
    Node* const node = Find(object);
    if (!node) return Error{ESTALE};
    return Set(*node, values);
  }

  Result<Handle> Lookup(const Caller&, const Handle& directory, const char* name) override {
    const std::lock_guard lock(mutex_);
    Node* const in = Find(directory);
    if (!in) return Error{ESTALE};
    if (std::string_view(name) == "..") return HandleOf(in->parent);
    const auto place = in->places.find(name);
    if (place == in->places.end()) return Error{ENOENT};
    return HandleOf(in->entries.at(place->second).second);
  }

  Result<std::string> ReadLink(const Caller&, const Handle& symlink) override {
    const std::lock_guard lock(mutex_);
    Node* const node = Find(symlink);
    if (!node) return Error{ESTALE};
    return node->target;
  }

  Result<size_t> Read(const Caller&, const Handle& file, std::span<std::byte> buffer, uint64_t offset) override {
    const std::lock_guard lock(mutex_);
    Node* const node = Find(file);
    if (!node) return Error{ESTALE};
    const uint64_t length = node->attributes.length;
    const size_t count = offset < length ? std::min<uint64_t>(buffer.size(), length - offset) : 0;
    ForEachBlock(offset, count, [&](uint64_t block, size_t begin, size_t size, size_t done) {
      const auto found = node->blocks.find(block);
      std::byte* const to = buffer.data() + done;
      if (found == node->blocks.end()) {
        std::memset(to, 0, size);
      } else {
        std::memcpy(to, found->second->data() + begin, size);
      }
    });
    return count;
  }

  Result<void> ReadDirectory(const Caller&, const Handle& directory, uint64_t cookie, const Add& add) override {
    const std::lock_guard lock(mutex_);
    Node* const in = Find(directory);
    if (!in) return Error{ESTALE};
    if (cookie >= in->next_cookie) return Error{EINVAL};
    for (auto entry = in->entries.upper_bound(cookie); entry != in->entries.end(); ++entry) {
      const auto& [name, number] = entry->second;
      const Handle handle = HandleOf(number);
      if (!add({name.c_str(), number, entry->first, &handle.raw(), &nodes_.at(number)->attributes})) break;
    }
    return {};
  }

  Result<size_t> Write(const Caller&, const Handle& file, std::span<const std::byte> data, uint64_t offset,
                       penstock_stability& stability) override {
    const std::lock_guard lock(mutex_);
    Node* const node = Find(file);
    if (!node) return Error{ESTALE};
    if (!Fill(*node, offset, data.size(), data.data())) return Error{ENOSPC};
    stability = PENSTOCK_FILE_SYNC;  // as stable as memory gets
    return data.size();
  }

  Result<Handle> Create(const Caller&, const Handle& directory, const char* name,
                        const penstock_new_attributes& attributes) override {
    return Make(directory, name, PENSTOCK_REGULAR, attributes, [](Node&) {});
  }
  Result<Handle> MakeDirectory(const Caller&, const Handle& directory, const char* name,
                               const penstock_new_attributes& attributes) override {
    return Make(directory, name, PENSTOCK_DIRECTORY, attributes, [](Node&) {});
  }
  Result<Handle> MakeSymlink(const Caller&, const Handle& directory, const char* name, const char* target,
                             const penstock_new_attributes& attributes) override {
    return Make(directory, name, PENSTOCK_SYMLINK, attributes, [&](Node& made) {
      made.target = target;
      made.attributes.length = made.target.size();
    });
  }
  Result<Handle> MakeNode(const Caller&, const Handle& directory, const char* name, penstock_file_type type,
                          uint32_t device_major, uint32_t device_minor,
                          const penstock_new_attributes& attributes) override {
    return Make(directory, name, type, attributes, [&](Node& made) {
      made.attributes.device_major = device_major;
      made.attributes.device_minor = device_minor;
    });
  }

  Result<void> Remove(const Caller&, const Handle& directory, const char* name) override {
    return TakeAway(directory, name, false);
  }
  Result<void> RemoveDirectory(const Caller&, const Handle& directory, const char* name) override {
    return TakeAway(directory, name, true);
  }

  Result<void> Rename(const Caller&, const Handle& from_directory, const char* from, const Handle& to_directory,
                      const char* to) override {
    const std::lock_guard lock(mutex_);
    Node* const source = Find(from_directory);
    Node* const target = Find(to_directory);
    if (!source || !target) return Error{ESTALE};
    Node* const moved = EntryOf(*source, from);
    Node* const replaced = EntryOf(*target, to);
    if (!moved) return Error{ENOENT};
    if (moved == replaced) return {};
    if (IsBelow(*target, *moved)) return Error{EINVAL};
    if (replaced) {
      if (IsDirectory(*replaced) != IsDirectory(*moved)) return Error{EEXIST};
      if (!replaced->entries.empty()) return Error{ENOTEMPTY};
      Leave(*target, to);
      DropName(*replaced);
    }
    Leave(*source, from);
    Enter(*target, to, *moved);
    Touch(*moved, false);
    return {};
  }

  Result<void> Link(const Caller&, const Handle& file, const Handle& directory, const char* name) override {
    const std::lock_guard lock(mutex_);
    Node* const node = Find(file);
    Node* const in = Find(directory);
    if (!node || !in) return Error{ESTALE};
    if (EntryOf(*in, name)) return Error{EEXIST};
    ++node->attributes.links;
    Touch(*node, false);
    Enter(*in, name, *node);
    return {};
  }

  Result<penstock_space> GetSpace(const Caller&, const Handle&) override {
    const std::lock_guard lock(mutex_);
    penstock_space space = PENSTOCK_SPACE_INIT;
    space.total_octets = capacity_;
    space.free_octets = space.available_octets = capacity_ - used_;
    space.total_files = std::numeric_limits<uint32_t>::max();
    space.free_files = space.available_files = space.total_files - nodes_.size();
    return space;
  }

  Result<std::string> GetXattr(const Caller&, const Handle& object, const char* name) override {
    const std::lock_guard lock(mutex_);
    Node* const node = Find(object);
    if (!node) return Error{ESTALE};
    const auto found = node->xattrs.find(name);
    if (found == node->xattrs.end()) return Error{ENODATA};
    return found->second;
  }
  Result<void> SetXattr(const Caller&, const Handle& object, const char* name, std::span<const std::byte> value,
                        int flags) override {
    const std::lock_guard lock(mutex_);
    Node* const node = Find(object);
    if (!node) return Error{ESTALE};
    const bool exists = node->xattrs.contains(name);
    if (flags == PENSTOCK_XATTR_CREATE && exists) return Error{EEXIST};
    if (flags == PENSTOCK_XATTR_REPLACE && !exists) return Error{ENODATA};
    node->xattrs[name].assign(reinterpret_cast<const char*>(value.data()), value.size());
    Touch(*node, false);
    return {};
  }
  Result<void> RemoveXattr(const Caller&, const Handle& object, const char* name) override {
    const std::lock_guard lock(mutex_);
    Node* const node = Find(object);
    if (!node) return Error{ESTALE};
    if (node->xattrs.erase(name) == 0) return Error{ENODATA};
    Touch(*node, false);
    return {};
  }
  Result<void> ListXattrs(const Caller&, const Handle& object, const AddName& add) override {
    const std::lock_guard lock(mutex_);
    Node* const node = Find(object);
    if (!node) return Error{ESTALE};
    for (const auto& [name, value] : node->xattrs) {
      if (!add(name.c_str())) break;
    }
    return {};
  }

  Result<std::optional<uint64_t>> Seek(const Caller&, const Handle& file, uint64_t offset, bool hole) override {
    using Place = std::optional<uint64_t>;
    const std::lock_guard lock(mutex_);
    Node* const node = Find(file);
    if (!node) return Error{ESTALE};
    auto block = node->blocks.lower_bound(offset / kBlock);
    if (!hole) {
      if (block == node->blocks.end()) return Place();
      return Place(std::max(offset, block->first * kBlock));
    }
    uint64_t at = offset / kBlock;
    for (; block != node->blocks.end() && block->first == at; ++block) ++at;
    const uint64_t found = std::max(offset, at * kBlock);
    return found < node->attributes.length ? Place(found) : Place();
  }
  Result<void> Allocate(const Caller&, const Handle& file, uint64_t offset, uint64_t length) override {
    const std::lock_guard lock(mutex_);
    Node* const node = Find(file);
    if (!node) return Error{ESTALE};
    if (length > capacity_ || !Fill(*node, offset, length, nullptr)) return Error{ENOSPC};
    return {};
  }
  Result<void> Deallocate(const Caller&, const Handle& file, uint64_t offset, uint64_t length) override {
    const std::lock_guard lock(mutex_);
    Node* const node = Find(file);
    if (!node) return Error{ESTALE};
    Clear(*node, offset, length);
    Touch(*node, true);
    return {};
  }

  Result<void> Pin(const Handle& file) override {
    const std::lock_guard lock(mutex_);
    Node* const node = Find(file);
    if (!node) return Error{ESTALE};
    ++node->pins;
    return {};
  }
  void Unpin(const Handle& file) override {
    const std::lock_guard lock(mutex_);
    Node* const node = Find(file);
    if (node && --node->pins == 0 && node->attributes.links == 0) Forget(*node);
  }

 private:
  static constexpr uint64_t kRoot = 2;
  static constexpr uint64_t kBlock = 64 << 10;
  using Block = std::array<std::byte, kBlock>;

  struct Node {
    penstock_attributes attributes = PENSTOCK_ATTRIBUTES_INIT;
    std::map<uint64_t, std::unique_ptr<Block>> blocks{};  // of a regular file; a block that is missing is a hole
    std::string target{};
    std::map<std::string, std::string> xattrs{};
    unsigned pins = 0;
    // The following are for directories. A cookie is never used again, so that listings stay right while entries come
    // and go.
    uint64_t parent = 0;
    uint64_t next_cookie = 3;
    std::map<uint64_t, std::pair<std::string, uint64_t>> entries{};
    std::map<std::string, uint64_t, std::less<>> places{};  // the cookies of names
  };
  struct Named {
    uint64_t number = 0;
    uint64_t run = 0;
  };

  // The caller of the following methods holds the lock.

  Handle HandleOf(uint64_t number) const { return Handle::Of(Named{number, run_}); }
  Node* Find(const Handle& handle) {
    const std::optional<Named> named = handle.As<Named>();
    if (!named || named->run != run_) return nullptr;
    const auto found = nodes_.find(named->number);
    return found == nodes_.end() ? nullptr : found->second.get();
  }
  static bool IsDirectory(const Node& node) { return node.attributes.type == PENSTOCK_DIRECTORY; }

  // Never returns the same time twice, so that every change shows.
  penstock_time Now() {
    const auto now =
        std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
            .count();
    last_time_ = std::max<int64_t>(last_time_ + 1, now);
    return {last_time_ / 1'000'000'000, static_cast<uint32_t>(last_time_ % 1'000'000'000)};
  }
  void Touch(Node& node, bool data) {
    node.attributes.changed = Now();
    if (data) node.attributes.modified = node.attributes.changed;
    node.attributes.change = ++last_change_;
  }

  Node& Add(penstock_file_type type) {
    const uint64_t number = next_number_++;
    Node& node = *nodes_.emplace(number, std::make_unique<Node>()).first->second;
    node.attributes.type = type;
    node.attributes.file_id = number;
    node.attributes.links = type == PENSTOCK_DIRECTORY ? 2 : 1;
    Touch(node, true);
    node.attributes.accessed = node.attributes.changed;
    return node;
  }
  void Forget(Node& node) {
    used_ -= node.attributes.used;
    nodes_.erase(node.attributes.file_id);
  }

  Result<void> Set(Node& node, const penstock_new_attributes& values) {
    penstock_attributes& to = node.attributes;
    if ((values.set & PENSTOCK_SET_LENGTH) != 0) {
      if (values.length < to.length) Clear(node, values.length, to.length - values.length);
      to.length = values.length;
    }
    if ((values.set & PENSTOCK_SET_MODE) != 0) to.mode = values.mode;
    if ((values.set & PENSTOCK_SET_UID) != 0) to.uid = values.uid;
    if ((values.set & PENSTOCK_SET_GID) != 0) to.gid = values.gid;
    Touch(node, (values.set & PENSTOCK_SET_LENGTH) != 0);
    if ((values.set & PENSTOCK_SET_ACCESSED) != 0) to.accessed = values.accessed;
    if ((values.set & PENSTOCK_SET_ACCESSED_NOW) != 0) to.accessed = to.changed;
    if ((values.set & PENSTOCK_SET_MODIFIED) != 0) to.modified = values.modified;
    if ((values.set & PENSTOCK_SET_MODIFIED_NOW) != 0) to.modified = to.changed;
    return {};
  }

  // ---- data

  // Calls `use(block, begin, size, done)` for the part of the range in each block.
  template <class Use>
  static void ForEachBlock(uint64_t offset, uint64_t length, Use use) {
    for (uint64_t done = 0; done < length;) {
      const uint64_t begin = (offset + done) % kBlock;
      const uint64_t size = std::min(kBlock - begin, length - done);
      use((offset + done) / kBlock, begin, size, done);
      done += size;
    }
  }
  // Copies the octets into the file; null: makes room for them. Returns false if there is none.
  bool Fill(Node& node, uint64_t offset, uint64_t length, const std::byte* octets) {
    uint64_t more = 0;
    ForEachBlock(offset, length, [&](uint64_t block, size_t, size_t, size_t) {
      if (!node.blocks.contains(block)) more += kBlock;
    });
    if (more > capacity_ - used_) return false;
    ForEachBlock(offset, length, [&](uint64_t block, size_t begin, size_t size, size_t done) {
      auto& memory = node.blocks[block];
      if (!memory) memory = std::make_unique<Block>();
      if (octets) std::memcpy(memory->data() + begin, octets + done, size);
    });
    node.attributes.used += more;
    used_ += more;
    node.attributes.length = std::max(node.attributes.length, offset + length);
    Touch(node, true);
    return true;
  }
  void Clear(Node& node, uint64_t offset, uint64_t length) {
    const uint64_t end = offset + length;
    for (auto block = node.blocks.lower_bound(offset / kBlock); block != node.blocks.end();) {
      const uint64_t first = block->first * kBlock;
      if (first >= end) break;
      const uint64_t begin = std::max(first, offset), until = std::min(first + kBlock, end);
      // What is behind the end of the file is zeros in any case.
      if (begin == first && (until == first + kBlock || until >= node.attributes.length)) {
        block = node.blocks.erase(block);
        node.attributes.used -= kBlock;
        used_ -= kBlock;
        continue;
      }
      std::memset(block->second->data() + (begin - first), 0, until - begin);
      ++block;
    }
  }

  // ---- names

  Node* EntryOf(Node& directory, std::string_view name) {
    const auto place = directory.places.find(name);
    return place == directory.places.end() ? nullptr : nodes_.at(directory.entries.at(place->second).second).get();
  }
  void Enter(Node& directory, const std::string& name, Node& node) {
    const uint64_t cookie = directory.next_cookie++;
    directory.entries.emplace(cookie, std::pair(name, node.attributes.file_id));
    directory.places.emplace(name, cookie);
    if (IsDirectory(node)) {
      node.parent = directory.attributes.file_id;
      ++directory.attributes.links;
    }
    Touch(directory, true);
  }
  void Leave(Node& directory, std::string_view name) {
    const auto place = directory.places.find(name);
    if (IsDirectory(*EntryOf(directory, name))) --directory.attributes.links;
    directory.entries.erase(place->second);
    directory.places.erase(place);
    Touch(directory, true);
  }
  void DropName(Node& node) {
    node.attributes.links = IsDirectory(node) ? 0 : node.attributes.links - 1;
    Touch(node, false);
    if (node.attributes.links == 0 && node.pins == 0) Forget(node);
  }
  bool IsBelow(const Node& directory, const Node& ancestor) {
    for (const Node* at = &directory;; at = nodes_.at(at->parent).get()) {
      if (at == &ancestor) return true;
      if (at->attributes.file_id == kRoot) return false;
    }
  }

  template <class Complete>
  Result<Handle> Make(const Handle& directory, const char* name, penstock_file_type type,
                      const penstock_new_attributes& attributes, Complete complete) {
    const std::lock_guard lock(mutex_);
    Node* const in = Find(directory);
    if (!in) return Error{ESTALE};
    if (in->attributes.links == 0) return Error{ESTALE};
    if (EntryOf(*in, name)) return Error{EEXIST};
    Node& made = Add(type);
    if (const Result<void> set = Set(made, attributes); !set) return set.error();
    complete(made);
    Enter(*in, name, made);
    return HandleOf(made.attributes.file_id);
  }

  Result<void> TakeAway(const Handle& directory, const char* name, bool is_directory) {
    const std::lock_guard lock(mutex_);
    Node* const in = Find(directory);
    if (!in) return Error{ESTALE};
    Node* const node = EntryOf(*in, name);
    if (!node) return Error{ENOENT};
    if (is_directory && !IsDirectory(*node)) return Error{ENOTDIR};
    if (!is_directory && IsDirectory(*node)) return Error{EISDIR};
    if (!node->entries.empty()) return Error{ENOTEMPTY};
    Leave(*in, name);
    DropName(*node);
    return {};
  }

  const uint64_t capacity_;
  const uint64_t run_ = std::random_device()() | uint64_t{std::random_device()()} << 32;
  std::mutex mutex_;
  std::map<uint64_t, std::unique_ptr<Node>> nodes_;
  uint64_t next_number_ = kRoot;
  uint64_t used_ = 0;
  uint64_t last_change_ = 0;
  int64_t last_time_ = 0;
};

}  // namespace memory_server
