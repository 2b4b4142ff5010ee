#include "archive_file_system.h"

#include <algorithm>
#include <array>
#include <iterator>

#include "base/buffer.h"
#include "base/bytes.h"
#include "fs/names.h"
#include "fs/permission.h"

namespace penstock::examples {
namespace {

using fs::Error;
using fs::Handle;
using fs::RequestContext;

constexpr size_t kFingerprintSize = sizeof(uint64_t);
constexpr size_t kHandleSize = kFingerprintSize + sizeof(uint32_t);

fs::Rights RightsIn(const Node& node, const RequestContext& context) {
  return fs::RightsOf(node.attributes, context.credentials);
}

}  // namespace

Handle ArchiveFileSystem::HandleOf(size_t index) const {
  std::array<std::byte, kHandleSize> bytes;
  StoreBig(bytes.data(), archive_.fingerprint());
  StoreBig(bytes.data() + kFingerprintSize, static_cast<uint32_t>(index));
  return *Handle::FromBytes(bytes);
}

fs::Result<const Node*> ArchiveFileSystem::Find(const Handle& handle) const {
  if (handle.size() != kHandleSize) return std::unexpected(Error::kBadHandle);
  if (LoadBig<uint64_t>(handle.bytes().data()) != archive_.fingerprint()) return std::unexpected(Error::kStale);
  const size_t index = LoadBig<uint32_t>(handle.bytes().data() + kFingerprintSize);
  if (index >= archive_.nodes().size()) return std::unexpected(Error::kBadHandle);
  return &archive_.nodes()[index];
}

fs::Result<fs::Identity> ArchiveFileSystem::Identify(const Handle& object) const {
  PENSTOCK_CHECK(Find(object));
  return fs::Identity{archive_.fingerprint(), object};
}

template <class T, class Function>
fs::Observed<T> ArchiveFileSystem::Observe(const Handle& object, Function look) const {
  const fs::Result<const Node*> found = Find(object);
  if (!found) return {std::unexpected(found.error()), {}};
  return {look(**found), (*found)->attributes};
}

Task<fs::Result<fs::Attributes>> ArchiveFileSystem::GetAttributes(const RequestContext&, const Handle& object) {
  PENSTOCK_CO_TRY(const Node* const node, Find(object));
  co_return node->attributes;
}

Task<fs::Observed<fs::Node>> ArchiveFileSystem::Lookup(const RequestContext& context, const Handle& directory,
                                                       std::string_view name) {
  co_return Observe<fs::Node>(directory, [&](const Node& node) -> fs::Result<fs::Node> {
    if (node.attributes.type != fs::FileType::kDirectory) return std::unexpected(Error::kNotDir);
    PENSTOCK_CHECK(fs::CheckName(name, GetProperties().name_max));
    if (!RightsIn(node, context).execute) return std::unexpected(Error::kAccess);
    size_t index = 0;
    if (name == ".") {
      index = static_cast<size_t>(&node - archive_.nodes().data());
    } else if (name == "..") {
      index = node.parent;
    } else {
      const auto entry = node.entries.find(name);
      if (entry == node.entries.end()) return std::unexpected(Error::kNoEnt);
      index = entry->second;
    }
    return fs::Node{HandleOf(index), archive_.nodes()[index].attributes};
  });
}

Task<fs::Observed<std::string>> ArchiveFileSystem::ReadLink(const RequestContext&, const Handle& symlink) {
  co_return Observe<std::string>(symlink, [](const Node& node) -> fs::Result<std::string> {
    if (node.attributes.type != fs::FileType::kSymlink) return std::unexpected(Error::kInvalid);
    return node.target;
  });
}

// The reply borrows the content, which lives as long as the file system: the server sends it without a copy.
Task<fs::Observed<fs::ReadReply>> ArchiveFileSystem::Read(const RequestContext& context, const Handle& file,
                                                          uint64_t offset, uint32_t count) {
  co_return Observe<fs::ReadReply>(file, [&](const Node& node) -> fs::Result<fs::ReadReply> {
    PENSTOCK_CHECK(fs::CheckRegular(node.attributes.type));
    if (!fs::MayReadData(node.attributes, context.credentials, RightsIn(node, context))) {
      return std::unexpected(Error::kAccess);
    }
    const ConstBytes rest = AsBytes(node.content).subspan(std::min<uint64_t>(offset, node.content.size()));
    const ConstBytes data = rest.first(std::min<size_t>(count, rest.size()));
    return fs::ReadReply{Slice::Borrowed(data), data.size() == rest.size()};
  });
}

// The cookie of an entry is its place: "." has 1, ".." has 2, and the entries follow in the order of their names.
Task<fs::Observed<fs::ReadDirectoryReply>> ArchiveFileSystem::ReadDirectory(const RequestContext& context,
                                                                            const Handle& directory,
                                                                            const fs::ReadDirectoryArguments& arguments,
                                                                            fs::EntrySink& sink) {
  co_return Observe<fs::ReadDirectoryReply>(directory, [&](const Node& node) -> fs::Result<fs::ReadDirectoryReply> {
    if (node.attributes.type != fs::FileType::kDirectory) return std::unexpected(Error::kNotDir);
    const fs::Rights rights = RightsIn(node, context);
    if (!rights.read) return std::unexpected(Error::kAccess);
    const uint64_t after = arguments.cookie.value();
    if (after > node.entries.size() + 2) return std::unexpected(Error::kBadCookie);

    const auto add = [&](uint64_t place, std::string_view name, size_t index) {
      const fs::Attributes& attributes = archive_.nodes()[index].attributes;
      fs::DirectoryEntry given{attributes.fileid, name, fs::Cookie(place)};
      if (arguments.with_nodes && rights.execute) {
        given.attributes = attributes;
        given.handle = HandleOf(index);
      } else if (arguments.with_nodes) {
        given.error = Error::kAccess;
      }
      return sink.Add(given);
    };
    uint64_t place = std::max<uint64_t>(after, 2);
    if (after < 1 && !add(1, ".", static_cast<size_t>(&node - archive_.nodes().data())))
      return fs::ReadDirectoryReply{};
    if (after < 2 && !add(2, "..", node.parent)) return fs::ReadDirectoryReply{};
    for (auto entry = std::next(node.entries.begin(), static_cast<ptrdiff_t>(place - 2)); entry != node.entries.end();
         ++entry) {
      if (!add(++place, entry->first, entry->second)) return fs::ReadDirectoryReply{};
    }
    return fs::ReadDirectoryReply{.verifier = {}, .eof = true};
  });
}

}  // namespace penstock::examples
