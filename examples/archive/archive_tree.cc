#include "archive_tree.h"

#include <archive.h>
#include <archive_entry.h>

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <utility>

namespace archive_server {
namespace {

struct FreeArchive {
  void operator()(archive* a) const { ::archive_read_free(a); }
};

std::optional<penstock_file_type> TypeOf(archive_entry* entry) {
  switch (::archive_entry_filetype(entry)) {
    case AE_IFREG:
      return PENSTOCK_REGULAR;
    case AE_IFDIR:
      return PENSTOCK_DIRECTORY;
    case AE_IFLNK:
      return PENSTOCK_SYMLINK;
    case AE_IFIFO:
      return PENSTOCK_FIFO;
    case AE_IFCHR:
      return PENSTOCK_CHARACTER_DEVICE;
    case AE_IFBLK:
      return PENSTOCK_BLOCK_DEVICE;
    default:
      return std::nullopt;
  }
}

// Splits "./a//b/" into "a" and "b". Returns nothing for a path that leads out of the archive.
std::optional<std::vector<std::string>> SplitPath(std::string_view path) {
  std::vector<std::string> names;
  while (!path.empty()) {
    const std::string_view name = path.substr(0, path.find('/'));
    path.remove_prefix(std::min(path.size(), name.size() + 1));
    if (name == "..") return std::nullopt;
    if (!name.empty() && name != ".") names.emplace_back(name);
  }
  return names;
}

}  // namespace

// Reads an archive entry by entry, and builds the tree.
class Archive::Reader {
 public:
  explicit Reader(const std::string& path) : path_(path), from_(::archive_read_new()) { Add(PENSTOCK_DIRECTORY, 0755); }

  Archive Read() {
    ::archive_read_support_filter_all(from_.get());
    ::archive_read_support_format_tar(from_.get());
    if (::archive_read_open_filename(from_.get(), path_.c_str(), kBlock) != ARCHIVE_OK) Fail(Reason());
    archive_entry* entry = nullptr;
    for (;;) {
      const int status = ::archive_read_next_header(from_.get(), &entry);
      if (status == ARCHIVE_EOF) break;
      if (status < ARCHIVE_WARN) Fail(Reason());
      Take(entry);
    }
    return std::move(archive_);
  }

 private:
  static constexpr size_t kBlock = 64 << 10;

  [[noreturn]] void Fail(const std::string& why) const { throw std::runtime_error(path_ + ": " + why); }
  std::string Reason() const {
    const char* const text = ::archive_error_string(from_.get());
    return text ? text : "cannot be read";
  }

  void Take(archive_entry* entry) {
    const char* const path = ::archive_entry_pathname(entry);
    const auto names = SplitPath(path ? path : "..");
    if (!names) Fail("an entry has no name, or one that leads out of the archive");
    // An entry for the root itself, "./", gives the root's attributes.
    if (names->empty()) return SetAttributes(kRoot, entry);

    const size_t directory = DirectoryAt({names->begin(), names->end() - 1});
    const std::string& name = names->back();
    const char* const original = ::archive_entry_hardlink(entry);
    const std::optional<penstock_file_type> type = original ? PENSTOCK_REGULAR : TypeOf(entry);
    if (!type) Fail(std::string(path) + ": an entry of a type that tar does not have");

    // A later entry of the same name replaces a file, and changes the attributes of a directory.
    if (const std::optional<size_t> existing = Find(directory, name)) {
      const bool was_directory = nodes()[*existing].attributes.type == PENSTOCK_DIRECTORY;
      if (was_directory != (*type == PENSTOCK_DIRECTORY)) {
        Fail(std::string(path) + ": both a directory and a file");
      }
      if (was_directory) return SetAttributes(*existing, entry);
    }
    if (original) return TakeHardLink(directory, name, original);
    const size_t made = Enter(directory, name, Add(*type, 0));
    if (const char* const target = ::archive_entry_symlink(entry)) nodes()[made].target = target;
    ReadContent(nodes()[made]);
    SetAttributes(made, entry);
  }

