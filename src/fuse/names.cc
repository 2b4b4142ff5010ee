// The requests that concern names and directories.
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/log.h"
#include "base/mix.h"
#include "base/random.h"
#include "fuse/file_system.h"

namespace penstock::fuse {

using client::Result;
using client::Status;

namespace {

// The number of an entry whose attributes the server does not tell. Zero would hide the entry.
constexpr ino_t kUnknownNumber = 0xffffffff;

uint64_t DigestOf(const client::Entry& entry) { return Mix(entry.name.size(), AsBytes(entry.name)); }

// How often one request looks up a name that changes meanwhile.
constexpr int kMostLookUps = 8;
// How often one request begins a listing again whose place the server rejects.
constexpr int kMostBeginnings = 4;

bool IsRejectedCookie(const client::Error& error) {
  return error.status == Status::kBadCookie || error.status == Status::kNotSame;
}

}  // namespace

Task<fuse_entry_param> FileSystem::EntryOf(const Inode& inode) {
  fuse_entry_param entry{};
  entry.ino = inode.number;
  entry.attr_timeout = TimeoutOf(inode);
  entry.entry_timeout = options_.caches_names ? TimeoutOf(inode) : 0;
  entry.attr = co_await StatOf(inode);
  co_return entry;
}

Task<void> FileSystem::ReplyNode(Request& request, client::Node node, uint64_t parent, std::string name) {
  Inode& inode = inodes_.Add(node, parent, name);
  const Inodes::Pin pin(inodes_, inode);
  const fuse_entry_param entry = co_await EntryOf(inode);
  if (!request.Entry(entry)) inodes_.Forget(inode.number, 1);
}

Task<void> FileSystem::Lookup(RequestPointer request, uint64_t parent, std::string name) {
  // A server may not understand a request with such a name. Nothing is made without a look-up before.
  if (options_.longest_name > 0 && name.size() > options_.longest_name) {
    request->Status(ENAMETOOLONG);
    co_return;
  }
  auto target = co_await Find(*request, parent);
  if (!target) co_return;
  Result<client::Node> node = co_await LookUp(target->mount, *target->inode, name);
  if (!node && node.error().status == Status::kNotFound && options_.caches_absent_names) {
    fuse_entry_param absent{};
    absent.entry_timeout = TimeoutOf(*target->inode);
    request->Entry(absent);
    co_return;
  }
  if (Failed(*request, node)) co_return;
  // Data on their way make the attributes newer.
  Inode* const known = inodes_.FindHandle(node->handle);
  if (known && known->writes && known->writes->unsent_end() > 0) {
    const Inodes::Pin pin(inodes_, *known);
    if (Failed(*request, co_await Refresh(target->mount, *known))) co_return;
    node->attributes = known->attributes;
  }
  co_await ReplyNode(*request, *std::move(node), parent, std::move(name));
}

// A name may get another file while its look-up is under way, and the reply may come after that of the change. The
// names of open files must be right: see HideOpenFile().
Task<Result<client::Node>> FileSystem::LookUp(client::Mount& mount, const Inode& directory, std::string name) {
  for (int tries = 1;; ++tries) {
    const Inode* const before = inodes_.FindName(directory.number, name);
    Result<client::Node> node = co_await mount.Lookup(directory.handle, name);
    const Inode* const now = inodes_.FindName(directory.number, name);
    if (!node || now == before || tries == kMostLookUps) co_return node;
  }
}

Task<void> FileSystem::ReadLink(RequestPointer request, uint64_t inode) {
  auto target = co_await Find(*request, inode);
  if (!target) co_return;
  auto text = co_await target->mount.ReadLink(target->inode->handle, PathOf(*target->inode));
  if (Failed(*request, text)) co_return;
  request->Link(text->c_str());
}

// ---- new names ----

Task<void> FileSystem::MakeNode(RequestPointer request, uint64_t parent, std::string name, mode_t mode, dev_t device) {
  auto target = co_await Find(*request, parent);
  if (!target) co_return;
  client::Mount& mount = target->mount;
  const client::Handle directory = target->inode->handle;
  const uint32_t bits = mode & 07777;
  if (S_ISREG(mode)) {
    auto file = co_await mount.CreateFile(directory, name, bits, client::CreateMode::kExclusive);
    if (Failed(*request, file)) co_return;
    const client::Node node = (*file)->node();
    if (Failed(*request, co_await (*file)->Close())) co_return;
    co_await ReplyNode(*request, node, parent, std::move(name));
    co_return;
  }
  client::FileType type = client::FileType::kOther;
  if (S_ISFIFO(mode)) type = client::FileType::kFifo;
  if (S_ISSOCK(mode)) type = client::FileType::kSocket;
  if (S_ISCHR(mode)) type = client::FileType::kCharacterDevice;
  if (S_ISBLK(mode)) type = client::FileType::kBlockDevice;
  auto node = co_await mount.MakeNode(directory, name, type, bits, major(device), minor(device));
  if (Failed(*request, node)) co_return;
  co_await ReplyNode(*request, *std::move(node), parent, std::move(name));
}

Task<void> FileSystem::MakeDirectory(RequestPointer request, uint64_t parent, std::string name, mode_t mode) {
  auto target = co_await Find(*request, parent);
  if (!target) co_return;
  auto node = co_await target->mount.MakeDirectory(target->inode->handle, name, mode & 07777);
  if (Failed(*request, node)) co_return;
  co_await ReplyNode(*request, *std::move(node), parent, std::move(name));
}

Task<void> FileSystem::MakeSymlink(RequestPointer request, std::string text, uint64_t parent, std::string name) {
  auto target = co_await Find(*request, parent);
  if (!target) co_return;
  auto node = co_await target->mount.MakeSymlink(target->inode->handle, name, text);
  if (Failed(*request, node)) co_return;
  co_await ReplyNode(*request, *std::move(node), parent, std::move(name));
}

Task<void> FileSystem::Link(RequestPointer request, uint64_t inode, uint64_t parent, std::string name) {
  auto target = co_await Find(*request, inode);
  if (!target) co_return;
  auto directory = co_await Find(*request, parent);
  if (!directory) co_return;
  Inode& file = *target->inode;
  if (Failed(*request, co_await target->mount.Link(file.handle, directory->inode->handle, name))) co_return;
  if (Failed(*request, co_await Refresh(target->mount, file))) co_return;
  co_await ReplyNode(*request, file.node(directory->inode->handle), parent, std::move(name));
}

// ---- names that end ----

FileSystem::Removal::Removal(FileSystem& files, Inode* inode)
    : files_(files), inode_(inode ? std::optional<Inodes::Pin>(std::in_place, files.inodes_, *inode) : std::nullopt) {
  if (inode) ++inode->removing;
}

FileSystem::Removal::~Removal() {
  if (!inode_) return;
  --(*inode_)->removing;
  files_.removed_.Notify();
}

// Gives an open file another name, so that programs can use it until they close it: a server forgets a file without a
// name. Returns nothing if nothing has to be hidden, as when another name of `moved`, which may be null, gets this one.
Task<Result<std::optional<FileSystem::Hidden>>> FileSystem::HideOpenFile(client::Mount& mount, const Inode& directory,
                                                                         std::string name, const Inode* moved) {
  const Inode* const known = inodes_.FindOpen(directory.number, name);
  if (!known || known == moved) co_return std::nullopt;
  // Another client may have given the name to another file, or other names to this one.
  auto node = co_await mount.Lookup(directory.handle, name);
  if (!node && node.error().status == Status::kNotFound) co_return std::nullopt;
  if (!node) co_return std::unexpected(std::move(node).error());
  Inode* const open = inodes_.FindHandle(node->handle);
  if (!open || open == moved || !open->in_use() || node->attributes.links > 1) co_return std::nullopt;
  Inodes::Pin pin(inodes_, *open);
  uint64_t random = 0;
  FillRandomly(std::as_writable_bytes(std::span(&random, 1)));
  const std::string hidden = fmt::format(".nfs{:016x}", random);
  PENSTOCK_CO_CHECK(co_await mount.Rename(directory.handle, name, directory.handle, hidden));
  inodes_.HandleRenamed(directory.number, name, directory.number, hidden);
  co_return Hidden{std::move(pin), {directory.handle, hidden}};
}

// Programs have removed the name: the hidden one ends when they close the file.
Task<void> FileSystem::KeepHidden(client::Mount& mount, Hidden hidden) {
  hidden.inode->hidden = std::move(hidden.name);
  if (!hidden.inode->in_use()) co_await RemoveHidden(mount, std::move(hidden.inode));
}

// Gives an open file its name back: the request that should have removed the name has failed.
Task<void> FileSystem::ShowAgain(client::Mount& mount, Hidden hidden, std::string name) {
  const HiddenName at = std::move(hidden.name);
  // Not by RENAME, which would replace what has got the name meanwhile.
  Result<void> shown = co_await mount.Link(hidden.inode->handle, at.directory, name);
  if (shown) shown = co_await mount.Remove(at.directory, at.name);
  if (!shown) {
    log::warn("{}: has got the name {}: {}", name, at.name, shown.error().message);
    co_return;
  }
  inodes_.HandleRenamed(hidden.inode->parent, at.name, hidden.inode->parent, name);
}

Task<void> FileSystem::Unlink(RequestPointer request, uint64_t parent, std::string name) {
  auto target = co_await Find(*request, parent);
  if (!target) co_return;
  const Removal removal(*this, inodes_.FindName(parent, name));
  auto hidden = co_await HideOpenFile(target->mount, *target->inode, name, nullptr);
  if (Failed(*request, hidden)) co_return;
  if (*hidden) {
    co_await KeepHidden(target->mount, *std::move(*hidden));
  } else {
    if (Failed(*request, co_await target->mount.Remove(target->inode->handle, name))) co_return;
    inodes_.HandleRemoved(parent, name);
  }
  request->Status(0);
}

Task<void> FileSystem::RemoveDirectory(RequestPointer request, uint64_t parent, std::string name) {
  auto target = co_await Find(*request, parent);
  if (!target) co_return;
  if (Failed(*request, co_await target->mount.RemoveDirectory(target->inode->handle, name))) co_return;
  inodes_.HandleRemoved(parent, name);
  request->Status(0);
}

Task<void> FileSystem::Rename(RequestPointer request, uint64_t from_parent, std::string from, uint64_t to_parent,
                              std::string to, unsigned flags) {
  // NFS can neither exchange two names nor refuse to replace one.
  if (flags != 0) {
    request->Status(EINVAL);
    co_return;
  }
  auto source = co_await Find(*request, from_parent);
  if (!source) co_return;
  auto target = co_await Find(*request, to_parent);
  if (!target) co_return;
  const Inode* const moved = inodes_.FindName(from_parent, from);
  const Removal removal(*this, inodes_.FindName(to_parent, to));
  auto hidden = co_await HideOpenFile(source->mount, *target->inode, to, moved);
  if (Failed(*request, hidden)) co_return;
  Result<void> renamed = co_await source->mount.Rename(source->inode->handle, from, target->inode->handle, to);
  if (!renamed && *hidden) co_await ShowAgain(source->mount, *std::move(*hidden), to);
  if (Failed(*request, renamed)) co_return;
  // Two names of one file stay as they are.
  const bool is_same = moved && inodes_.FindName(to_parent, to) == moved;
  if (!is_same) inodes_.HandleRenamed(from_parent, from, to_parent, to);
  if (*hidden) co_await KeepHidden(source->mount, *std::move(*hidden));
  request->Status(0);
}

// ---- directories ----

Task<void> FileSystem::OpenDirectoryAt(RequestPointer request, uint64_t inode, fuse_file_info info) {
  auto target = co_await Find(*request, inode);
  if (!target) co_return;
  auto directory = std::make_unique<OpenDirectory>();
  directory->inode = &*target->inode;
  directory->mount = target->held;
  info.fh = reinterpret_cast<uint64_t>(directory.get());
  ++target->inode->pins;
  inodes_.BeginListing(*target->inode);
  if (request->Opened(info)) {
    directory.release();  // ReleaseDirectory() has it
  } else {
    inodes_.EndListing(*target->inode);
    --target->inode->pins;
  }
}

Task<void> FileSystem::ReleaseDirectory(RequestPointer request, fuse_file_info info) {
  const std::unique_ptr<OpenDirectory> directory(reinterpret_cast<OpenDirectory*>(info.fh));
  const Inodes::Pin pin(inodes_, *directory->inode);
  request->Status(0);
  co_await directory->Unused();
  inodes_.EndListing(*pin);
  --pin->pins;
}

// Reads the page that begins with the entry `index`.
Task<Result<client::Listing>> FileSystem::ReadPage(OpenDirectory& directory, uint64_t index, bool with_attributes) {
  if (index == 0) {
    directory.position = {};
    directory.cookies.clear();
    directory.names.clear();
    directory.told.clear();
  } else {
    if (index > directory.cookies.size()) {
      co_return std::unexpected(client::ErrorOf(Status::kInvalid, PathOf(*directory.inode)));
    }
    directory.position.cookie = directory.cookies[index - 1];
    if (directory.position.cookie == OpenDirectory::kLost) directory.BeginAgain(index);
  }
  const auto content = with_attributes ? client::ListContent::kAttributesAndHandles : client::ListContent::kAttributes;
  for (int beginnings = 0;;) {
    const uint64_t before = directory.position.cookie;
    const Moment asked = inodes_.now();
    auto listing = co_await directory.mount->ListFrom(directory.inode->handle, PathOf(*directory.inode),
                                                      directory.position, content);
    if (!listing && IsRejectedCookie(listing.error()) && before != 0 && beginnings++ < kMostBeginnings) {
      directory.BeginAgain(index);
      continue;
    }
    if (!listing) co_return listing;
    directory.position = listing->next;
    directory.asked = asked;
    std::erase_if(listing->entries, [&](const client::Entry& each) { return directory.told.contains(DigestOf(each)); });
    // It may have had nothing but "." and "..".
    if (!listing->entries.empty() || listing->ends) co_return listing;
    if (listing->next.cookie == before) {
      co_return std::unexpected(client::Error{
          fmt::format("{}: the server never ends the listing", PathOf(*directory.inode)), std::nullopt, EPROTO});
    }
  }
}

Task<void> FileSystem::ReadDirectory(RequestPointer request, size_t size, uint64_t offset, fuse_file_info info,
                                     bool with_attributes) {
  auto& directory = *reinterpret_cast<OpenDirectory*>(info.fh);
  const Used::Use use(directory);
  const Inodes::Pin pin(inodes_, *directory.inode);
  std::vector<char> reply(size);
  size_t used = 0;
  std::vector<uint64_t> added;  // the references that the kernel gets
  if (offset == 0) directory.Rewind();
  // The kernel's offsets: 1 is behind ".", 2 behind "..", and 2 + n behind the n-th entry of the server.
  for (uint64_t at = offset;; ++at) {
    fuse_entry_param entry{};
    client::Entry found;
    std::string_view name;
    bool counts = false;
    if (at < 2) {
      name = at == 0 ? "." : "..";
      entry.attr.st_mode = S_IFDIR;
      entry.attr.st_ino = directory.inode->attributes.file_id;
    } else {
      const uint64_t index = at - 2;
      const bool here = index >= directory.first && index < directory.first + directory.page.size();
      if (!here) {
        const bool is_behind = index == directory.first + directory.page.size() && !directory.cookies.empty();
        if (is_behind && directory.ends && index > 0) break;
        // A reply is complete when the kernel has what the server has sent.
        if (used > 0 && at > 2) break;
        auto page = co_await ReadPage(directory, index, with_attributes);
        if (!page) {
          if (used > 0) break;  // the next request gets the error
          request->Fail(page.error());
          co_return;
        }
        directory.first = index;
        directory.page = std::move(page->entries);
        directory.ends = page->ends;
        directory.cookies.resize(index);
        directory.names.resize(index);
        for (const client::Entry& each : directory.page) {
          directory.cookies.push_back(each.cookie);
          directory.names.push_back(DigestOf(each));
        }
        if (directory.page.empty()) break;
      }
      found = directory.page[index - directory.first];
      name = found.name;
      // The page may be older than what programs have done since. The kernel looks up the names that it gets without an
      // inode.
      Inode* inode = nullptr;
      if (found.attributes && found.handle && with_attributes) {
        const client::Node node{.handle = *found.handle, .attributes = *found.attributes};
        inode = inodes_.AddListed(node, *directory.inode, found.name, directory.asked);
      }
      if (inode) {
        added.push_back(inode->number);
        counts = true;
        // A file that programs write has newer attributes than those that are known.
        const bool is_dirty =
            inode->written > directory.asked || (inode->writes && (!inode->opens.empty() || !inode->writes->clean()));
        entry = co_await EntryOf(*inode);
        if (is_dirty) entry.attr_timeout = 0;
      } else if (found.attributes) {
        Inode shown;
        shown.attributes = *found.attributes;
        entry.attr = co_await StatOf(shown);
      } else {
        entry.attr.st_ino = kUnknownNumber;
      }
    }
    const std::string text(name);
    const size_t room = size - used;
    const size_t length = with_attributes ? fuse_add_direntry_plus(nullptr, reply.data() + used, room, text.c_str(),
                                                                   &entry, static_cast<off_t>(at + 1))
                                          : fuse_add_direntry(nullptr, reply.data() + used, room, text.c_str(),
                                                              &entry.attr, static_cast<off_t>(at + 1));
    if (length > room) {
      if (counts) {
        inodes_.Forget(added.back(), 1);
        added.pop_back();
      }
      break;
    }
    used += length;
  }
  if (request->Octets(ConstBytes(reinterpret_cast<const std::byte*>(reply.data()), used))) co_return;
  for (const uint64_t number : added) inodes_.Forget(number, 1);
}

}  // namespace penstock::fuse
