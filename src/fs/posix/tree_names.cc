// The methods of Tree that look up, rename, remove and list names. (Those that create objects are in tree_create.cc.)
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>

#include "fs/errno.h"
#include "fs/names.h"
#include "fs/posix/tree.h"

namespace penstock::fs::posix {
namespace {

// Whether the server must reject a change because it could not examine the object, without asking the kernel.
bool IsOurs(Error error) { return error == Error::kCovered || error == Error::kDelay; }

}  // namespace

std::optional<Result<Tree::Found>> Tree::Find(const Object& directory, std::string_view name, Patience patience) const {
  if (parts_.covers.HasPlace(directory.fd(), name)) return std::unexpected(Error::kCovered);
  const std::string entry(name);
  std::optional<Result<FileDescriptor>> fd;
  if (patience == Patience::kNone) {
    fd = OpenEntry(directory.fd(), entry, parts_.volume.in_memory ? Patience::kMayBlock : patience);
    // Another object must give up a descriptor first, which may take time.
    if (!fd || (!*fd && fd->error() == Error::kDelay)) return std::nullopt;
  } else {
    fd = objects_.all()->OpenResult([&] { return *OpenEntry(directory.fd(), entry, patience); });
  }
  if (!*fd) return std::unexpected(fd->error());
  const Result<Stat> stat = posix::StatOf((*fd)->get(), parts_.volume);
  // The object was removed between the two calls.
  if (!stat) return std::unexpected(stat.error() == Error::kStale ? Error::kNoEnt : stat.error());
  if (parts_.covers.Has(*stat)) return std::unexpected(Error::kCovered);
  return Found{std::move(**fd), *stat};
}

Result<Handle> Tree::HandleOf(const Object& directory, std::string_view name, const Found& found) {
  return parts_.handles->HandleOf(found.fd.get(), found.stat, directory.handle(), name);
}

std::optional<Result<Node>> Tree::FindKnown(const Object& directory, const char* name) const {
  if (parts_.covers.HasPlace(directory.fd(), name)) return std::unexpected(Error::kCovered);
  const std::optional<Result<Stat>> stat = StatOfEntry(directory.fd(), name, parts_.volume);
  if (!stat) return std::nullopt;
  if (!*stat) return std::unexpected(stat->error());
  if (parts_.covers.Has(**stat)) return std::unexpected(Error::kCovered);
  const std::optional<Handle> handle = parts_.handles->KnownHandleOf(**stat);
  if (!handle) return std::nullopt;
  return Node{*handle, (*stat)->attributes};
}

// Objects that are found stay open, because the client is about to use them.
std::optional<Result<Node>> Tree::FindNode(const Object& directory, std::string_view name, Patience patience) {
  std::optional<Result<Found>> found = Find(directory, name, patience);
  if (!found) return std::nullopt;
  if (!*found) return std::unexpected(found->error());
  return EnterFound(directory, name, **std::move(found));
}

Result<Node> Tree::EnterFound(const Object& directory, std::string_view name, Found found) {
  PENSTOCK_TRY(const Handle handle, HandleOf(directory, name, found));
  const Attributes& attributes = found.stat.attributes;
  if (!objects_.Find(handle)) PENSTOCK_CHECK(Enter(handle, std::move(found.fd), attributes.type));
  return Node{handle, attributes};
}

// The root is its own parent. A directory that another program moved out of the tree has no parent here (kStale).
Result<Node> Tree::FindParent(const Object& directory, const Stat& stat) {
  if (directory.handle() == root_handle_) return Node{root_handle_, stat.attributes};
  // A directory is in the tree as long as it stays open.
  if (const auto known = FindKnown(directory, ".."); known && *known && objects_.Find((*known)->handle)) return *known;
  const FileDescriptor fd =
      objects_.all()->Open([&] { return ::openat(directory.fd(), "..", O_PATH | O_NOFOLLOW | O_CLOEXEC); });
  if (!fd) return LastError();
  if (!IsBeneath(fd.get(), parts_.root.get())) return std::unexpected(Error::kStale);
  PENSTOCK_TRY(const Stat parent, posix::StatOf(fd.get(), parts_.volume));
  if (parts_.covers.Has(parent)) return std::unexpected(Error::kStale);
  PENSTOCK_TRY(const Handle handle, parts_.handles->HandleOfParent(fd.get(), parent));
  return Node{handle, parent.attributes};
}

std::optional<Observed<Node>> Tree::Lookup(const Credentials& caller, const Handle& handle, std::string_view name,
                                           Patience patience) {
  return Observe<Node>(handle, patience, [&](Object& directory, const Stat& stat) -> std::optional<Result<Node>> {
    if (!directory.is_directory()) return std::unexpected(Error::kNotDir);
    if (const Result<void> good = CheckName(name, NAME_MAX); !good) return std::unexpected(good.error());
    const std::optional<Rights> rights = RightsTo(directory, stat.attributes, caller, patience);
    if (!rights) return std::nullopt;
    if (!rights->execute) return std::unexpected(Error::kAccess);
    if (name == ".") return Node{handle, stat.attributes};
    if (patience == Patience::kNone && parts_.handles->may_block()) return std::nullopt;
    if (name == "..") return FindParent(directory, stat);
    return FindNode(directory, name, patience);
  });
}

Changed<void> Tree::Unlink(const Credentials& caller, const Handle& handle, std::string_view name, int flags,
                           Touches& touches) {
  return ChangeDirectory<void>(handle, touches, [&](Object& directory) -> Result<void> {
    const Error dots = flags == AT_REMOVEDIR ? DotsWhenRemovingDirectory(name) : kDotsWhenRemoving;
    PENSTOCK_CHECK(CheckOrdinaryName(name, NAME_MAX, dots));
    const std::string entry(name);
    // Finds the object for the cache and the handles. Whether it may be removed, and exists at all, is decided by the
    // kernel.
    const Result<Found> victim = *Find(directory, name, Patience::kMayBlock);
    if (!victim && IsOurs(victim.error())) return std::unexpected(victim.error());
    PENSTOCK_CHECK(CheckMayRemove(caller, directory, victim, name));
    const Result<Handle> gone =
        victim ? HandleOf(directory, name, *victim) : Result<Handle>(std::unexpected(victim.error()));
    std::optional<Renaming> unlinked;
    if (gone) unlinked.emplace(*this, objects_.Find(*gone), victim->fd.get());
    {
      const AsCaller as_caller(server_, caller);
      if (::unlinkat(directory.fd(), entry.c_str(), flags) != 0) return LastError();
    }
    if (unlinked) unlinked->Note();
    if (gone) {
      const bool last = flags == AT_REMOVEDIR || victim->stat.attributes.nlink == 1;
      if (last) objects_.Erase(*gone);  // an open descriptor would keep its space
      parts_.handles->NameRemoved(directory.handle(), name, *gone, last);
    }
    return {};
  });
}

Result<bool> Tree::RenameEntry(const Credentials& caller, Object& from, const std::string& from_name, Object& to,
                               const std::string& to_name) {
  if (!from.is_directory() || !to.is_directory()) return std::unexpected(Error::kNotDir);
  PENSTOCK_CHECK(CheckOrdinaryName(from_name, NAME_MAX, kDotsWhenRenaming));
  PENSTOCK_CHECK(CheckOrdinaryName(to_name, NAME_MAX, kDotsWhenRenaming));
  const Result<Found> moved = *Find(from, from_name, Patience::kMayBlock);
  const Result<Found> replaced = *Find(to, to_name, Patience::kMayBlock);
  for (const auto* found : {&moved, &replaced}) {
    if (!*found && IsOurs(found->error())) return std::unexpected(found->error());
  }
  const bool same = moved && replaced && moved->stat.device == replaced->stat.device &&
                    moved->stat.attributes.fileid == replaced->stat.attributes.fileid;
  if (same) {
    // Nothing changes, but whether the names exist is for those who may search the directories.
    PENSTOCK_CHECK(CheckMaySearch(caller, from));
    PENSTOCK_CHECK(CheckMaySearch(caller, to));
  } else {
    PENSTOCK_CHECK(CheckMayRename(caller, from, moved, from_name, to, replaced, to_name));
  }
  Result<Handle> gone = std::unexpected(Error::kNoEnt);
  if (replaced && !same) gone = HandleOf(to, to_name, *replaced);
  std::optional<Renaming> unlinked;
  if (gone) unlinked.emplace(*this, objects_.Find(*gone), replaced->fd.get());
  {
    const AsCaller as_caller(server_, caller);
    if (::renameat(from.fd(), from_name.c_str(), to.fd(), to_name.c_str()) != 0) {
      // RFC 1813 §3.3.14: the target has another type, or is a directory with entries.
      if (errno == EISDIR || errno == ENOTDIR || errno == ENOTEMPTY) return std::unexpected(Error::kExist);
      return LastError();
    }
  }
  if (same) return false;
  if (unlinked) unlinked->Note();
  if (gone) {
    const Attributes& attributes = replaced->stat.attributes;
    const bool last = attributes.type == FileType::kDirectory || attributes.nlink == 1;
    if (last) objects_.Erase(*gone);
    parts_.handles->NameRemoved(to.handle(), to_name, *gone, last);
  }
  parts_.handles->NameMoved(from.handle(), from_name, to.handle(), to_name);
  return true;
}

Renamed Tree::Rename(const Credentials& caller, const Handle& from_directory, std::string_view from_name,
                     const Handle& to_directory, std::string_view to_name, Touches& touches) {
  Renamed renamed{std::unexpected(Error::kStale), {}, {}};
  const Result<ObjectRef> from = *Reach(from_directory, Patience::kMayBlock);
  const Result<ObjectRef> to = *Reach(to_directory, Patience::kMayBlock);
  const Result<Stat> from_stat = from ? StatOf(**from) : std::unexpected(from.error());
  const Result<Stat> to_stat = to ? StatOf(**to) : std::unexpected(to.error());
  if (!from_stat || !to_stat) {
    renamed.result = std::unexpected(from_stat ? to_stat.error() : from_stat.error());
    if (from_stat) renamed.from = {BeforeOf(from_stat->attributes), from_stat->attributes};
    if (to_stat) renamed.to = {BeforeOf(to_stat->attributes), to_stat->attributes};
    return renamed;
  }
  Object& source = **from;
  Object& target = **to;
  const Result<SharedFile> from_file = OpenToSync(source);
  const Result<SharedFile> to_file = OpenToSync(target);
  if (!from_file || !to_file) {
    renamed.result = std::unexpected(Error::kDelay);
    return renamed;
  }
  bool moved = false;
  {
    std::unique_lock first(source.changing, std::defer_lock);
    std::unique_lock second(target.changing, std::defer_lock);
    if (&source == &target) {
      first.lock();
    } else {
      std::lock(first, second);
    }
    const Attributes source_before = StatOf(source).value_or(*from_stat).attributes;
    const Attributes target_before = StatOf(target).value_or(*to_stat).attributes;
    renamed.from.before = BeforeOf(source_before);
    renamed.to.before = BeforeOf(target_before);
    const Result<bool> moving = RenameEntry(caller, source, std::string(from_name), target, std::string(to_name));
    if (moving) {
      moved = *moving;
      renamed.result = {};
    } else {
      renamed.result = std::unexpected(moving.error());
    }
    NoteAfter(source, source_before, renamed.from, moved);
    NoteAfter(target, target_before, renamed.to, moved);
  }
  if (moved) Touch(*to, *to_file, touches);
  if (moved && &source != &target) Touch(*from, *from_file, touches);
  return renamed;
}

Linked Tree::Link(const Credentials& caller, const Handle& file, const Handle& directory, std::string_view name,
                  Touches& touches) {
  Linked linked{std::unexpected(Error::kStale), {}, {}};
  const Result<ObjectRef> object = *Reach(file, Patience::kMayBlock);
  Changed<void> changed = ChangeDirectory<void>(directory, touches, [&](Object& to) -> Result<void> {
    if (!object) return std::unexpected(object.error());
    PENSTOCK_TRY(const Stat stat, StatOf(**object));
    PENSTOCK_CHECK(CheckOrdinaryName(name, NAME_MAX, kDotsWhenCreating));
    if ((*object)->is_directory()) return std::unexpected(Error::kIsDir);
    // a pinned file without a name cannot get one again
    if (stat.attributes.nlink == 0) return std::unexpected(Error::kStale);
    const std::string entry(name);
    PENSTOCK_CHECK(CheckMayCreate(caller, to, entry));
    PENSTOCK_CHECK(CheckMayLink(caller, **object, stat.attributes));
    Renaming linking(*this, *object, (*object)->fd());
    {
      const AsCaller as_caller(server_, caller);
      if (::linkat(AT_FDCWD, ProcPath((*object)->fd()).c_str(), to.fd(), entry.c_str(), AT_SYMLINK_FOLLOW) != 0) {
        return LastError();
      }
    }
    linking.Note();
    // The new name leads to the object, too.
    PENSTOCK_TRY([[maybe_unused]] const Handle same,
                 parts_.handles->HandleOf((*object)->fd(), stat, to.handle(), name));
    return {};
  });
  linked.result = object ? std::move(changed.result) : std::unexpected(object.error());
  linked.directory = changed.object;
  if (object) {
    if (const Result<Stat> stat = StatOf(**object)) linked.file = stat->attributes;
  }
  return linked;
}

Result<Node> Tree::NodeOfEntry(const Object& directory, const Stat& stat, const char* name, bool may_be_known) {
  using namespace std::string_view_literals;
  if (name == "."sv) return Node{directory.handle(), stat.attributes};
  if (name == ".."sv) return FindParent(directory, stat);
  if (may_be_known) {
    if (const std::optional<Result<Node>> known = FindKnown(directory, name)) return *known;
  }
  PENSTOCK_TRY(const Found found, *Find(directory, name, Patience::kMayBlock));
  PENSTOCK_TRY(const Handle handle, HandleOf(directory, name, found));
  return Node{handle, found.stat.attributes};
}

// A cookie is the kernel's own position. ext4, xfs, btrfs and tmpfs (since Linux 6.6) keep it stable while entries
// are made and removed. It needs no verifier, so the verifier is always zero.
Observed<ReadDirectoryReply> Tree::ReadDirectory(const Credentials& caller, const Handle& handle,
                                                 const ReadDirectoryArguments& arguments, EntrySink& sink) {
  const auto list = [&](Object& directory, const Stat& stat) -> Result<ReadDirectoryReply> {
    if (!directory.is_directory()) return std::unexpected(Error::kNotDir);
    const Rights rights = RightsTo(directory, stat.attributes, caller);
    if (!rights.read) return std::unexpected(Error::kAccess);
    PENSTOCK_TRY(const SharedFile file, directory.Reader());
    const bool is_root = handle == root_handle_;

    std::lock_guard lock(directory.listing);
    const auto place = static_cast<off_t>(arguments.cookie.value());
    if (place < 0 || ::lseek(file->get(), place, SEEK_SET) < 0) return std::unexpected(Error::kBadCookie);
    alignas(dirent64) std::byte buffer[16 << 10];
    for (;;) {
      const long filled = ::syscall(SYS_getdents64, file->get(), buffer, sizeof buffer);
      if (filled < 0) return LastError();
      if (filled == 0) return ReadDirectoryReply{CookieVerifier(), true};
      for (long at = 0; at < filled;) {
        const auto* raw = reinterpret_cast<const dirent64*>(buffer + at);
        at += raw->d_reclen;
        DirectoryEntry entry{raw->d_ino, raw->d_name, Cookie(static_cast<uint64_t>(raw->d_off))};
        if (is_root && entry.name == "..") entry.fileid = stat.attributes.fileid;
        if (arguments.with_nodes) {
          const bool may_be_known =
              raw->d_type != DT_DIR && raw->d_type != DT_UNKNOWN && parts_.handles->MayKnow(raw->d_ino);
          const Result<Node> node = rights.execute ? NodeOfEntry(directory, stat, raw->d_name, may_be_known)
                                                   : Result<Node>(std::unexpected(Error::kAccess));
          if (node) {
            entry.attributes = node->attributes;
            entry.handle = node->handle;
          } else if (node.error() == Error::kNoEnt) {
            continue;  // removed after getdents64
          } else {
            entry.error = node.error();
          }
        }
        if (!sink.Add(entry)) return ReadDirectoryReply{};
      }
    }
  };
  return *Observe<ReadDirectoryReply>(handle, Patience::kMayBlock, list);
}

}  // namespace penstock::fs::posix
