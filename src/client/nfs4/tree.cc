#include "client/nfs4/tree.h"

#include <fmt/core.h>

#include <algorithm>
#include <cerrno>
#include <deque>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/mix.h"
#include "base/under_way.h"
#include "client/connect.h"
#include "client/nfs4/locations.h"
#include "client/nfs4/mount.h"
#include "client/set_up.h"
#include "protocol/nfs4.h"

namespace penstock::client::v4 {
namespace {

using nfs_protocol::SecurityFlavor;

// The most referrals that one lookup follows. More of them lead to one another.
constexpr unsigned kMostReferrals = 8;
// The time limit for the first answer of a server, in seconds, if another one has the same file system.
constexpr uint32_t kProbeLimit = 15;
// The most failures that one error lists.
constexpr size_t kMostReasons = 3;

// Whether the object of a lookup may be reached by another mount.
bool LeadsOn(const Error& error) { return error.status == Status::kMoved || error.status == Status::kWrongSecurity; }

std::string Describe(const Error& error) { return error.status ? client::Describe(*error.status) : error.message; }

std::string PathText(const std::vector<std::string>& path) {
  std::string text;
  for (const std::string& name : path) text += "/" + name;
  return text.empty() ? "/" : text;
}

std::string ServerText(const Url& url) { return fmt::format("{} port {}", url.host, url.port); }

// The flavors to try for the root of a server that does not tell which ones it accepts.
constexpr SecurityFlavor kUsualFlavors[] = {SecurityFlavor::kKrb5, SecurityFlavor::kKrb5i, SecurityFlavor::kKrb5p,
                                            SecurityFlavor::kNone};

SecurityFlavor FlavorOf(const Url& url) { return url.security.value_or(SecurityFlavor::kSys); }

Error NoCommonFlavor(std::string_view what, const Flavors& accepted) {
  Error error = client::ErrorOf(Status::kWrongSecurity, what);
  if (!accepted.empty()) error.message += fmt::format(": sec={}", TextOf(accepted));
  return error;
}

using Opened = Result<std::unique_ptr<ServerMount>>;

// Mounts the server. If `url` names no flavor, and the server does not accept AUTH_SYS for its root, tries the flavors
// that it accepts.
Task<Opened> OpenNegotiated(Loop& loop, Workers& workers, Url url, const Dialect& dialect, MountOptions options) {
  Flavors accepted;
  Opened opened = co_await OpenServer(loop, workers, url, dialect, options, accepted);
  if (opened || opened.error().status != Status::kWrongSecurity) co_return opened;
  if (url.security) co_return std::unexpected(NoCommonFlavor(url.host, accepted));
  if (accepted.empty()) accepted.assign(std::begin(kUsualFlavors), std::end(kUsualFlavors));
  for (const SecurityFlavor flavor : accepted) {
    url.security = flavor;
    Flavors ignored;
    opened = co_await OpenServer(loop, workers, url, dialect, options, ignored);
    if (opened) co_return opened;
    log::info("{} by sec={}", opened.error().message, NameOf(flavor));
  }
  co_return opened;
}

// The last part: whether the mount begins at an entrance, so that its root is not the server's.
using ServerKey = std::tuple<std::string, uint16_t, SecurityFlavor, bool>;
ServerKey KeyOf(const Url& url, bool has_entrance) { return {url.host, url.port, FlavorOf(url), has_entrance}; }

// A file system behind a referral, or under another security flavor, as it is seen from there.
struct TreePart {
  // How to mount its server.
  Url url;
  std::optional<Entrance> entrance;
  Handle root;   // as the server knows it
  Handle above;  // the directory before it: `..` leads from the root to it
};

// The parts of a tree by the numbers in Handle::part. The mounts of several users share it, so that a handle means the
// same object in each of them. Part 0 is the tree of the server that the URL names.
class TreeParts {
 public:
  const TreePart& at(uint32_t number) const { return parts_[number - 1]; }
  uint32_t NumberOf(const TreePart& part) {
    const auto [at, is_new] = numbers_.try_emplace({part.above, KeyOf(part.url, part.entrance.has_value()), part.root},
                                                   static_cast<uint32_t>(parts_.size() + 1));
    if (is_new) parts_.push_back(part);
    return at->second;
  }

