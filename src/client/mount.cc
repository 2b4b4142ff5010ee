#include "client/mount.h"

#include <fmt/core.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "client/set_up.h"
#include "protocol/nfs4_types.h"

namespace penstock::client {

FileType FileTypeOf(uint32_t number) {
  using enum nfs4::nfs_ftype4;
  switch (static_cast<nfs4::nfs_ftype4>(number)) {
    case NF4REG:
      return FileType::kRegular;
    case NF4DIR:
      return FileType::kDirectory;
    case NF4BLK:
      return FileType::kBlockDevice;
    case NF4CHR:
      return FileType::kCharacterDevice;
    case NF4LNK:
      return FileType::kSymlink;
    case NF4SOCK:
      return FileType::kSocket;
    case NF4FIFO:
      return FileType::kFifo;
    default:
      return FileType::kOther;
  }
}

Task<Result<File::ReadReply>> File::Read(uint64_t offset, Bytes into) {
  PENSTOCK_CO_TRY(const FetchReply reply, co_await Fetch(offset, into));
  co_return reply.CopyTo(into);
}

File::ReadReply File::FetchReply::CopyTo(Bytes into) const {
  if (octets.data() != into.data()) CopyBytes(into, octets.bytes());
  return {static_cast<uint32_t>(octets.size()), eof};
}

Error File::Contradiction(std::string_view operation) const {
  return {fmt::format("{}: the server's {} reply contradicts itself", name_, operation), std::nullopt, EPROTO};
}

Result<void> CheckRegular(const Node& node, std::string_view what) {
  switch (node.attributes.type) {
    case FileType::kRegular:
      return {};
    case FileType::kDirectory:
      return std::unexpected(ErrorOf(Status::kIsDirectory, what));
    default:
      return std::unexpected(Error{fmt::format("{}: not a regular file", what), std::nullopt, EINVAL});
  }
}

Task<Result<Node>> Mount::Resolve(std::string path, bool follow) {
  constexpr int kMostLinks = 40;
  std::vector<Node> walked;  // the nodes below the root that lead to the present one
  const auto here = [&] { return walked.empty() ? root_ : walked.back().handle; };
  const auto is_directory = [&] { return walked.empty() || walked.back().attributes.type == FileType::kDirectory; };
  std::string rest = path;
  int links = 0;
  for (;;) {
    rest.erase(0, std::min(rest.find_first_not_of('/'), rest.size()));
    if (rest.empty()) break;
    const size_t slash = rest.find('/');
    const std::string name = rest.substr(0, slash);
    rest.erase(0, name.size());
    if (name == "." || name == "..") {
      if (!is_directory()) co_return std::unexpected(client::ErrorOf(Status::kNotDirectory, path));
      if (name == ".." && !walked.empty()) walked.pop_back();
      continue;
    }
    const Handle directory = here();
    auto found = co_await Lookup(directory, name);
    if (!found) {
      Error error = std::move(found).error();
      // The message begins with the name.
      if (error.status && error.message.starts_with(name)) error.message.replace(0, name.size(), path);
      co_return std::unexpected(std::move(error));
    }
    const bool last = rest.find_first_not_of('/') == rest.npos;
    if (found->attributes.type != FileType::kSymlink || (last && !follow)) {
      walked.push_back(*std::move(found));
      continue;
    }
    if (++links > kMostLinks) co_return std::unexpected(Error{path + ": too many symbolic links", std::nullopt, ELOOP});
    PENSTOCK_CO_TRY(std::string target, co_await ReadLink(found->handle, path));
    if (target.starts_with('/')) {
      auto below = PathBelowRoot(target);
      if (!below) {
        co_return std::unexpected(Error{path + ": a symbolic link leads out of the export", std::nullopt, EXDEV});
      }
      target = *std::move(below);
      walked.clear();
    }
    rest.insert(0, target + "/");
  }
  if (!walked.empty()) co_return std::move(walked.back());
  PENSTOCK_CO_TRY(const Attributes root, co_await GetAttributes(root_, url_.path));
  co_return Node{.handle = root_, .attributes = root};
}

Task<Result<Mount::Place>> Mount::ResolvePlace(std::string path) {
  while (path.ends_with('/')) path.pop_back();
  const size_t slash = path.rfind('/');
  Place place{{}, path.substr(slash + 1)};
  if (place.name.empty()) co_return std::unexpected(ErrorOf(Status::kInvalid, url_.path));
  const std::string above = slash == path.npos ? "" : path.substr(0, slash);
  PENSTOCK_CO_TRY(const Node parent, co_await Resolve(above));
  place.directory = parent.handle;
  co_return place;
}

Task<Result<void>> Mount::List(const Handle& directory, std::string_view what, std::function<void(Entry)> entry) {
  const Handle where = directory;
  ListPosition from;
  for (;;) {
    PENSTOCK_CO_TRY(Listing listing, co_await ListFrom(where, what, from, ListContent::kAttributes));
    for (Entry& each : listing.entries) entry(std::move(each));
    if (listing.ends) co_return Result<void>();
    if (listing.next.cookie == from.cookie) {
      co_return std::unexpected(
          Error{fmt::format("{}: the server never ends the listing", what), std::nullopt, EPROTO});
    }
    from = listing.next;
  }
}

// ---- what not every version has ----

namespace {

std::unexpected<Error> NotSupported(std::string_view what) {
  return std::unexpected(ErrorOf(Status::kNotSupported, what));
}

}  // namespace

Task<Result<std::optional<uint64_t>>> File::Seek(uint64_t, Content) { co_return NotSupported(); }
Task<Result<void>> File::Allocate(uint64_t, uint64_t) { co_return NotSupported(); }
Task<Result<void>> File::Deallocate(uint64_t, uint64_t) { co_return NotSupported(); }
Task<Result<void>> File::Widen(Node) { co_return NotSupported(); }
Task<Result<File::CopyReply>> File::CopyFrom(File&, uint64_t, uint64_t, uint64_t) { co_return NotSupported(); }
Task<Result<void>> File::CloneFrom(File&, uint64_t, uint64_t, uint64_t) { co_return NotSupported(); }

Task<Result<std::vector<std::byte>>> Mount::GetXattr(const Handle&, std::string_view what, std::string_view) {
  co_return NotSupported(what);
}
Task<Result<void>> Mount::SetXattr(const Handle&, std::string_view what, std::string_view, ConstBytes, XattrMode) {
  co_return NotSupported(what);
}
Task<Result<std::vector<std::string>>> Mount::ListXattrs(const Handle&, std::string_view what) {
  co_return NotSupported(what);
}
Task<Result<void>> Mount::RemoveXattr(const Handle&, std::string_view what, std::string_view) {
  co_return NotSupported(what);
}
Task<Result<std::vector<Ace>>> Mount::GetAcl(const Handle&, std::string_view what) { co_return NotSupported(what); }
Task<Result<void>> Mount::SetAcl(const Handle&, std::string_view what, const std::vector<Ace>&) {
  co_return NotSupported(what);
}
Task<Result<PosixAcl>> Mount::GetPosixAcl(const Handle&, std::string_view what) { co_return NotSupported(what); }
Task<Result<void>> Mount::SetPosixAcl(const Handle&, std::string_view what, const PosixAcl&) {
  co_return NotSupported(what);
}

std::optional<std::string> Mount::PathBelowRoot(std::string_view path) const {
  const auto below = Below(path, root_path_);
  if (!below) return std::nullopt;
  return std::string(*below);
}

std::optional<std::string> Mount::PathInExport(std::string_view path) const {
  const auto holds_path = [&](const std::string& other) { return Below(path, other).has_value(); };
  if (std::ranges::any_of(exports_below_, holds_path)) return std::nullopt;
  return PathBelowRoot(path);
}

}  // namespace penstock::client