  void TakeHardLink(size_t directory, const std::string& name, std::string_view original) {
    const auto names = SplitPath(original);
    std::optional<size_t> at = kRoot;
    for (const std::string& each : names.value_or(std::vector<std::string>())) at = at ? Find(*at, each) : at;
    if (!at || nodes()[*at].attributes.type == PENSTOCK_DIRECTORY) {
      Fail("a hard link to " + std::string(original) + ", which is no file of the archive");
    }
    ++nodes()[*at].attributes.links;
    Enter(directory, name, *at);
    Note(original);
  }

  // Finds the directory with this path. Makes directories that have had no entry of their own so far.
  size_t DirectoryAt(std::span<const std::string> names) {
    size_t at = kRoot;
    for (const std::string& name : names) {
      const std::optional<size_t> found = Find(at, name);
      at = found ? *found : Enter(at, name, Add(PENSTOCK_DIRECTORY, 0755));
      if (nodes()[at].attributes.type != PENSTOCK_DIRECTORY) Fail(name + ": both a directory and a file");
    }
    return at;
  }

  std::optional<size_t> Find(size_t directory, const std::string& name) const {
    const auto& entries = archive_.nodes_[directory].entries;
    const auto found = entries.find(name);
    return found == entries.end() ? std::nullopt : std::optional(found->second);
  }

  size_t Add(penstock_file_type type, uint32_t mode) {
    Node& node = nodes().emplace_back();
    node.attributes.type = type;
    node.attributes.mode = mode;
    node.attributes.links = type == PENSTOCK_DIRECTORY ? 2 : 1;
    node.attributes.file_id = nodes().size();
    node.attributes.change = 1;
    return nodes().size() - 1;
  }

  // Gives `node` a name, in place of the node that had it. Returns `node`.
  size_t Enter(size_t directory, const std::string& name, size_t node) {
    nodes()[directory].entries[name] = node;
    if (nodes()[node].attributes.type == PENSTOCK_DIRECTORY) {
      nodes()[node].parent = directory;
      ++nodes()[directory].attributes.links;
    }
    Note(name);
    return node;
  }

  void ReadContent(Node& node) {
    std::array<char, kBlock> block;
    for (;;) {
      const auto count = ::archive_read_data(from_.get(), block.data(), block.size());
      if (count < 0) Fail(Reason());
      if (count == 0) break;
      node.content.append(block.data(), static_cast<size_t>(count));
    }
    Note(node.content);
  }

  void SetAttributes(size_t index, archive_entry* entry) {
    penstock_attributes& attributes = nodes()[index].attributes;
    attributes.mode = ::archive_entry_perm(entry) & 07777;
    attributes.uid = static_cast<uint32_t>(::archive_entry_uid(entry));
    attributes.gid = static_cast<uint32_t>(::archive_entry_gid(entry));
    attributes.length = attributes.used = nodes()[index].content.size() + nodes()[index].target.size();
    attributes.device_major = static_cast<uint32_t>(::archive_entry_rdevmajor(entry));
    attributes.device_minor = static_cast<uint32_t>(::archive_entry_rdevminor(entry));
    attributes.modified = {::archive_entry_mtime(entry), static_cast<uint32_t>(::archive_entry_mtime_nsec(entry))};
    attributes.accessed = attributes.changed = attributes.modified;
    for (const uint64_t each :
         {uint64_t{attributes.type}, uint64_t{attributes.mode}, uint64_t{attributes.uid}, uint64_t{attributes.gid},
          static_cast<uint64_t>(attributes.modified.seconds), uint64_t{attributes.modified.nanoseconds}}) {
      Note(std::to_string(each));
    }
    Note(nodes()[index].target);
  }

  // FNV-1a, of 64 bits. The length comes first, so that "ab", "c" differs from "a", "bc".
  void Note(std::string_view text) {
    const auto add = [this](unsigned char octet) {
      archive_.fingerprint_ = (archive_.fingerprint_ ^ octet) * 0x100000001b3;
    };
    for (size_t length = text.size(); length > 0; length >>= 8) add(static_cast<unsigned char>(length));
    add(0);
    for (const char octet : text) add(static_cast<unsigned char>(octet));
  }
  std::vector<Node>& nodes() { return archive_.nodes_; }

  const std::string path_;
  const std::unique_ptr<archive, FreeArchive> from_;
  Archive archive_;
};

Archive Archive::Read(const std::string& path) { return Reader(path).Read(); }

}  // namespace archive_server
