#include "archive_tree.h"

#include <archive.h>
#include <archive_entry.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "base/siphash.h"

namespace penstock::examples {
namespace {

using fs::FileType;

struct FreeArchive {
  void operator()(archive* a) const { ::archive_read_free(a); }
};

std::optional<FileType> TypeOf(archive_entry* entry) {
  switch (::archive_entry_filetype(entry)) {
    case AE_IFREG:
      return FileType::kRegular;
    case AE_IFDIR:
      return FileType::kDirectory;
    case AE_IFLNK:
      return FileType::kSymlink;
    case AE_IFIFO:
      return FileType::kFifo;
    case AE_IFCHR:
      return FileType::kCharacter;
    case AE_IFBLK:
      return FileType::kBlock;
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
  explicit Reader(const std::string& path) : path_(path), from_(::archive_read_new()) {
    Add(FileType::kDirectory, 0755);
  }

  SetupResult<Archive> Read() {
    ::archive_read_support_filter_all(from_.get());
    ::archive_read_support_format_tar(from_.get());
    if (::archive_read_open_filename(from_.get(), path_.c_str(), kBlock) != ARCHIVE_OK) return Failure(Reason());
    archive_entry* entry = nullptr;
    for (;;) {
      const int status = ::archive_read_next_header(from_.get(), &entry);
      if (status == ARCHIVE_EOF) break;
      if (status < ARCHIVE_WARN) return Failure(Reason());
      PENSTOCK_CHECK(Take(entry));
    }
    for (Node& node : archive_.nodes_) node.attributes.fsid = archive_.fingerprint_;
    return std::move(archive_);
  }

 private:
  static constexpr size_t kBlock = 64 << 10;

  std::unexpected<SetupError> Failure(std::string_view why) const {
    return std::unexpected(SetupError{fmt::format("{}: {}", path_, why)});
  }
  std::string Reason() const {
    const char* const text = ::archive_error_string(from_.get());
    return text ? text : "cannot be read";
  }

  SetupResult<void> Take(archive_entry* entry) {
    const char* const path = ::archive_entry_pathname(entry);
    const auto names = SplitPath(path ? path : "..");
    if (!names) return Failure("an entry has no name, or one that leads out of the archive");
    // An entry for the root itself, "./", gives the root's attributes.
    if (names->empty()) return SetAttributes(kRoot, entry);

    PENSTOCK_TRY(const size_t directory, DirectoryAt({names->begin(), names->end() - 1}));
    const std::string& name = names->back();
    const char* const original = ::archive_entry_hardlink(entry);
    const std::optional<FileType> type = original ? FileType::kRegular : TypeOf(entry);
    if (!type) return Failure(fmt::format("{}: an entry of a type that tar does not have", path));

    // A later entry of the same name replaces a file, and changes the attributes of a directory.
    if (const std::optional<size_t> existing = Find(directory, name)) {
      const bool was_directory = nodes()[*existing].attributes.type == FileType::kDirectory;
      if (was_directory != (*type == FileType::kDirectory)) {
        return Failure(fmt::format("{}: both a directory and a file", path));
      }
      if (was_directory) return SetAttributes(*existing, entry);
    }
    if (original) return TakeHardLink(directory, name, original);
    const size_t made = Enter(directory, name, Add(*type, 0));
    if (const char* const target = ::archive_entry_symlink(entry)) nodes()[made].target = target;
    PENSTOCK_CHECK(ReadContent(nodes()[made]));
    return SetAttributes(made, entry);
  }

  SetupResult<void> TakeHardLink(size_t directory, const std::string& name, std::string_view original) {
    const auto names = SplitPath(original);
    std::optional<size_t> at = kRoot;
    for (const std::string& each : names.value_or(std::vector<std::string>())) at = at ? Find(*at, each) : at;
    if (!at || nodes()[*at].attributes.type == FileType::kDirectory) {
      return Failure(fmt::format("a hard link to {}, which is no file of the archive", original));
    }
    ++nodes()[*at].attributes.nlink;
    Enter(directory, name, *at);
    Note(original);
    return {};
  }

  // Finds the directory with this path. Makes directories that have had no entry of their own so far.
  SetupResult<size_t> DirectoryAt(std::span<const std::string> names) {
    size_t at = kRoot;
    for (const std::string& name : names) {
      const std::optional<size_t> found = Find(at, name);
      at = found ? *found : Enter(at, name, Add(FileType::kDirectory, 0755));
      if (nodes()[at].attributes.type != FileType::kDirectory) return Failure(name + ": both a directory and a file");
    }
    return at;
  }

  std::optional<size_t> Find(size_t directory, const std::string& name) const {
    const auto& entries = archive_.nodes_[directory].entries;
    const auto found = entries.find(name);
    return found == entries.end() ? std::nullopt : std::optional(found->second);
  }

  size_t Add(FileType type, uint32_t mode) {
    Node& node = nodes().emplace_back();
    node.attributes.type = type;
    node.attributes.mode = mode;
    node.attributes.nlink = type == FileType::kDirectory ? 2 : 1;
    node.attributes.fileid = nodes().size();
    node.attributes.change = 1;
    return nodes().size() - 1;
  }

  // Gives `node` a name, in place of the node that had it. Returns `node`.
  size_t Enter(size_t directory, const std::string& name, size_t node) {
    nodes()[directory].entries[name] = node;
    if (nodes()[node].attributes.type == FileType::kDirectory) {
      nodes()[node].parent = directory;
      ++nodes()[directory].attributes.nlink;
    }
    Note(name);
    return node;
  }

  SetupResult<void> ReadContent(Node& node) {
    std::array<char, kBlock> block;
    for (;;) {
      const auto count = ::archive_read_data(from_.get(), block.data(), block.size());
      if (count < 0) return Failure(Reason());
      if (count == 0) break;
      node.content.append(block.data(), static_cast<size_t>(count));
    }
    Note(node.content);
    return {};
  }

  SetupResult<void> SetAttributes(size_t index, archive_entry* entry) {
    fs::Attributes& attributes = nodes()[index].attributes;
    attributes.mode = ::archive_entry_perm(entry) & 07777;
    attributes.uid = static_cast<uint32_t>(::archive_entry_uid(entry));
    attributes.gid = static_cast<uint32_t>(::archive_entry_gid(entry));
    attributes.size = attributes.used = nodes()[index].content.size() + nodes()[index].target.size();
    attributes.rdev = {static_cast<uint32_t>(::archive_entry_rdevmajor(entry)),
                       static_cast<uint32_t>(::archive_entry_rdevminor(entry))};
    attributes.mtime = {::archive_entry_mtime(entry), static_cast<uint32_t>(::archive_entry_mtime_nsec(entry))};
    attributes.atime = attributes.ctime = attributes.mtime;
    Note(fmt::format("{} {} {} {} {}.{} {}", static_cast<int>(attributes.type), attributes.mode, attributes.uid,
                     attributes.gid, attributes.mtime.seconds, attributes.mtime.nanoseconds, nodes()[index].target));
    return {};
  }

  void Note(std::string_view text) { archive_.fingerprint_ = SipHash({archive_.fingerprint_, 0}, AsBytes(text)); }
  std::vector<Node>& nodes() { return archive_.nodes_; }

  const std::string path_;
  const std::unique_ptr<archive, FreeArchive> from_;
  Archive archive_;
};

SetupResult<Archive> Archive::Read(const std::string& path) { return Reader(path).Read(); }

}  // namespace penstock::examples