 private:
  std::deque<TreePart> parts_;
  std::map<std::tuple<Handle, ServerKey, Handle>, uint32_t> numbers_;
};

// A file of another server. Its node has the handles of the tree, and its errors tell why the server did not answer.
class ReferredFile final : public client::File {
 public:
  ReferredFile(std::unique_ptr<client::File> file, Node node, const ServerMount& server)
      : client::File(std::move(node), file->name()), file_(std::move(file)), server_(server) {}

  Task<Result<FetchReply>> Fetch(uint64_t offset, Bytes into) override { return Explain(file_->Fetch(offset, into)); }
  Task<Result<WriteReply>> Write(uint64_t offset, ConstBytes from, Stability stability) override {
    return Explain(file_->Write(offset, from, stability));
  }
  Task<Result<Verifier>> Commit() override { return Explain(file_->Commit()); }
  Task<Result<void>> SetSize(uint64_t size) override { return Explain(file_->SetSize(size)); }
  std::optional<Attributes> attributes_at_open() const override { return file_->attributes_at_open(); }
  Task<Result<std::optional<uint64_t>>> Seek(uint64_t offset, Content content) override {
    return Explain(file_->Seek(offset, content));
  }
  Task<Result<void>> Allocate(uint64_t offset, uint64_t length) override {
    return Explain(file_->Allocate(offset, length));
  }
  Task<Result<void>> Deallocate(uint64_t offset, uint64_t length) override {
    return Explain(file_->Deallocate(offset, length));
  }
  Task<Result<CopyReply>> CopyFrom(client::File& source, uint64_t from, uint64_t to, uint64_t length) override {
    return Explain(file_->CopyFrom(Bare(source), from, to, length));
  }
  Task<Result<void>> CloneFrom(client::File& source, uint64_t from, uint64_t to, uint64_t length) override {
    return Explain(file_->CloneFrom(Bare(source), from, to, length));
  }
  Task<Result<void>> Lock(std::string owner, ByteRange range, LockKind kind, Duration patience,
                          Cancellation* impatience) override {
    return Explain(file_->Lock(std::move(owner), range, kind, patience, impatience));
  }
  Task<Result<void>> Unlock(std::string owner, ByteRange range) override {
    return Explain(file_->Unlock(std::move(owner), range));
  }
  Task<Result<std::optional<LockConflict>>> TestLock(std::string owner, ByteRange range, LockKind kind) override {
    return Explain(file_->TestLock(std::move(owner), range, kind));
  }
  Task<Result<void>> Close() override { return Explain(file_->Close()); }

 private:
  template <class T>
  Task<Result<T>> Explain(Task<Result<T>> call) {
    Result<T> result = co_await std::move(call);
    if (!result) co_return std::unexpected(WithTrouble(std::move(result).error(), server_.trouble()));
    co_return result;
  }

  // The file as its server's mount knows it.
  static client::File& Bare(client::File& file) {
    auto* const referred = dynamic_cast<ReferredFile*>(&file);
    return referred ? *referred->file_ : file;
  }

  const std::unique_ptr<client::File> file_;
  const ServerMount& server_;
};

// A tree of several servers, for one user. Handles of different servers may have the same octets, so each handle that
// this class gives to its users has a number in Handle::part. The servers' mounts get the handles without it.
class Tree final : public client::Mount {
 public:
  // `url` names the server of `home`. If it names no flavor, objects for which the server does not accept the flavor of
  // `home` are reached by another one.
  Tree(Loop& loop, Workers& workers, const Url& url, const Dialect& dialect, const MountOptions& options,
       std::unique_ptr<ServerMount> home)
      : client::Mount(loop, url),
        workers_(workers),
        dialect_(dialect),
        options_(OptionsFor(options)),
        home_(*home),
        servers_of_parts_{home.get()} {
    root_ = home->root();
    path_ = home->path();
    sizes_ = home->sizes();
    const auto* const other = dynamic_cast<const Tree*>(options.shares_handles_with);
    parts_ = other ? other->parts_ : std::make_shared<TreeParts>();
    HandleMounted(servers_[KeyOf(home_.url(), false)], std::move(home));
  }

  Task<void> Unmount() override;
  void Abort() override { ending_.Cancel(); }

  std::string_view version() const override { return home_.version(); }
  Protocol transport() const override { return home_.transport(); }
  uint64_t reconnections() const override;
  SetupError trouble() const override { return home_.trouble(); }
  Task<Result<void>> Ping() override { return home_.Ping(); }

