#include "client/nfs4/tree.h"

#include <fmt/core.h>

#include <algorithm>
#include <cerrno>
#include <set>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/mix.h"
#include "base/pauses.h"
#include "base/under_way.h"
#include "client/nfs4/mount.h"
#include "client/nfs4/tree_file.h"
#include "client/nfs4/tree_parts.h"
#include "client/nfs4/tree_servers.h"
#include "client/retries.h"
#include "client/set_up.h"
#include "nfs_protocol/path_limit.h"

namespace penstock::client::v4 {
namespace {

using NodeAtServer = TreeServers::NodeAtServer;

// Before a call is repeated at a server that has said that the object is elsewhere, and is found there.
constexpr Duration kPauseAfterContradiction = std::chrono::milliseconds(100);
// How long an object in use waits for the end of referrals that lead to one another.
constexpr Duration kCirclePatience = std::chrono::minutes(1);
// How long an unmount waits for servers at which files that nobody uses are just being opened.
constexpr Duration kUnmountPatience = std::chrono::seconds(5);

// A tree of several servers, for one user. Handles of different servers may have the same octets, so each handle that
// this class gives to its users has a number in Handle::part. The servers' mounts get the handles without it.
//
// A referral is an absent file system that the user meets by a name, and a migration one that he meets by a handle. The
// object of that handle is looked up again by its path (see KnownNames), which leads to the referral that the file
// system has become.
class Tree final : public client::Mount, public FileTree {
 public:
  // `url` names the server of `home`. Unless it names one flavor, objects for which the server does not accept the
  // flavor of `home` are reached by another one.
  Tree(Loop& loop, Workers& workers, const Url& url, const Dialect& dialect, const MountOptions& options,
       std::unique_ptr<ServerMount> home)
      : client::Mount(loop, url), servers_(loop, workers, url_, dialect, options, std::move(home)) {
    root_ = servers_.home().root();
    path_ = servers_.home().path();
    sizes_ = servers_.home().sizes();
    servers_of_parts_.push_back(&servers_.home());
    const auto* const other = dynamic_cast<const Tree*>(options.shares_handles_with);
    parts_ = other ? other->parts_ : std::make_shared<TreeParts>();
    servers_.set_follow([this](const ServerMount& server, uint64_t file_system) { HandleMoved(server, file_system); });
  }

  Task<void> Unmount() override {
    unmounting_.Cancel();
    const auto patience = loop_.MakeTimer([this] { Abort(); });
    if (following_.count() > 0) patience->ExpireAfter(kUnmountPatience);
    co_await following_.Ended();
    patience->Cancel();
    co_await servers_.Unmount();
  }
  void Abort() override { servers_.ending().Cancel(); }

  std::string_view version() const override { return servers_.home().version(); }
  Protocol transport() const override { return servers_.home().transport(); }
  uint64_t reconnections() const override { return servers_.reconnections(); }
  SetupError trouble() const override { return servers_.home().trouble(); }
  Task<Result<void>> Ping() override { return servers_.home().Ping(); }
  void set_names(const KnownNames* names) override { parts_->set_names(names); }

