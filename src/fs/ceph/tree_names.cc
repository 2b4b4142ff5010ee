// The methods of Tree that look up, rename, remove and list names. (Those that create objects are in tree_create.cc.)
#include <cerrno>
#include <string>

#include "fs/ceph/tree.h"
#include "fs/names.h"

namespace penstock::fs::ceph {
namespace {

// A directory that is being listed.
class Listing {
 public:
  Listing(Client& client, OpenDirectory* directory) : client_(client), directory_(directory) {}
  Listing(const Listing&) = delete;
  Listing& operator=(const Listing&) = delete;
  ~Listing() { client_.CloseDir(directory_); }
  void Seek(int64_t position) { client_.Seek(directory_, position); }
  int Next(bool with_inode, Entry& entry) { return client_.Next(directory_, with_inode, entry); }

 private:
  Client& client_;
  OpenDirectory* const directory_;
};

// libcephfs tells positions of this form: { 0: 4, 0xff: 8, the hash of the name: 24, a number among equal hashes: 28 },
// and 1 and 2 for those after "." and "..". A client can send any other.
bool IsPosition(uint64_t cookie) { return cookie <= 2 || cookie >> 52 == 0xff; }

}  // namespace

Result<void> Tree::CheckPlace(const Reached& directory, std::string_view name) const {
  if (covers_.HasPlace(directory.object->number(), name)) return std::unexpected(Error::kCovered);
  return {};
}

Result<Node> Tree::NodeOf(const Call& call, Inode* inode, const Stat& stat) const {
  Enter(call, inode, stat);
  return Node{handles_.Of(stat.number), stat.attributes};
}

Result<Node> Tree::FindEntry(const Call& call, const Credentials& caller, const Reached& directory,
                             const std::string& name) const {
  PENSTOCK_CHECK(CheckPlace(directory, name));
  Inode* inode = nullptr;
  Stat stat;
  const int code = call.client().Lookup(caller, directory.object->inode(), name, inode, stat);
  if (code < 0) return Failed(call, code);
  if (covers_.Has(stat.number)) {
    call.client().Put(inode);
    return std::unexpected(Error::kCovered);
  }
  return NodeOf(call, inode, stat);
}

Result<Node> Tree::FindParent(const Call& call, const Credentials& caller, const Reached& directory) const {
  if (directory.object->number() == root_) return Node{Root(), directory.attributes};
  Inode* inode = nullptr;
  Stat stat;
  const int code = LookUpParent(call, caller, directory.object->inode(), directory.object->number(), inode, stat);
  if (code < 0) return Failed(call, code);
  if (const auto served = CheckServed(call, inode, stat.number); !served) {
    call.client().Put(inode);
    return std::unexpected(served.error());
  }
  return NodeOf(call, inode, stat);
}

Observed<Node> Tree::Lookup(const Credentials& caller, const Handle& handle, std::string_view name) {
  return Observe<Node>(handle, [&](const Call& call, const Reached& directory) -> Result<Node> {
    if (!directory.object->is_directory()) return std::unexpected(Error::kNotDir);
    PENSTOCK_CHECK(CheckName(name, kNameMax));
    if (IsDots(name)) {
      PENSTOCK_TRY(const Rights rights, RightsTo(call, directory, caller));
      if (!rights.execute) return std::unexpected(Error::kAccess);
    }
    if (name == ".") return Node{handle, directory.attributes};
    if (name == "..") return FindParent(call, caller, directory);
    return FindEntry(call, caller, directory, std::string(name));
  });
}

Result<std::optional<InodeNumber>> Tree::NumberOfEntry(const Call& call, const Reached& directory,
                                                       const std::string& name) const {
  PENSTOCK_CHECK(CheckPlace(directory, name));
  Inode* inode = nullptr;
  Stat stat;
  const int code = call.client().Lookup(kAsRoot, directory.object->inode(), name, inode, stat);
  if (code == -ENOENT) return std::nullopt;
  if (code < 0) return Failed(call, code);
  call.client().Put(inode);
  if (covers_.Has(stat.number)) return std::unexpected(Error::kCovered);
  return stat.number;
}

// As long as this client refers to the object, the MDS does not free its space.
void Tree::ForgetIfNameless(const Call& call, const std::optional<InodeNumber>& number) const {
  if (!number || mount_->is_pinned(*number)) return;
  const ObjectRef object = call.session->objects.Find(*number);
  if (!object) return;
  const std::optional<Attributes> attributes = After(call, object);
  if (attributes && attributes->nlink == 0) call.session->objects.Erase(*number);
}

Changed<void> Tree::TakeAway(const Credentials& caller, const Handle& handle, std::string_view name, Error dots,
                             int (Client::*remove)(const Credentials&, Inode*, const std::string&)) {
  return ChangeEntry<void>(
      handle, name, dots, [&](const Call& call, const Reached& directory, const std::string& entry) -> Result<void> {
        PENSTOCK_TRY(const std::optional<InodeNumber> number, NumberOfEntry(call, directory, entry));
        PENSTOCK_CHECK(ResultOf(call, (call.client().*remove)(caller, directory.object->inode(), entry)));
        ForgetIfNameless(call, number);
        return {};
      });
}

Changed<void> Tree::Remove(const Credentials& caller, const Handle& handle, std::string_view name) {
  return TakeAway(caller, handle, name, kDotsWhenRemoving, &Client::Unlink);
}

Changed<void> Tree::RemoveDirectory(const Credentials& caller, const Handle& handle, std::string_view name) {
  return TakeAway(caller, handle, name, DotsWhenRemovingDirectory(name), &Client::RemoveDirectory);
}

Renamed Tree::Rename(const Credentials& caller, const Handle& from_handle, std::string_view from_name,
                     const Handle& to_handle, std::string_view to_name) {
  Renamed renamed{std::unexpected(Error::kServerFault), {}, {}};
  const Result<Call> call = Begin();
  if (!call) return {std::unexpected(call.error()), {}, {}};
  const Result<Reached> from = Reach(*call, from_handle), to = Reach(*call, to_handle);
  if (from) renamed.from = {BeforeOf(from->attributes), from->attributes};
  if (to) renamed.to = {BeforeOf(to->attributes), to->attributes};
  const auto rename = [&]() -> Result<void> {
    if (!from) return std::unexpected(from.error());
    if (!to) return std::unexpected(to.error());
    if (!from->object->is_directory() || !to->object->is_directory()) return std::unexpected(Error::kNotDir);
    PENSTOCK_CHECK(CheckOrdinaryName(from_name, kNameMax, kDotsWhenRenaming));
    PENSTOCK_CHECK(CheckOrdinaryName(to_name, kNameMax, kDotsWhenRenaming));
    if (!from->object->is_live() || !to->object->is_live()) return std::unexpected(Error::kReadOnly);
    const std::string old_entry(from_name), new_entry(to_name);
    if (!covers_.empty()) {
      PENSTOCK_TRY(const std::optional<InodeNumber> moved, NumberOfEntry(*call, *from, old_entry));
      if (moved && covers_.IsAbove(*moved)) return std::unexpected(Error::kCovered);
    }
    PENSTOCK_TRY(const std::optional<InodeNumber> replaced, NumberOfEntry(*call, *to, new_entry));
    const int code = call->client().Rename(caller, from->object->inode(), old_entry, to->object->inode(), new_entry);
    // RFC 1813 §3.3.14: the target is not compatible with the source.
    if (code == -EISDIR || code == -ENOTDIR || code == -ENOTEMPTY) return std::unexpected(Error::kExist);
    PENSTOCK_CHECK(ResultOf(*call, code));
    ForgetIfNameless(*call, replaced);
    PENSTOCK_CHECK(SyncMetadata(*call, from->object));
    if (from_handle == to_handle) return {};
    return SyncMetadata(*call, to->object);
  };
  renamed.result = rename();
  // The reply tells the attributes of one of the directories only.
  if (from) renamed.from.after = After(*call, from->object, Client::Freshness::kCurrent);
  if (to) renamed.to.after = After(*call, to->object, Client::Freshness::kCurrent);
  // The MDS may tell the change of the directory that the name was taken from later. It has changed all the same.
  WeakCacheData& left = renamed.from;
  if (renamed.result && left.after && left.after->change == left.before->change) ++left.after->change;
  return renamed;
}

Linked Tree::Link(const Credentials& caller, const Handle& file, const Handle& directory, std::string_view name) {
  Linked linked{std::unexpected(Error::kServerFault), {}, {}};
  const Result<Call> call = Begin();
  if (!call) return {std::unexpected(call.error()), {}, {}};
  const Result<Reached> object = Reach(*call, file), parent = Reach(*call, directory);
  if (parent) linked.directory = {BeforeOf(parent->attributes), parent->attributes};
  const auto link = [&]() -> Result<void> {
    if (!object) return std::unexpected(object.error());
    if (!parent) return std::unexpected(parent.error());
    if (!parent->object->is_directory()) return std::unexpected(Error::kNotDir);
    PENSTOCK_CHECK(CheckOrdinaryName(name, kNameMax, kDotsWhenCreating));
    PENSTOCK_CHECK(CheckPlace(*parent, name));
    if (object->object->is_directory()) return std::unexpected(Error::kIsDir);
    // A pinned file without a name.
    if (object->attributes.nlink == 0) return std::unexpected(Error::kStale);
    const int code = call->client().Link(caller, object->object->inode(), parent->object->inode(), std::string(name));
    PENSTOCK_CHECK(ResultOf(*call, code));
    return SyncMetadata(*call, parent->object);
  };
  linked.result = link();
  if (object) linked.file = After(*call, object->object, Client::Freshness::kCurrent);
  if (parent) linked.directory.after = After(*call, parent->object);
  return linked;
}

Observed<ReadDirectoryReply> Tree::ReadDirectory(const Credentials& caller, const Handle& handle,
                                                 const ReadDirectoryArguments& arguments, EntrySink& sink) {
  const auto list = [&](const Call& call, const Reached& directory) -> Result<ReadDirectoryReply> {
    if (!directory.object->is_directory()) return std::unexpected(Error::kNotDir);
    if (!IsPosition(arguments.cookie.value())) return std::unexpected(Error::kBadCookie);
    PENSTOCK_TRY(const Rights rights, RightsTo(call, directory, caller));
    Client& client = call.client();
    OpenDirectory* opened = nullptr;
    if (const int code = client.OpenDir(caller, directory.object->inode(), opened); code < 0) {
      return Failed(call, code);
    }
    Listing listing(client, opened);
    if (arguments.cookie.value() != 0) listing.Seek(static_cast<int64_t>(arguments.cookie.value()));
    const bool with_nodes = arguments.with_nodes && rights.execute;
    ReadDirectoryReply reply;
    for (;;) {
      Entry entry;
      const int code = listing.Next(with_nodes, entry);
      if (code < 0) return Failed(call, code);
      if (code == 0) {
        reply.eof = true;
        return reply;
      }
      if (entry.inode) client.Put(entry.inode);
      DirectoryEntry given{.fileid = entry.stat.attributes.fileid,
                           .name = entry.name,
                           .cookie = Cookie(static_cast<uint64_t>(entry.position))};
      const bool is_covered =
          covers_.Has(entry.stat.number) || covers_.HasPlace(directory.object->number(), entry.name);
      if (with_nodes && !is_covered) {
        given.attributes = entry.stat.attributes;
        given.handle = handles_.Of(entry.stat.number);
      } else if (arguments.with_nodes) {
        given.error = Error::kAccess;
      }
      if (entry.name == "..") {
        // What is above the root is not exported.
        const Result<Node> parent = FindParent(call, kAsRoot, directory);
        if (!parent && parent.error() == Error::kStale) continue;
        if (!parent) return std::unexpected(parent.error());
        given.fileid = parent->attributes.fileid;
        if (with_nodes) given.attributes = parent->attributes, given.handle = parent->handle;
      }
      if (!sink.Add(given)) return reply;
    }
  };
  return Observe<ReadDirectoryReply>(handle, list);
}

}  // namespace penstock::fs::ceph