  Task<Result<Node>> Lookup(const Handle& directory, std::string_view name) override;
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
                                                         CreateMode how) override {
    return At(directory, [name, mode, how](ServerMount& server, const Handle& bare) {
      return server.CreateFile(bare, name, mode, how);
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
    return At(directory,
              [=](ServerMount& server, const Handle& bare) { return server.ListFrom(bare, what, from, content); });
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
  // A server that is mounted, is being mounted, or could not be mounted.
  struct Server {
    std::optional<Entrance> entrance{};
    std::unique_ptr<ServerMount> mount{};
    bool opening = false;
    Error failure{};  // of the last attempt
    Signal changed{};
    std::unique_ptr<Cancellation::Entry> ending{};  // aborts `mount`
  };
  // An object with its server. The handles in `node` are those that the server knows.
  struct Place {
    ServerMount* server = nullptr;
    Node node;
  };

  // Returns the mount of a part's server, or null if this tree has not mounted it.
  ServerMount* Mounted(uint32_t part) const {
    return part < servers_of_parts_.size() ? servers_of_parts_[part] : nullptr;
  }
  // Mounts it if necessary: another user's mount may have found the part.
  Task<Result<ServerMount*>> ServerOf(uint32_t part);
  void HandlePart(uint32_t part, ServerMount& server);
  // Calls the mount that a handle belongs to.
  template <class Call>
  auto At(Handle object, Call call) -> std::invoke_result_t<Call&, ServerMount&, const Handle&>;
  template <class Call>
  Task<Result<void>> AtBoth(Handle first, Handle second, std::string_view name, Call call);
  // Turns what the server of `part` has returned into what the users of the tree know.
  template <class T>
  Result<T> Outward(Result<T> result, uint32_t part) const;
  // Gives the file systems of other servers other numbers. A second call gives the server's number back.
  Attributes Distinct(Attributes attributes, const ServerMount& server) const;

  // Reaches `name` in `directory`, whose lookup failed for `why`: it is a referral, or needs another flavor.
  Task<Result<Node>> Cross(Handle directory, std::string_view name, const Error& why);
  // `followed` counts the referrals of one lookup.
  Task<Result<Place>> Onward(ServerMount& from, const Handle& directory, std::string_view name, const Error& why,
                             unsigned& followed);
  Task<Result<Place>> Step(ServerMount& from, const Handle& directory, std::string_view name, unsigned& followed);
  // Looks `name` up by a flavor that the server accepts for it.
  Task<Result<Place>> Secure(ServerMount& from, const Handle& directory, std::string_view name);
  Task<Result<Place>> Follow(ServerMount& from, const Handle& directory, std::string_view name, unsigned& followed);
  // Finds the file system at a location that a referral of `from` names.
  Task<Result<Place>> Reach(const ServerMount& from, const Location& location, bool is_last, unsigned& followed);
  Task<Result<Place>> Walk(ServerMount& server, const std::vector<std::string>& path, unsigned& followed);

  // Returns the mount of the server that `url` names. `is_last`: no other server has the file system. All entrances of
  // a server share a mount for each flavor.
  Task<Result<ServerMount*>> MountOf(Url url, bool is_last, const Entrance* entrance = nullptr);
  // The options for other servers.
  MountOptions OptionsFor(MountOptions options) {
    options.cancellation = &ending_;
    options.shares_handles_with = nullptr;
    return options;
  }
  void HandleMounted(Server& server, std::unique_ptr<ServerMount> mount) {
    server.mount = std::move(mount);
    server.ending = std::make_unique<Cancellation::Entry>(&ending_, [at = server.mount.get()] { at->Abort(); });
  }
  Task<Opened> OpenAt(const Url& url, const Entrance* entrance);
  Task<Result<void>> Probe(Url url);
  uint32_t PartOf(const Handle& above, const Place& root);

  Cancellation ending_;
  Workers& workers_;
  const Dialect& dialect_;
  const MountOptions options_;
  ServerMount& home_;  // of the server that the URL names
  std::map<ServerKey, Server> servers_;
  std::shared_ptr<TreeParts> parts_;
  std::vector<ServerMount*> servers_of_parts_;  // by the number of the part; null: not mounted
};

// ---- calls ----

Attributes Tree::Distinct(Attributes attributes, const ServerMount& server) const {
  const Url& url = server.url();
  if (url.host == url_.host && url.port == url_.port) return attributes;
  attributes.file_system ^= Mix(Mix(url.port, AsBytes(url.host)), url.host.size());
  return attributes;
}

template <class T>
Result<T> Tree::Outward(Result<T> result, uint32_t part) const {
  if (part == 0) return result;
  ServerMount& server = *servers_of_parts_[part];
  if (!result) return std::unexpected(WithTrouble(std::move(result).error(), server.trouble()));
  const auto number = [&](Node node) {
    node.handle.part = node.directory.part = part;
    node.attributes = Distinct(std::move(node.attributes), server);
    return node;
  };
  if constexpr (std::same_as<T, Node>) {
    return number(*std::move(result));
  } else if constexpr (std::same_as<T, Attributes>) {
    return Distinct(*std::move(result), server);
  } else if constexpr (std::same_as<T, Listing>) {
    for (Entry& entry : result->entries) {
      if (entry.attributes) entry.attributes = Distinct(*std::move(entry.attributes), server);
      if (entry.handle) entry.handle->part = part;
    }
    return result;
  } else if constexpr (std::same_as<T, std::unique_ptr<client::File>>) {
    Node node = number((*result)->node());
    return std::make_unique<ReferredFile>(*std::move(result), std::move(node), server);
  } else {
    return result;
  }
}

Task<Result<ServerMount*>> Tree::ServerOf(uint32_t part) {
  if (ServerMount* const mounted = Mounted(part)) co_return mounted;
  const TreePart& found = parts_->at(part);
  const Entrance* const entrance = found.entrance ? &*found.entrance : nullptr;
  // Another user may have found it.
  Url url = found.url;
  url.uid = url_.uid;
  url.gid = url_.gid;
  url.groups = url_.groups;
  PENSTOCK_CO_TRY(ServerMount* const server, co_await MountOf(std::move(url), true, entrance));
  HandlePart(part, *server);
  co_return server;
}

void Tree::HandlePart(uint32_t part, ServerMount& server) {
  if (servers_of_parts_.size() <= part) servers_of_parts_.resize(part + 1);
  servers_of_parts_[part] = &server;
}

template <class Call>
auto Tree::At(Handle object, Call call) -> std::invoke_result_t<Call&, ServerMount&, const Handle&> {
  const uint32_t part = std::exchange(object.part, 0);
  ServerMount* server = Mounted(part);
  if (!server) {
    PENSTOCK_CO_TRY(server, co_await ServerOf(part));
  }
  auto result = co_await call(*server, object);
  co_return Outward(std::move(result), part);
}

template <class Call>
Task<Result<void>> Tree::AtBoth(Handle first, Handle second, std::string_view name, Call call) {
  const uint32_t part = std::exchange(first.part, 0);
  PENSTOCK_CO_TRY(ServerMount* const server, co_await ServerOf(part));
  PENSTOCK_CO_TRY(const ServerMount* const other, co_await ServerOf(std::exchange(second.part, 0)));
  if (other != server) {
    co_return std::unexpected(client::ErrorOf(Status::kCrossDevice, name));
  }
  Result<void> result = co_await call(*server, first, second);
  co_return Outward(std::move(result), part);
}

Task<Result<std::unique_ptr<client::File>>> Tree::OpenFile(const Node& file, std::string_view what, Access access) {
  Node bare = file;
  bare.directory.part = 0;
  const auto open = [this, bare = std::move(bare), what, access](ServerMount& server, const Handle& handle) mutable {
    bare.handle = handle;
    bare.attributes = Distinct(std::move(bare.attributes), server);
    return server.OpenFile(bare, what, access);
  };
  co_return co_await At(file.handle, open);
}

Task<Result<Node>> Tree::Lookup(const Handle& directory, std::string_view name) {
  if (name == ".." && directory.part != 0) {
    const TreePart& part = parts_->at(directory.part);
    Handle bare = directory;
    bare.part = 0;
    if (bare == part.root) co_return co_await Lookup(part.above, ".");
  }
  const auto lookup = [name](ServerMount& server, const Handle& bare) { return server.Lookup(bare, name); };
  Result<Node> found = co_await At(directory, lookup);
  if (found || !LeadsOn(found.error())) co_return found;
  co_return co_await Cross(directory, name, found.error());
}

uint64_t Tree::reconnections() const {
  uint64_t sum = 0;
  for (const auto& [key, server] : servers_) sum += server.mount ? server.mount->reconnections() : 0;
  return sum;
}

// A server that does not answer keeps none of the others waiting.
Task<void> Tree::Unmount() {
  UnderWay unmounts;
  const auto unmount = [](ServerMount& server, UnderWay& all) -> Task<void> {
    co_await server.Unmount();
    all.End();
  };
  for (auto& [key, server] : servers_) {
    if (!server.mount) continue;
    unmounts.Begin();
    Spawn(unmount(*server.mount, unmounts));
  }
  co_await unmounts.Ended();
}

// ---- referrals ----

Task<Result<Node>> Tree::Cross(Handle directory, std::string_view name, const Error& why) {
  const Handle above = directory;
  PENSTOCK_CO_TRY(ServerMount* const from, co_await ServerOf(std::exchange(directory.part, 0)));
  unsigned followed = 0;
  auto reached = co_await Onward(*from, directory, name, why, followed);
  if (!reached && followed > kMostReferrals) {
    co_return std::unexpected(Error{fmt::format("{}: more than {} referrals lead to one another", name, kMostReferrals),
                                    std::nullopt, ELOOP});
  }
  if (!reached) co_return std::unexpected(std::move(reached).error());
  const uint32_t part = PartOf(above, *reached);
  // The root of a file system has no directory and no name.
  Node root{.handle = reached->node.handle, .attributes = Distinct(reached->node.attributes, *reached->server)};
  root.handle.part = part;
  co_return root;
}

Task<Result<Tree::Place>> Tree::Step(ServerMount& from, const Handle& directory, std::string_view name,
                                     unsigned& followed) {
  Result<Node> found = co_await from.Lookup(directory, name);
  if (found) co_return Place{.server = &from, .node = *std::move(found)};
  co_return co_await Onward(from, directory, name, found.error(), followed);
}

Task<Result<Tree::Place>> Tree::Onward(ServerMount& from, const Handle& directory, std::string_view name,
                                       const Error& why, unsigned& followed) {
  if (why.status == Status::kMoved) co_return co_await Follow(from, directory, name, followed);
  if (why.status == Status::kWrongSecurity) co_return co_await Secure(from, directory, name);
  co_return std::unexpected(why);
}

// A file handle of one mount is good in every mount of the same server.
Task<Result<Tree::Place>> Tree::Secure(ServerMount& from, const Handle& directory, std::string_view name) {
  auto accepted = co_await from.GetFlavors(directory, name);
  if (!accepted) co_return std::unexpected(client::ErrorOf(Status::kWrongSecurity, name));
  Error failure = NoCommonFlavor(name, *accepted);
  if (url_.security) co_return std::unexpected(std::move(failure));
  const Entrance entrance{.directory = directory, .name = std::string(name)};
  for (const SecurityFlavor flavor : *accepted) {
    if (flavor == FlavorOf(from.url())) continue;
    Url url = from.url();
    url.path = "/";
    url.security = flavor;
    auto server = co_await MountOf(url, true, &entrance);
    if (server) {
      Result<Node> found = co_await (*server)->Lookup(directory, name);
      if (found) co_return Place{.server = *server, .node = *std::move(found)};
      failure = WithTrouble(std::move(found).error(), (*server)->trouble());
    } else {
      failure = std::move(server).error();
    }
    log::info("{} by sec={}", failure.message, NameOf(flavor));
  }
  co_return std::unexpected(std::move(failure));
}

Task<Result<Tree::Place>> Tree::Follow(ServerMount& from, const Handle& directory, std::string_view name,
                                       unsigned& followed) {
  if (++followed > kMostReferrals) co_return std::unexpected(client::ErrorOf(Status::kMoved, name));
  auto told = co_await from.GetLocations(directory, name);
  if (!told) co_return std::unexpected(WithTrouble(std::move(told).error(), from.trouble()));
  const std::vector<Location>& locations = *told;
  if (locations.empty()) {
    co_return std::unexpected(Error{fmt::format("{}: is on another server, but {} names no location that makes sense",
                                                name, ServerText(from.url())),
                                    std::nullopt, EREMOTE});
  }
  std::string reasons;
  for (size_t i = 0; i < locations.size(); ++i) {
    auto reached = co_await Reach(from, locations[i], i + 1 == locations.size(), followed);
    if (reached) co_return reached;
    if (ending_.cancelled()) co_return std::unexpected(Closing(name));
    if (i < kMostReasons) reasons += (i > 0 ? "; " : "") + reached.error().message;
  }
  if (locations.size() > kMostReasons) reasons += fmt::format("; and {} more", locations.size() - kMostReasons);
  co_return std::unexpected(
      Error{fmt::format("{}: cannot follow the referral: {}", name, reasons), std::nullopt, EREMOTE});
}

Task<Result<Tree::Place>> Tree::Reach(const ServerMount& from, const Location& location, bool is_last,
                                      unsigned& followed) {
  Url url = url_;
  url.path = "/";
  if (location.host.empty()) {
    url.host = from.url().host;
    url.port = from.url().port;
  } else {
    url.host = location.host;
    url.port = location.port.value_or(Url::DefaultPort(url.protocol));
  }
  PENSTOCK_CO_TRY(ServerMount* const server, co_await MountOf(url, is_last));
  auto reached = co_await Walk(*server, location.path, followed);
  if (reached) co_return reached;
  const Error why = WithTrouble(std::move(reached).error(), server->trouble());
  co_return std::unexpected(Error{fmt::format("{}: {}: {}", ServerText(url), PathText(location.path), Describe(why)),
                                  std::nullopt, why.number});
}

// Servers below may refer on.
Task<Result<Tree::Place>> Tree::Walk(ServerMount& server, const std::vector<std::string>& path, unsigned& followed) {
  Place place{.server = &server, .node = {.handle = server.root(), .attributes = {}}};
  if (path.empty()) {
    PENSTOCK_CO_TRY(place.node.attributes, co_await server.GetAttributes(server.root(), "the root of the tree"));
  }
  for (const std::string& name : path) {
    PENSTOCK_CO_TRY(place, co_await Step(*place.server, place.node.handle, name, followed));
  }
  if (place.node.attributes.type != FileType::kDirectory) {
    co_return std::unexpected(client::ErrorOf(Status::kNotDirectory, PathText(path)));
  }
  co_return place;
}

Task<Opened> Tree::OpenAt(const Url& url, const Entrance* entrance) {
  if (!entrance) co_return co_await OpenNegotiated(loop_, workers_, url, dialect_, options_);
  Flavors ignored;
  co_return co_await OpenServer(loop_, workers_, url, dialect_, options_, ignored, entrance);
}

Task<Result<ServerMount*>> Tree::MountOf(Url url, bool is_last, const Entrance* entrance) {
  Server& server = servers_[KeyOf(url, entrance != nullptr)];
  if (server.opening) {
    co_await server.changed;
  } else if (!server.mount) {
    server.opening = true;
    Result<void> answers;
    if (!is_last) answers = co_await Probe(url);
    if (answers) {
      Opened opened = co_await OpenAt(url, entrance);
      if (opened) {
        if (entrance) server.entrance = *entrance;
        HandleMounted(server, *std::move(opened));
      } else {
        answers = std::unexpected(std::move(opened).error());
      }
    }
    if (!answers) server.failure = std::move(answers).error();
    server.opening = false;
    server.changed.Notify();
  }
  if (!server.mount) co_return std::unexpected(server.failure);
  co_return server.mount.get();
}

// A call of the mount may wait for minutes until a silent server answers. That is too long if another server can be
// tried.
Task<Result<void>> Tree::Probe(Url url) {
  url.recovery.LimitTo(kProbeLimit);
  ChannelOptions options;
  options.cancellation = &ending_;
  auto channel = co_await OpenChannel(loop_, workers_, url, options_.provider, options);
  if (!channel) co_return std::unexpected(NotConnected(std::move(channel).error(), ending_, ServerText(url)));
  const Cancellation::Entry entry(&ending_, [at = channel->get()] { at->Close(); });
  rpc::Client client(**channel, loop_.buffers(), rpc::RandomXid());
  auto answered = co_await client.Call<nfs4::NFSPROC4_NULL>({});
  // The channel must outlive the turn of the loop that delivered its reply.
  co_await Sleep(loop_, Duration::zero());
  if (!answered) co_return std::unexpected(ErrorOf(answered.error(), ServerText(url)));
  co_return Result<void>();
}

uint32_t Tree::PartOf(const Handle& above, const Place& root) {
  const auto is_its = [&](const auto& each) { return each.second.mount.get() == root.server; };
  const Server& server = std::ranges::find_if(servers_, is_its)->second;
  const uint32_t part = parts_->NumberOf(
      {.url = server.mount->url(), .entrance = server.entrance, .root = root.node.handle, .above = above});
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