  Task<Result<Node>> Lookup(const Handle& directory, std::string_view name) override {
    const KnownNames* const names = parts_->names();
    return LookUp(directory, name, names && names->ObjectAt(directory, name));
  }
  Task<Result<Attributes>> GetAttributes(const Handle& object, std::string_view what) override {
    return At(object, [what](ServerMount& server, const Handle& bare) { return server.GetAttributes(bare, what); });
  }
  Task<Result<std::string>> ReadLink(const Handle& symlink, std::string_view what) override {
    return At(symlink, [what](ServerMount& server, const Handle& bare) { return server.ReadLink(bare, what); });
  }
  Task<Result<Space>> GetSpace(const Handle& object, std::string_view what) override {
    return At(object, [what](ServerMount& server, const Handle& bare) { return server.GetSpace(bare, what); });
  }
  Task<Result<std::unique_ptr<client::File>>> OpenFile(const Node& file, std::string_view what, Access access) override;
  Task<Result<std::unique_ptr<client::File>>> CreateFile(const Handle& directory, std::string_view name, uint32_t mode,
                                                         CreateMode how, Access access) override {
    return At(directory, [=](ServerMount& server, const Handle& bare) {
      return server.CreateFile(bare, name, mode, how, access);
    });
  }
  Task<Result<void>> SetAttributes(const Handle& object, std::string_view what,
                                   const NewAttributes& attributes) override {
    return At(object, [what, &attributes](ServerMount& server, const Handle& bare) {
      return server.SetAttributes(bare, what, attributes);
    });
  }
  Task<Result<Node>> MakeDirectory(const Handle& directory, std::string_view name, uint32_t mode) override {
    return At(directory,
              [name, mode](ServerMount& server, const Handle& bare) { return server.MakeDirectory(bare, name, mode); });
  }
  Task<Result<Node>> MakeSymlink(const Handle& directory, std::string_view name, std::string_view target) override {
    return At(directory, [name, target](ServerMount& server, const Handle& bare) {
      return server.MakeSymlink(bare, name, target);
    });
  }
  Task<Result<void>> Link(const Handle& file, const Handle& directory, std::string_view name) override {
    return AtBoth(file, directory, name, [name](ServerMount& server, const Handle& from, const Handle& to) {
      return server.Link(from, to, name);
    });
  }
  Task<Result<void>> Rename(const Handle& from_directory, std::string_view from, const Handle& to_directory,
                            std::string_view to) override {
    return AtBoth(from_directory, to_directory, from,
                  [from, to](ServerMount& server, const Handle& from_bare, const Handle& to_bare) {
                    return server.Rename(from_bare, from, to_bare, to);
                  });
  }
  Task<Result<void>> Remove(const Handle& directory, std::string_view name) override {
    return At(directory, [name](ServerMount& server, const Handle& bare) { return server.Remove(bare, name); });
  }
  Task<Result<void>> RemoveDirectory(const Handle& directory, std::string_view name) override {
    return At(directory,
              [name](ServerMount& server, const Handle& bare) { return server.RemoveDirectory(bare, name); });
  }
  Task<Result<Node>> MakeNode(const Handle& directory, std::string_view name, FileType type, uint32_t mode,
                              uint32_t device_major, uint32_t device_minor) override {
    return At(directory, [=](ServerMount& server, const Handle& bare) {
      return server.MakeNode(bare, name, type, mode, device_major, device_minor);
    });
  }
  Task<Result<Listing>> ListFrom(const Handle& directory, std::string_view what, ListPosition from,
                                 ListContent content) override {
    return ListPart(directory, what, from, content);
  }
  Task<Result<Granted>> CheckAccess(const Handle& object, std::string_view what, uint32_t rights) override {
    return At(object, [=](ServerMount& server, const Handle& bare) { return server.CheckAccess(bare, what, rights); });
  }
  Task<Result<std::vector<std::byte>>> GetXattr(const Handle& object, std::string_view what,
                                                std::string_view name) override {
    return At(object, [=](ServerMount& server, const Handle& bare) { return server.GetXattr(bare, what, name); });
  }
  Task<Result<void>> SetXattr(const Handle& object, std::string_view what, std::string_view name, ConstBytes value,
                              XattrMode mode) override {
    return At(object,
              [=](ServerMount& server, const Handle& bare) { return server.SetXattr(bare, what, name, value, mode); });
  }
  Task<Result<std::vector<std::string>>> ListXattrs(const Handle& object, std::string_view what) override {
    return At(object, [=](ServerMount& server, const Handle& bare) { return server.ListXattrs(bare, what); });
  }
  Task<Result<void>> RemoveXattr(const Handle& object, std::string_view what, std::string_view name) override {
    return At(object, [=](ServerMount& server, const Handle& bare) { return server.RemoveXattr(bare, what, name); });
  }
  Task<Result<std::vector<Ace>>> GetAcl(const Handle& object, std::string_view what) override {
    return At(object, [=](ServerMount& server, const Handle& bare) { return server.GetAcl(bare, what); });
  }
  Task<Result<void>> SetAcl(const Handle& object, std::string_view what, const std::vector<Ace>& acl) override {
    return At(object, [what, &acl](ServerMount& server, const Handle& bare) { return server.SetAcl(bare, what, acl); });
  }

