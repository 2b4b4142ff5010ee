// The methods of memory::FileSystem that look up, create, rename and remove names.
#include <algorithm>

#include "fs/memory/change.h"
#include "fs/names.h"

namespace penstock::fs::memory {
namespace {

constexpr size_t kTargetMax = 4096;

// RFC 8275 §4: the default list of the directory replaces the umask.
uint32_t FirstMode(const Inode& directory, FileType type, const NewAttributes& asked) {
  if (type == FileType::kSymlink) return 0777;
  const uint32_t mode = asked.mode.value_or(type == FileType::kDirectory ? 0700 : 0600) & 07777;
  return mode & ~(directory.defaults.empty() ? asked.umask : 0777 & ~ModeOfAcl(directory.defaults));
}

void InheritAcls(const Inode& directory, Inode& made) {
  if (directory.defaults.empty() || made.attributes.type == FileType::kSymlink) return;
  Acl acl = Inherit(directory.defaults, made.attributes.mode);
  if (!IsMinimal(acl)) made.acl = std::move(acl);
  if (made.is_directory()) made.defaults = directory.defaults;
}

}  // namespace

Result<Inode*> FileSystem::Search(const Credentials& caller, Inode& directory, std::string_view name) {
  if (!directory.is_directory()) return std::unexpected(Error::kNotDir);
  PENSTOCK_CHECK(CheckName(name, kNameMax));
  if (!directory.RightsOf(caller).execute) return std::unexpected(Error::kAccess);
  if (name == ".") return &directory;
  if (name == "..") return &At(directory.parent);
  const auto place = directory.places.find(std::string(name));
  if (place == directory.places.end()) return nullptr;
  return &At(directory.entries.at(place->second).fileid);
}

Task<Observed<Node>> FileSystem::Lookup(const RequestContext& context, const Handle& directory, std::string_view name) {
  co_return Observe<Node>(directory, [&](Inode& inode) -> Result<Node> {
    PENSTOCK_TRY(Inode* const found, Search(context.credentials, inode, name));
    if (!found) return std::unexpected(Error::kNoEnt);
    return NodeOf(*found);
  });
}

Result<void> FileSystem::MayChangeEntries(const Credentials& caller, const Inode& directory) const {
  const Rights rights = directory.RightsOf(caller);
  if (!rights.write || !rights.execute) return std::unexpected(Error::kAccess);
  return {};
}

Result<void> FileSystem::MayTakeAway(const Credentials& caller, const Inode& directory, const Inode& entry) const {
  PENSTOCK_CHECK(MayChangeEntries(caller, directory));
  const bool sticky = (directory.attributes.mode & 01000) != 0;
  if (sticky && !IsOwner(directory.attributes, caller) && !IsOwner(entry.attributes, caller)) {
    return std::unexpected(Error::kPerm);
  }
  return {};
}

void FileSystem::Enter(Inode& directory, std::string_view name, Inode& inode) {
  const uint64_t place = directory.next_place++;
  directory.entries.emplace(place, Inode::Entry{std::string(name), inode.attributes.fileid});
  directory.places.emplace(name, place);
  if (inode.is_directory()) {
    inode.parent = directory.attributes.fileid;
    ++directory.attributes.nlink;
  }
  directory.attributes.size = directory.entries.size();
  Touch(directory, true);
}

void FileSystem::TakeOut(Inode& directory, std::string_view name) {
  const auto place = directory.places.find(std::string(name));
  const auto entry = directory.entries.find(place->second);
  if (At(entry->second.fileid).is_directory()) --directory.attributes.nlink;
  directory.entries.erase(entry);
  directory.places.erase(place);
  directory.attributes.size = directory.entries.size();
  Touch(directory, true);
}

void FileSystem::DropLink(Inode& inode) {
  inode.attributes.nlink = inode.is_directory() ? 0 : inode.attributes.nlink - 1;
  if (inode.attributes.nlink == 0 && inode.pins == 0) {
    Forget(inode);
  } else {
    Touch(inode, false);
  }
}

void FileSystem::Forget(Inode& inode) {
  used_ -= inode.content.used();
  inodes_.erase(inode.attributes.fileid);
}

// Pins only regular files, so that no directory exists without a name.
Task<Result<Pinned>> FileSystem::Pin(const RequestContext&, const Handle& file) {
  std::lock_guard lock(mutex_);
  const Result<Inode*> inode = Find(file);
  if (!inode) co_return std::unexpected(inode.error());
  PENSTOCK_CO_CHECK(CheckRegular((*inode)->attributes.type));
  ++(*inode)->pins;
  const uint64_t fileid = (*inode)->attributes.fileid;
  co_return Pinned(*inode, [this, fileid](const void*) { Unpin(fileid); });
}

void FileSystem::Unpin(uint64_t fileid) {
  std::lock_guard lock(mutex_);
  Inode& inode = At(fileid);
  if (--inode.pins == 0 && inode.attributes.nlink == 0) Forget(inode);
}

Result<Inode*> FileSystem::Make(const Credentials& caller, Inode& directory, std::string_view name, FileType type,
                                const NewAttributes& attributes) {
  PENSTOCK_CHECK(CheckOrdinaryName(name, kNameMax, kDotsWhenCreating));
  PENSTOCK_TRY(Inode* const existing, Search(caller, directory, name));
  if (existing) return std::unexpected(Error::kExist);
  PENSTOCK_CHECK(MayChangeEntries(caller, directory));

  auto inode = std::make_unique<Inode>();
  Attributes& made = inode->attributes;
  const bool inherits_group = (directory.attributes.mode & 02000) != 0;
  made.type = type;
  made.nlink = type == FileType::kDirectory ? 2 : 1;
  made.uid = caller.uid;
  made.gid = inherits_group ? directory.attributes.gid : caller.gid;
  made.fsid = options_.instance;
  made.fileid = next_fileid_;
  Touch(*inode, true);
  made.atime = made.ctime;
  made.born = made.ctime;
  NewAttributes values = attributes;
  values.mode = FirstMode(directory, type, attributes);
  made.mode = *values.mode;  // also for a symbolic link, whose mode cannot be set
  PENSTOCK_CHECK(Apply(caller, *inode, values));
  InheritAcls(directory, *inode);
  if (inherits_group && type == FileType::kDirectory) made.mode |= 02000;
  ++next_fileid_;
  Inode* const entered = inodes_.emplace(made.fileid, std::move(inode)).first->second.get();
  Enter(directory, name, *entered);
  return entered;
}

Task<Changed<Node>> FileSystem::Create(const RequestContext& context, const Handle& directory, std::string_view name,
                                       const CreateHow& how) {
  const Credentials& caller = context.credentials;
  co_return Change<Node>(directory, [&](Inode& inode) -> Result<Node> {
    const bool exclusive = how.mode == CreateMode::kExclusive;
    if (exclusive && SetsTimes(how.attributes)) return std::unexpected(Error::kInvalid);
    const Result<Inode*> made = Make(caller, inode, name, FileType::kRegular, how.attributes);
    if (made) {
      if (exclusive) (*made)->creator = how.verifier;
      return NodeOf(**made);
    }
    if (made.error() != Error::kExist || IsDots(name) || how.mode == CreateMode::kGuarded) {
      return std::unexpected(made.error());
    }
    PENSTOCK_TRY(Inode* const existing, Search(caller, inode, name));
    if (existing->attributes.type != FileType::kRegular) return std::unexpected(Error::kExist);
    if (exclusive) {
      if (existing->creator != how.verifier) return std::unexpected(Error::kExist);
    } else if (how.attributes.size == 0) {
      NewAttributes truncate;
      truncate.size = 0;
      PENSTOCK_CHECK(Apply(caller, *existing, truncate));
    }
    return Node{HandleOf(existing->attributes.fileid), existing->attributes, true};
  });
}

Task<Changed<Node>> FileSystem::MakeDirectory(const RequestContext& context, const Handle& directory,
                                              std::string_view name, const NewAttributes& attributes) {
  co_return Change<Node>(directory, [&](Inode& inode) -> Result<Node> {
    PENSTOCK_TRY(Inode* const made, Make(context.credentials, inode, name, FileType::kDirectory, attributes));
    return NodeOf(*made);
  });
}

Task<Changed<Node>> FileSystem::MakeSymlink(const RequestContext& context, const Handle& directory,
                                            std::string_view name, std::string_view target,
                                            const NewAttributes& attributes) {
  co_return Change<Node>(directory, [&](Inode& inode) -> Result<Node> {
    if (target.empty() || target.find('\0') != target.npos) return std::unexpected(Error::kInvalid);
    if (target.size() >= kTargetMax) return std::unexpected(Error::kNameTooLong);
    PENSTOCK_TRY(Inode* const made, Make(context.credentials, inode, name, FileType::kSymlink, attributes));
    made->target = target;
    made->attributes.size = target.size();
    return NodeOf(*made);
  });
}

Task<Changed<Node>> FileSystem::MakeNode(const RequestContext& context, const Handle& directory, std::string_view name,
                                         const NodeType& type, const NewAttributes& attributes) {
  co_return Change<Node>(directory, [&](Inode& inode) -> Result<Node> {
    const bool device = type.type == FileType::kBlock || type.type == FileType::kCharacter;
    if (!device && type.type != FileType::kFifo && type.type != FileType::kSocket) {
      return std::unexpected(Error::kBadType);
    }
    if (device && context.credentials.uid != 0) return std::unexpected(Error::kPerm);
    PENSTOCK_TRY(Inode* const made, Make(context.credentials, inode, name, type.type, attributes));
    if (device) made->attributes.rdev = type.device;
    return NodeOf(*made);
  });
}

Task<Changed<void>> FileSystem::Remove(const RequestContext& context, const Handle& directory, std::string_view name) {
  co_return Change<void>(directory, [&](Inode& inode) -> Result<void> {
    if (!inode.is_directory()) return std::unexpected(Error::kNotDir);
    PENSTOCK_CHECK(CheckOrdinaryName(name, kNameMax, kDotsWhenRemoving));
    PENSTOCK_TRY(Inode* const entry, Search(context.credentials, inode, name));
    if (!entry) return std::unexpected(Error::kNoEnt);
    PENSTOCK_CHECK(MayTakeAway(context.credentials, inode, *entry));
    if (entry->is_directory()) return std::unexpected(Error::kIsDir);
    TakeOut(inode, name);
    DropLink(*entry);
    return {};
  });
}

Task<Changed<void>> FileSystem::RemoveDirectory(const RequestContext& context, const Handle& directory,
                                                std::string_view name) {
  co_return Change<void>(directory, [&](Inode& inode) -> Result<void> {
    if (!inode.is_directory()) return std::unexpected(Error::kNotDir);
    PENSTOCK_CHECK(CheckOrdinaryName(name, kNameMax, DotsWhenRemovingDirectory(name)));
    PENSTOCK_TRY(Inode* const entry, Search(context.credentials, inode, name));
    if (!entry) return std::unexpected(Error::kNoEnt);
    PENSTOCK_CHECK(MayTakeAway(context.credentials, inode, *entry));
    if (!entry->is_directory()) return std::unexpected(Error::kNotDir);
    if (!entry->entries.empty()) return std::unexpected(Error::kNotEmpty);
    TakeOut(inode, name);
    DropLink(*entry);
    return {};
  });
}

bool FileSystem::IsBelow(const Inode& directory, const Inode& ancestor) {
  for (const Inode* at = &directory;; at = &At(at->parent)) {
    if (at == &ancestor) return true;
    if (at->attributes.fileid == kRootId) return false;
  }
}

Result<void> FileSystem::Move(const Credentials& caller, Inode& from, std::string_view from_name, Inode& to,
                              std::string_view to_name) {
  if (!from.is_directory() || !to.is_directory()) return std::unexpected(Error::kNotDir);
  PENSTOCK_CHECK(CheckOrdinaryName(from_name, kNameMax, kDotsWhenRenaming));
  PENSTOCK_CHECK(CheckOrdinaryName(to_name, kNameMax, kDotsWhenRenaming));
  PENSTOCK_TRY(Inode* const moved, Search(caller, from, from_name));
  PENSTOCK_TRY(Inode* const replaced, Search(caller, to, to_name));
  if (!moved) return std::unexpected(Error::kNoEnt);
  PENSTOCK_CHECK(MayTakeAway(caller, from, *moved));
  PENSTOCK_CHECK(MayChangeEntries(caller, to));
  if (moved == replaced) return {};  // RFC 1813 §3.3.14: two links of the same file: nothing changes
  if (moved->is_directory() && IsBelow(to, *moved)) return std::unexpected(Error::kInvalid);
  if (replaced) {
    PENSTOCK_CHECK(MayTakeAway(caller, to, *replaced));
    // RFC 1813 §3.3.14: the target has another type, or is a directory with entries.
    if (replaced->is_directory() != moved->is_directory() || !replaced->entries.empty()) {
      return std::unexpected(Error::kExist);
    }
    TakeOut(to, to_name);
    DropLink(*replaced);
  }
  TakeOut(from, from_name);
  Enter(to, to_name, *moved);
  Touch(*moved, false);
  return {};
}

Task<Renamed> FileSystem::Rename(const RequestContext& context, const Handle& from_directory,
                                 std::string_view from_name, const Handle& to_directory, std::string_view to_name) {
  std::lock_guard lock(mutex_);
  const Result<Inode*> from = Find(from_directory);
  const Result<Inode*> to = Find(to_directory);
  Renamed renamed;
  if (from) renamed.from.before = BeforeOf((*from)->attributes);
  if (to) renamed.to.before = BeforeOf((*to)->attributes);
  if (!from || !to) {
    renamed.result = std::unexpected(from ? to.error() : from.error());
  } else {
    renamed.result = Move(context.credentials, **from, from_name, **to, to_name);
  }
  if (from) renamed.from.after = (*from)->attributes;
  if (to) renamed.to.after = (*to)->attributes;
  co_return renamed;
}

Task<Linked> FileSystem::Link(const RequestContext& context, const Handle& file, const Handle& directory,
                              std::string_view name) {
  std::lock_guard lock(mutex_);
  const Result<Inode*> inode = Find(file);
  const Result<Inode*> to = Find(directory);
  Linked linked;
  if (to) linked.directory.before = BeforeOf((*to)->attributes);
  const auto link = [&]() -> Result<void> {
    if (!inode) return std::unexpected(inode.error());
    if (!to) return std::unexpected(to.error());
    PENSTOCK_CHECK(CheckOrdinaryName(name, kNameMax, kDotsWhenCreating));
    if ((*inode)->is_directory()) return std::unexpected(Error::kIsDir);
    // a pinned file without a name cannot get one again
    if ((*inode)->attributes.nlink == 0) return std::unexpected(Error::kStale);
    PENSTOCK_TRY(Inode* const existing, Search(context.credentials, **to, name));
    if (existing) return std::unexpected(Error::kExist);
    PENSTOCK_CHECK(MayChangeEntries(context.credentials, **to));
    if ((*inode)->attributes.nlink == properties_.link_max) return std::unexpected(Error::kTooManyLinks);
    ++(*inode)->attributes.nlink;
    Touch(**inode, false);
    Enter(**to, name, **inode);
    return {};
  };
  linked.result = link();
  if (inode) linked.file = (*inode)->attributes;
  if (to) linked.directory.after = (*to)->attributes;
  co_return linked;
}

Task<Observed<ReadDirectoryReply>> FileSystem::ReadDirectory(const RequestContext& context, const Handle& directory,
                                                             const ReadDirectoryArguments& arguments, EntrySink& sink) {
  co_return Observe<ReadDirectoryReply>(directory, [&](Inode& inode) -> Result<ReadDirectoryReply> {
    if (!inode.is_directory()) return std::unexpected(Error::kNotDir);
    const Rights rights = inode.RightsOf(context.credentials);
    if (!rights.read) return std::unexpected(Error::kAccess);
    const uint64_t after = arguments.cookie.value();
    if (after >= inode.next_place) return std::unexpected(Error::kBadCookie);

    const auto add = [&](uint64_t place, std::string_view name, const Inode& entry) {
      DirectoryEntry given{entry.attributes.fileid, name, Cookie(place)};
      if (arguments.with_nodes && rights.execute) {
        given.attributes = entry.attributes;
        given.handle = HandleOf(entry.attributes.fileid);
      } else if (arguments.with_nodes) {
        given.error = Error::kAccess;
      }
      return sink.Add(given);
    };
    // Cookies keep their meaning, so the verifier is not checked.
    if (after < 1 && !add(1, ".", inode)) return ReadDirectoryReply{};
    if (after < 2 && !add(2, "..", At(inode.parent))) return ReadDirectoryReply{};
    for (auto at = inode.entries.upper_bound(after); at != inode.entries.end(); ++at) {
      if (!add(at->first, at->second.name, At(at->second.fileid))) return ReadDirectoryReply{};
    }
    return ReadDirectoryReply{CookieVerifier(), true};
  });
}

}  // namespace penstock::fs::memory