 private:
  // Returns the mount of a part's server, or null if this tree has not mounted it.
  ServerMount* Mounted(uint32_t part) const {
    return part < servers_of_parts_.size() ? servers_of_parts_[part] : nullptr;
  }
  // Mounts it if necessary: another user's mount may have found the part.
  Task<Result<ServerMount*>> ServerOf(uint32_t part);
  void HandlePart(uint32_t part, ServerMount& server);
  // Calls the mount of the server that an object is at. If the object moves, finds it again, and calls the mount of the
  // other server. `place` gets the object's place.
  template <class Call>
  auto Follow(Handle known, Handle& place, Call call) -> std::invoke_result_t<Call&, ServerMount&, const Handle&>;
  // The same, and turns the result into what the users of the tree know.
  template <class Call>
  auto At(Handle known, Call call) -> std::invoke_result_t<Call&, ServerMount&, const Handle&>;
  template <class Call>
  Task<Result<void>> AtBoth(Handle first, Handle second, std::string_view name, Call call);
  // Turns what the server of `part` has returned for an object or directory, `known`, into what the users know.
  template <class T>
  Result<T> Outward(Result<T> result, const Handle& known, uint32_t part);
  Error Outward(Error error, uint32_t part) const;
  Node Outward(Node node, const Handle& directory, uint32_t part);

  Task<Result<Listing>> ListPart(Handle known, std::string_view what, ListPosition from, ListContent content);
  // The same as Lookup(). `is_in_use`: the name leads to an object that the users know, or on the way to one.
  Task<Result<Node>> LookUp(Handle directory, std::string_view name, bool is_in_use);
  // Finds an object again whose server has answered at `place` that it has moved. Succeeds if it is elsewhere now.
  Task<Result<void>> Relocate(Handle known, Handle place);
  Task<Result<Node>> FindAgain(const Handle& known, const Handle& place, std::optional<KnownNames::Place> at);
  // The handle by which the users know the object at `place`, to which `name` in `directory` leads: perhaps that of
  // before it moved.
  Handle Known(const Handle& place, const Handle& directory, std::string_view name, FileType type);
  // The path of an object on the server of the URL, as far as its names are known.
  std::string PathOf(const Handle& known) const;
  // The object is at `place` now. The first one of a file system is logged.
  void Move(const Handle& known, const Handle& place);
  // A server has an object at `place`. It may have moved from there before, have come back, and have been forgotten
  // meanwhile.
  void HandleBack(const Handle& place);
  // The file system of this server has moved, and no call has found out so.
  void HandleMoved(const ServerMount& server, uint64_t file_system);
  using Files = std::vector<std::pair<std::weak_ptr<MovingFile>, std::weak_ptr<const FileAtServer>>>;
  // Lets these files follow, which are still at these places.
  static Task<void> FollowAll(Files files);
  // The users are about to meet a file with several names at `place`. If it is one that they have open, lets it move
  // there first, so that they do not take it for another one.
  Task<void> FollowLinks(Handle place, Attributes attributes);
  // FileTree
  void Add(MovingFile& file) override { parts_->files().insert(&file); }
  void Remove(MovingFile& file) override { parts_->files().erase(&file); }
  void HandleReopened(const FileAtServer& before, const FileAtServer& after) override {
    before.server->HandleReopened(*before.file, *after.file);
  }
  void BeginFollowing() override { following_.Begin(); }
  void EndFollowing() override { following_.End(); }
  Task<Result<FileAtServer>> Reopen(Node known, FileAtServer before) override;
  Task<Node> Bare(Node known, Handle place) override;
  // Gives the file systems of other servers other numbers. A second call gives the server's number back.
  Attributes Distinct(Attributes attributes, const ServerMount& server) const override;

  // Reaches `name` in `directory`, which the users know by this handle and which is at `place`. The lookup failed for
  // `why`: it is a referral, or needs another flavor. If it is an object in use, waits for its new server.
  Task<Result<Node>> Cross(Handle directory, Handle place, std::string_view name, const Error& why, bool is_in_use);
  // Makes a part of the tree of a file system that has been reached from `above`. `before`: the handle by which the
  // users know its root, if they do. `is_in_use`: it has moved here.
  Task<Node> Entered(Handle above, NodeAtServer reached, std::optional<Handle> before, bool is_in_use);
  // Calls `go(followed)`, which reaches an object at another server. If the object is in use, waits until one of its
  // locations can be used, as long as a call waits for a reply.
  template <class Go>
  Task<Result<NodeAtServer>> Persist(Go go, std::string_view what, bool is_in_use);
  // Does what is due before this client opens files in a part.
  bool NeedsEntry(uint32_t part) const { return parts_->HasMovedHere(part) && !entered_.contains(part); }
  Task<void> Enter(uint32_t part, ServerMount& server);
  uint32_t PartOf(const Handle& above, const NodeAtServer& root);

  TreeServers servers_;
  std::shared_ptr<TreeParts> parts_;
  std::vector<ServerMount*> servers_of_parts_;  // by the number of the part; null: not mounted
  std::set<uint32_t> entered_;                  // the parts that file systems have moved to; see Enter()
  size_t waiting_ = 0;                          // lookups that wait for a server
  UnderWay following_;                          // in the background
  Cancellation unmounting_;                     // ends the waits for a server
  const Cancellation::Entry ending_{&servers_.ending(), [this] { unmounting_.Cancel(); }};
};

// ---- calls ----

Attributes Tree::Distinct(Attributes attributes, const ServerMount& server) const {
  const Url& url = server.url();
  if (url.host == url_.host && url.port == url_.port) return attributes;
  attributes.file_system ^= Mix(Mix(url.port, AsBytes(url.host)), url.host.size());
  return attributes;
}

Error Tree::Outward(Error error, uint32_t part) const {
  return part == 0 ? error : WithTrouble(std::move(error), servers_of_parts_[part]->trouble());
}

Node Tree::Outward(Node node, const Handle& directory, uint32_t part) {
  node.handle.part = part;
  node.handle = Known(node.handle, directory, node.name, node.attributes.type);
  node.directory = directory;
  node.attributes = Distinct(std::move(node.attributes), *servers_of_parts_[part]);
  return node;
}

template <class T>
Result<T> Tree::Outward(Result<T> result, const Handle& known, uint32_t part) {
  if (!result) return std::unexpected(Outward(std::move(result).error(), part));
  ServerMount& server = *servers_of_parts_[part];
  if constexpr (std::same_as<T, Node>) {
    return Outward(*std::move(result), known, part);
  } else if constexpr (std::same_as<T, Attributes>) {
    return Distinct(*std::move(result), server);
  } else if constexpr (std::same_as<T, Listing>) {
    for (Entry& entry : result->entries) {
      if (entry.handle) {
        entry.handle->part = part;
        if (entry.attributes) entry.handle = Known(*entry.handle, known, entry.name, entry.attributes->type);
      }
      if (entry.attributes) entry.attributes = Distinct(*std::move(entry.attributes), server);
    }
    result->next.part = part;
    return result;
  } else if constexpr (std::same_as<T, std::unique_ptr<client::File>>) {
    Handle place = (*result)->node().handle;
    place.part = part;
    Node node = Outward((*result)->node(), known, part);
    return std::make_unique<TreeFile>(*this, FileAtServer{*std::move(result), place, &server}, std::move(node));
  } else {
    return result;
  }
}

Task<Result<ServerMount*>> Tree::ServerOf(uint32_t part) {
  if (ServerMount* const mounted = Mounted(part)) {
    // Another user may have found out that a file system has moved here.
    co_await Enter(part, *mounted);
    co_return mounted;
  }
  const TreePart& found = parts_->at(part);
  const Entrance* const entrance = found.entrance ? &*found.entrance : nullptr;
  // Another user may have found it.
  Url url = found.url;
  url.uid = url_.uid;
  url.gid = url_.gid;
  url.groups = url_.groups;
  const auto go = [&](unsigned&) -> Task<Result<NodeAtServer>> {
    PENSTOCK_CO_TRY(ServerMount* const mounted, co_await servers_.MountOf(url, true, entrance));
    co_return NodeAtServer{.server = mounted, .node = {}};
  };
  PENSTOCK_CO_TRY(const NodeAtServer reached, co_await Persist(go, url.host, true));
  HandlePart(part, *reached.server);
  co_await Enter(part, *reached.server);
  co_return reached.server;
}

void Tree::HandlePart(uint32_t part, ServerMount& server) {
  if (servers_of_parts_.size() <= part) servers_of_parts_.resize(part + 1);
  servers_of_parts_[part] = &server;
}

Task<void> Tree::Enter(uint32_t part, ServerMount& server) {
  if (!NeedsEntry(part)) co_return;
  entered_.insert(part);
  co_await server.CompleteReclaim(parts_->at(part).root);
}

template <class Call>
auto Tree::Follow(Handle known, Handle& place, Call call) -> std::invoke_result_t<Call&, ServerMount&, const Handle&> {
  for (unsigned moves = 0;; ++moves) {
    place = parts_->PlaceOf(known);
    Handle bare = place;
    const uint32_t part = std::exchange(bare.part, 0);
    ServerMount* server = NeedsEntry(part) ? nullptr : Mounted(part);
    if (!server) {
      PENSTOCK_CO_TRY(server, co_await ServerOf(part));
    }
    auto result = co_await call(*server, bare);
    if (result || result.error().status != Status::kMoved || moves == kMostMoves) co_return result;
    Result<void> relocated = co_await Relocate(known, place);
    if (relocated) continue;
    if (relocated.error().status == Status::kMoved) co_return result;
    co_return std::unexpected(std::move(relocated).error());
  }
}

template <class Call>
auto Tree::At(Handle known, Call call) -> std::invoke_result_t<Call&, ServerMount&, const Handle&> {
  Handle place;
  auto result = co_await Follow(known, place, std::move(call));
  if (!Mounted(place.part)) co_return result;
  co_return Outward(std::move(result), known, place.part);
}

template <class Call>
Task<Result<void>> Tree::AtBoth(Handle first, Handle second, std::string_view name, Call call) {
  for (unsigned moves = 0;; ++moves) {
    const Handle first_place = parts_->PlaceOf(first);
    const Handle second_place = parts_->PlaceOf(second);
    Handle from = first_place;
    Handle to = second_place;
    const uint32_t part = std::exchange(from.part, 0);
    PENSTOCK_CO_TRY(ServerMount* const server, co_await ServerOf(part));
    PENSTOCK_CO_TRY(const ServerMount* const other, co_await ServerOf(std::exchange(to.part, 0)));
    Result<void> result;
    if (other == server) {
      result = co_await call(*server, from, to);
    } else {
      result = std::unexpected(client::ErrorOf(Status::kCrossDevice, name));
      if (!parts_->has_moves()) co_return result;
      // One of them may have moved, and the tree does not know it yet.
      PENSTOCK_CO_CHECK(co_await GetAttributes(first, name));
      PENSTOCK_CO_CHECK(co_await GetAttributes(second, name));
    }
    if (other == server && (result || result.error().status != Status::kMoved)) {
      co_return Outward(std::move(result), first, part);
    }
    if (other == server) {
      (void)co_await Relocate(first, first_place);
      (void)co_await Relocate(second, second_place);
    }
    const bool is_elsewhere = parts_->PlaceOf(first) != first_place || parts_->PlaceOf(second) != second_place;
    if (!is_elsewhere || moves == kMostMoves) co_return Outward(std::move(result), first, part);
  }
}

Task<Node> Tree::Bare(Node known, Handle place) {
  // Version 4.0 opens files by name, in a directory that may have moved as well.
  if (!known.name.empty() && parts_->PlaceOf(known.directory).part != place.part) {
    (void)co_await Relocate(known.directory, parts_->PlaceOf(known.directory));
  }
  known.directory = parts_->PlaceOf(known.directory);
  known.directory.part = 0;
  known.attributes = Distinct(std::move(known.attributes), *servers_of_parts_[place.part]);
  known.handle = place;
  known.handle.part = 0;
  co_return known;
}

Task<Result<std::unique_ptr<client::File>>> Tree::OpenFile(const Node& file, std::string_view what, Access access) {
  Node known = file;
  Handle place;
  const auto open = [&](ServerMount& server, const Handle&) -> Task<Result<std::unique_ptr<client::File>>> {
    const Node bare = co_await Bare(known, place);
    co_return co_await server.OpenFile(bare, what, access);
  };
  auto opened = co_await Follow(known.handle, place, open);
  if (!opened && !Mounted(place.part)) co_return opened;
  if (!opened) co_return std::unexpected(Outward(std::move(opened).error(), place.part));
  ServerMount& server = *servers_of_parts_[place.part];
  known.attributes = Distinct((*opened)->node().attributes, server);
  co_return std::make_unique<TreeFile>(*this, FileAtServer{*std::move(opened), place, &server}, std::move(known));
}

Task<Result<FileAtServer>> Tree::Reopen(Node known, FileAtServer before) {
  Handle place = before.place;
  for (unsigned moves = 0;; ++moves) {
    PENSTOCK_CO_CHECK(co_await Relocate(known.handle, place));
    place = parts_->PlaceOf(known.handle);
    PENSTOCK_CO_TRY(ServerMount* const server, co_await ServerOf(place.part));
    // It may have been renamed since it was opened.
    const auto at = parts_->names() ? parts_->names()->PlaceOf(known.handle) : std::nullopt;
    if (at) {
      known.directory = at->directory;
      known.name = at->name;
    }
    const Node bare = co_await Bare(known, place);
    auto opened = co_await server->Reopen(*before.file, bare);
    if (opened) co_return FileAtServer{*std::move(opened), place, server};
    if (opened.error().status != Status::kMoved || moves == kMostMoves) {
      co_return std::unexpected(Outward(std::move(opened).error(), place.part));
    }
  }
}

// The server's lease says nothing about the files any more, and their new server knows nothing of them before.
void Tree::HandleMoved(const ServerMount& server, uint64_t file_system) {
  if (unmounting_.cancelled()) return;
  Files files;
  for (MovingFile* const each : parts_->files()) {
    const FileAtServer& at = *each->at();
    if (at.server != &server) continue;
    const auto attributes = at.file->attributes_at_open();
    if (attributes && attributes->file_system == file_system) files.emplace_back(each->weak_from_this(), each->at());
  }
  Spawn(FollowAll(std::move(files)));
}

Task<void> Tree::FollowLinks(Handle place, Attributes attributes) {
  const KnownNames* const names = parts_->names();
  if (!names || !parts_->has_moves() || attributes.links < 2 || attributes.type != FileType::kRegular) co_return;
  if (parts_->KnownAs(place) != place || names->Knows(place)) co_return;
  Files files;
  for (MovingFile* const each : parts_->files()) {
    if (parts_->HasMoved(each->at()->place.part, place.part)) files.emplace_back(each->weak_from_this(), each->at());
  }
  co_await FollowAll(std::move(files));
}

Task<void> Tree::FollowAll(Files files) {
  for (const auto& [file, at] : files) co_await MovingFile::Follow(file, at);
}

Task<Result<Listing>> Tree::ListPart(Handle known, std::string_view what, ListPosition from, ListContent content) {
  Handle place;
  // RFC 8881 §11.11.7: another server does not know the place in the listing.
  const auto list = [&](ServerMount& server, const Handle& bare) -> Task<Result<Listing>> {
    if (from.cookie != 0 && from.part != place.part) {
      co_return std::unexpected(client::ErrorOf(Status::kBadCookie, what));
    }
    co_return co_await server.ListFrom(bare, what, from, content);
  };
  auto listing = co_await Follow(known, place, list);
  if (!Mounted(place.part)) co_return listing;
  if (listing && content == ListContent::kAttributesAndHandles && parts_->has_moves()) {
    for (const Entry& each : listing->entries) {
      if (!each.handle || !each.attributes) continue;
      Handle met = *each.handle;
      met.part = place.part;
      co_await FollowLinks(met, *each.attributes);
    }
  }
  co_return Outward(std::move(listing), known, place.part);
}

Task<Result<Node>> Tree::LookUp(Handle known, std::string_view name, bool is_in_use) {
  for (unsigned moves = 0;; ++moves) {
    const Handle place = parts_->PlaceOf(known);
    Handle bare = place;
    const uint32_t part = std::exchange(bare.part, 0);
    if (name == ".." && part != 0 && bare == parts_->at(part).root)
      co_return co_await Lookup(parts_->at(part).above, ".");
    PENSTOCK_CO_TRY(ServerMount* const server, co_await ServerOf(part));
    Result<Node> found = co_await server->Lookup(bare, name);
    if (found && !is_in_use) {
      Handle met = found->handle;
      met.part = part;
      co_await FollowLinks(met, found->attributes);
    }
    if (found || !TreeServers::LeadsOn(found.error())) co_return Outward(std::move(found), known, part);
    found = co_await Cross(known, place, name, found.error(), is_in_use);
    if (found || found.error().status != Status::kMoved || moves == kMostMoves) co_return found;
    // The directory itself has moved, or the server contradicts itself.
    Result<void> relocated = co_await Relocate(known, place);
    if (relocated) continue;
    if (relocated.error().status == Status::kMoved) co_return found;
    co_return std::unexpected(std::move(relocated).error());
  }
}

// ---- objects that have moved ----

std::string Tree::PathOf(const Handle& known) const {
  std::string path;
  Handle at = known;
  while (parts_->names() && path.size() < nfs_protocol::kMaxPath) {
    const auto place = parts_->names()->PlaceOf(at);
    if (!place || place->name.empty()) break;
    path.insert(0, "/" + place->name);
    at = place->directory;
  }
  if (!path_.empty()) path.insert(0, "/" + path_);
  return path.empty() ? "/" : path;
}

void Tree::Move(const Handle& known, const Handle& place) {
  const uint32_t from = parts_->PlaceOf(known).part;
  const auto server = [&](uint32_t part) { return ServerText(part == 0 ? url_ : parts_->at(part).url); };
  if (from != place.part && parts_->BeginsToMove(from, place.part)) {
    log::warn("{} has moved from {} to {}", PathOf(known), server(from), server(place.part));
  }
  parts_->Move(known, place);
}

void Tree::HandleBack(const Handle& place) {
  if (parts_->KnownAs(place) == place && parts_->PlaceOf(place) != place) Move(place, place);
}

Handle Tree::Known(const Handle& place, const Handle& directory, std::string_view name, FileType type) {
  HandleBack(place);
  const Handle known = parts_->KnownAs(place);
  const KnownNames* const names = parts_->names();
  // Only what is beyond a move can have another handle than before.
  if (known != place || !names || (parts_->PlaceOf(directory).part == place.part && !parts_->has_moves())) {
    return known;
  }
  const auto before = names->ObjectAt(directory, name);
  if (!before || parts_->PlaceOf(*before).part == place.part) return known;
  const auto at = names->PlaceOf(*before);
  if (!at || at->type != type || names->Knows(place)) return known;
  Move(*before, place);
  return *before;
}

Task<Result<Node>> Tree::FindAgain(const Handle& known, const Handle& place, std::optional<KnownNames::Place> at) {
  if (at && !at->name.empty()) co_return co_await LookUp(at->directory, at->name, true);
  if (at && known != root_) {
    Result<Node> found = Node{.handle = root_, .attributes = {}};
    for (const std::string& name : ComponentsOf(path_)) {
      if (found) found = co_await LookUp(found->handle, name, true);
    }
    if (found || found.error().status != Status::kNotDirectory) co_return found;
    // There is a symbolic link on the way.
    co_return co_await Resolve(path_);
  }
  // The root of the server's tree has no name.
  Handle bare = place;
  PENSTOCK_CO_TRY(ServerMount* const from, co_await ServerOf(std::exchange(bare.part, 0)));
  bool is_here = false;
  const auto go = [&](unsigned& followed) -> Task<Result<NodeAtServer>> {
    Result<Attributes> here = co_await from->GetAttributes(bare, "/");
    is_here = here.has_value();
    if (here) co_return NodeAtServer{.server = from, .node = {.handle = bare, .attributes = *std::move(here)}};
    if (here.error().status != Status::kMoved) co_return std::unexpected(std::move(here).error());
    auto told = co_await from->GetLocationsOf(bare, "/");
    co_return co_await servers_.GoTo(*from, "/", std::move(told), followed);
  };
  PENSTOCK_CO_TRY(NodeAtServer reached, co_await Persist(go, "/", true));
  if (is_here) co_return Node{.handle = known, .attributes = std::move(reached.node.attributes)};
  co_return co_await Entered(known, std::move(reached), known, true);
}

Task<Result<void>> Tree::Relocate(Handle known, Handle place) {
  if (parts_->PlaceOf(known) != place) co_return Result<void>();
  const KnownNames* const names = parts_->names();
  if (!names && known != root_) co_return std::unexpected(client::ErrorOf(Status::kMoved, "a file in use"));
  const auto at = names ? names->PlaceOf(known) : std::nullopt;
  const std::string path = names ? PathOf(known) : "/";
  // Names may be older than renames by other clients, and lead in a circle.
  const bool has_place = at && path.size() < nfs_protocol::kMaxPath;
  if (!has_place && known != root_) co_return std::unexpected(client::ErrorOf(Status::kStale, path));
  Result<Node> found = co_await FindAgain(known, place, at);
  if (!found) {
    Error error = std::move(found).error();
    const bool is_gone = error.status == Status::kNotFound || error.status == Status::kNotDirectory;
    co_return std::unexpected(is_gone ? client::ErrorOf(Status::kStale, path) : std::move(error));
  }
  const Handle now = parts_->PlaceOf(found->handle);
  if (now == place) {
    // The server serves it again, or will soon, or contradicts itself. Callers ask some times.
    co_await Pause(loop_, kPauseAfterContradiction, &unmounting_);
    co_return Result<void>();
  }
  if (at && at->type != found->attributes.type) co_return std::unexpected(client::ErrorOf(Status::kStale, path));
  Move(known, now);
  co_return Result<void>();
}

// ---- referrals ----

template <class Go>
Task<Result<NodeAtServer>> Tree::Persist(Go go, std::string_view what, bool is_in_use) {
  const TimePoint begin = loop_.Now();
  Retries retries{.give_up = begin + url_.recovery.CallLimit()};
  for (bool is_first = true;; is_first = false) {
    unsigned followed = 0;
    auto reached = co_await go(followed);
    if (reached) co_return reached;
    const bool is_circle = followed > kMostReferrals;
    if (is_circle) {
      reached = std::unexpected(Error{
          fmt::format("{}: more than {} referrals lead to one another", what, kMostReferrals), std::nullopt, ELOOP});
    }
    const Error& error = reached.error();
    // While a file system moves back, two servers may refer to each other for a moment.
    const bool may_end = is_circle && loop_.Now() < begin + kCirclePatience;
    const bool may_come = !error.status && (error.number == EREMOTE || client::IsOfConnection(error.number));
    if (!is_in_use || !(may_end || may_come) || loop_.Now() >= retries.give_up) co_return reached;
    if (is_first && waiting_ == 0) log::warn("{}; the client tries again", error.message);
    ++waiting_;
    co_await Pause(loop_, retries.NextDelay(), &unmounting_);
    --waiting_;
    if (unmounting_.cancelled()) co_return std::unexpected(Closing(what));
  }
}

Task<Result<Node>> Tree::Cross(Handle directory, Handle place, std::string_view name, const Error& why,
                               bool is_in_use) {
  Handle bare = place;
  PENSTOCK_CO_TRY(ServerMount* const from, co_await ServerOf(std::exchange(bare.part, 0)));
  std::optional<Handle> before;
  if (parts_->names()) before = parts_->names()->ObjectAt(directory, name);
  const uint32_t part_before = before ? parts_->PlaceOf(*before).part : 0;
  const Url* const now = part_before > 0 ? &parts_->at(part_before).url : nullptr;
  std::optional<Error> reason = why;
  bool is_here = false;
  const auto go = [&](unsigned& followed) -> Task<Result<NodeAtServer>> {
    if (!reason) {
      // The server may serve it again.
      Result<Node> found = co_await from->Lookup(bare, name);
      is_here = found.has_value();
      if (found) co_return NodeAtServer{.server = from, .node = *std::move(found)};
      reason = std::move(found).error();
    }
    const Error at = *std::exchange(reason, std::nullopt);
    co_return co_await servers_.Onward(*from, bare, name, at, followed, now);
  };
  PENSTOCK_CO_TRY(NodeAtServer reached, co_await Persist(go, name, is_in_use));
  if (is_here) co_return Outward(std::move(reached.node), directory, place.part);
  co_return co_await Entered(directory, std::move(reached), before, is_in_use && why.status == Status::kMoved);
}

Task<Node> Tree::Entered(Handle above, NodeAtServer reached, std::optional<Handle> before, bool is_in_use) {
  const uint32_t part = PartOf(above, reached);
  // The root of a file system has no directory and no name.
  Node root{.handle = reached.node.handle, .attributes = Distinct(reached.node.attributes, *reached.server)};
  root.handle.part = part;
  const uint32_t part_before = parts_->PlaceOf(before.value_or(above)).part;
  if (is_in_use && part_before != part) {
    parts_->HandleMovedHere(part);
    if (before) Move(*before, root.handle);
  }
  HandleBack(root.handle);
  root.handle = parts_->KnownAs(root.handle);
  co_await Enter(part, *reached.server);
  co_return root;
}

uint32_t Tree::PartOf(const Handle& above, const NodeAtServer& root) {
  const uint32_t part = parts_->NumberOf({.url = root.server->url(),
                                          .entrance = servers_.EntranceOf(*root.server),
                                          .root = root.node.handle,
                                          .above = above});
  HandlePart(part, *root.server);
  return part;
}

}  // namespace

Task<Result<std::unique_ptr<client::Mount>>> Open(Loop& loop, Workers& workers, const Url& url, const Dialect& dialect,
                                                  MountOptions options) {
  PENSTOCK_CO_TRY(auto home, co_await OpenNegotiated(loop, workers, url, dialect, options));
  co_return std::make_unique<Tree>(loop, workers, url, dialect, options, std::move(home));
}

}  // namespace penstock::client::v4
