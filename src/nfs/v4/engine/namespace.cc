#include "nfs/v4/engine/namespace.h"

#include <fmt/core.h>

#include <algorithm>

#include "nfs/v4/engine/compound.h"

namespace penstock::nfs::v4 {
namespace {

// Namespace::Make() refuses exports with this identifier.
constexpr ExportId kPseudoExport{0};

ExportOptions PseudoOptions() {
  ExportOptions options;
  options.read_only = true;
  return options;
}

// The part of `path` below `directory`. Both have the form of Export::path().
std::string_view Below(std::string_view directory, std::string_view path) {
  if (directory == "/") return path.substr(1);
  return path.substr(std::min(path.size(), directory.size() + 1));
}

bool IsBelow(std::string_view directory, std::string_view path) {
  if (path == directory) return false;
  return directory == "/" || (path.starts_with(directory) && path[directory.size()] == '/');
}

std::string_view LastName(std::string_view path) { return path.substr(path.rfind('/') + 1); }

}  // namespace

fs::RequestContext OwnContext(Loop* loop) {
  fs::RequestContext context;
  context.credentials.uid = 0;
  context.credentials.gid = 0;
  context.loop = loop;
  return context;
}

Namespace::Namespace(const Exports& exports, std::shared_ptr<const ExportTable> table, fs::Timestamp since)
    : exports_(exports),
      table_(std::move(table)),
      directories_(std::make_shared<PseudoFileSystem>(since)),
      pseudo_(kPseudoExport, "", directories_, {{.clients = {}, .options = PseudoOptions()}}),
      root_(&directories_->root()) {}

SetupResult<std::shared_ptr<const Namespace>> Namespace::Make(const Exports& exports,
                                                              std::shared_ptr<const ExportTable> table,
                                                              fs::Timestamp since) {
  std::shared_ptr<Namespace> made(new Namespace(exports, std::move(table), since));
  const auto& all = made->table_->all();
  for (const auto& exported : all) {
    const Node* node = made->directories_->Make(exported->path());
    if (!node || exported->id() == kPseudoExport) {
      return std::unexpected(SetupError{fmt::format(
          "export \"{}\" cannot be told from another in file handles; choose another path for it", exported->path())});
    }
    made->at_.emplace(node, exported.get());
    if (exported->is_root()) made->root_ = node;
  }
  for (const auto& outer : all) {
    if (!outer->is_referral()) continue;
    for (const auto& inner : all) {
      if (outer->path() != "/" && !IsBelow(outer->path(), inner->path())) continue;
      return std::unexpected(SetupError{
          fmt::format("export \"{}\" cannot be below the export \"{}\", which is a referral to another server",
                      inner->path(), outer->path())});
    }
  }
  return made;
}

const Export* Namespace::Find(ExportId id, const Client& client) const {
  if (id == kPseudoExport) return &pseudo_;
  const Export* found = table_->Find(id);
  if (!found || found->Admits(client)) return found;
  exports_.refusals().Refuse(client.address, *found);
  return nullptr;
}

bool Namespace::Shows(const Export& in, const fs::Handle& object, const Client& client) const {
  if (&in != &pseudo_) return true;
  const Node* const node = directories_->Find(object);
  return node == root_ || (node && IsVisible(*node, client));
}

const Export* Namespace::At(const Node& node, const Client& client) const {
  const auto found = at_.find(&node);
  return found != at_.end() && found->second->Admits(client) ? found->second : nullptr;
}

bool Namespace::IsVisible(const Node& node, const Client& client) const {
  return At(node, client) ||
         std::ranges::any_of(node.children, [&](const Node* child) { return IsVisible(*child, client); });
}

void Namespace::AddFlavors(const Node& node, const Client& client, SecurityFlavors& flavors) const {
  if (const Export* exported = At(node, client)) flavors.Add(exported->FlavorsFor(client));
  for (const Node* child : node.children) AddFlavors(*child, client, flavors);
}

SecurityFlavors Namespace::FlavorsOf(const Export& in, const fs::Handle& object, const Client& client) const {
  if (&in != &pseudo_) return in.FlavorsFor(client);
  SecurityFlavors flavors;
  if (const Node* node = directories_->Find(object)) AddFlavors(*node, client, flavors);
  // Without visible exports below, the directory needs no protection.
  if (flavors.empty()) flavors = ExportOptions().security;
  return flavors;
}

// Finds whether an export at or below the node that admits the client also admits its connection, and one that does
// not.
void Namespace::AddProtected(const Node& node, const Client& client, bool& admits, const Export*& refused) const {
  if (const Export* exported = At(node, client)) {
    if (exported->AdmitsProtection(client)) {
      admits = true;
    } else {
      refused = exported;
    }
  }
  for (const Node* child : node.children) AddProtected(*child, client, admits, refused);
}

const Export* Namespace::RefusalOf(const Export& in, const fs::Handle& object, const Client& client) const {
  bool admits = false;
  const Export* refused = nullptr;
  if (&in != &pseudo_) {
    admits = in.AdmitsProtection(client);
    refused = &in;
  } else if (const Node* node = directories_->Find(object)) {
    AddProtected(*node, client, admits, refused);
  }
  // Without visible exports below, a directory needs no protection.
  return admits ? nullptr : refused;
}

void Namespace::LogRefusal(const Export& in, const fs::Handle& object, const rpc::CallContext& call) const {
  if (const Export* const refused = RefusalOf(in, object, call.peer)) {
    exports_.refusals().RefuseProtection(call.peer, *refused);
    return;
  }
  exports_.refusals().RefuseFlavor(call, in, FlavorsOf(in, object, call.peer));
}

std::string_view Namespace::PathOf(const Export& in) const {
  const std::string_view path = in.path();
  if (root_->path == "/") return path;
  if (path == root_->path) return "/";
  return IsBelow(root_->path, path) ? path.substr(root_->path.size()) : path;
}

Place Namespace::Root(const Client& client) const {
  if (const Export* exported = At(*root_, client)) return {exported, exported->file_system().Root()};
  if (!IsVisible(*root_, client)) exports_.refusals().RefuseAll(client.address);
  return {&pseudo_, PseudoFileSystem::HandleOf(*root_)};
}

bool Namespace::IsTop(const Object& object) const {
  return &object.in() == &pseudo_ || object.object() == object.file_system().Root();
}

Task<fs::Result<fs::Handle>> Namespace::Walk(const Export& from, std::string_view path, Loop* loop) {
  const fs::RequestContext context = OwnContext(loop);
  fs::Handle at = from.file_system().Root();
  while (!path.empty()) {
    const std::string_view name = path.substr(0, path.find('/'));
    path.remove_prefix(std::min(path.size(), name.size() + 1));
    const auto found = co_await from.file_system().Lookup(context, at, name);
    if (!found.result) co_return std::unexpected(found.result.error());
    at = found.result->handle;
  }
  co_return at;
}

Task<bool> Namespace::IsJunction(const Object& directory, std::string_view name) const {
  const auto junctions = co_await JunctionsIn(directory, nullptr, name);
  co_return !junctions.empty();
}

Task<std::vector<Junction>> Namespace::JunctionsIn(const Object& directory, const Client* client,
                                                   std::string_view only) const {
  std::vector<Junction> junctions;
  const Export& in = directory.in();
  if (&in == &pseudo_) {
    const Node* node = directories_->Find(directory.object());
    if (!node) co_return junctions;
    for (const Node* child : node->children) {
      if (!only.empty() && child->name != only) continue;
      const Export* leads_to = client ? At(*child, *client) : nullptr;
      if (!client || leads_to || !IsVisible(*child, *client)) junctions.push_back({child->name, leads_to, child->id});
    }
    co_return junctions;
  }
  for (const auto& exported : table_->all()) {
    if (!IsBelow(in.path(), exported->path()) || (client && !exported->Admits(*client))) continue;
    const std::string_view name = LastName(exported->path());
    if (!only.empty() && name != only) continue;
    std::string_view parent = Below(in.path(), exported->path());
    parent.remove_suffix(std::min(parent.size(), name.size() + 1));
    const auto stands_in = co_await Walk(in, parent, directory.context().loop);
    if (stands_in && *stands_in == directory.object()) junctions.push_back({name, exported.get()});
  }
  co_return junctions;
}

// Finds the object that a client sees at the path of `node`.
Task<fs::Result<Place>> Namespace::Resolve(const Node& node, const Client& client, Loop* loop) const {
  for (const Node* above = &node; above; above = above->parent) {
    const Export* exported = At(*above, client);
    if (!exported) continue;
    const auto found = co_await Walk(*exported, Below(above->path, node.path), loop);
    if (!found) break;
    co_return Place{exported, *found};
  }
  co_return Place{&pseudo_, PseudoFileSystem::HandleOf(node)};
}

Task<fs::Result<Place>> Namespace::ParentOfTop(const Object& object, const Client& client) const {
  const Node* node = &object.in() == &pseudo_ ? directories_->Find(object.object())
                                              : directories_->Find(std::string_view(object.in().path()));
  if (!node) co_return std::unexpected(fs::Error::kStale);
  if (!node->parent || node == root_) co_return std::unexpected(fs::Error::kNoEnt);
  co_return co_await Resolve(*node->parent, client, object.context().loop);
}

Task<uint64_t> Namespace::MountedOnFileId(const Object& root, uint64_t own, const Client& client) const {
  const Node* node = directories_->Find(std::string_view(root.in().path()));
  if (&root.in() == &pseudo_ || !node || !node->parent || node == root_) co_return own;
  Loop* loop = root.context().loop;
  const auto parent = co_await Resolve(*node->parent, client, loop);
  if (!parent) co_return own;
  if (parent->in == &pseudo_) co_return node->id;
  const auto covered = co_await parent->in->file_system().Lookup(OwnContext(loop), parent->object, node->name);
  co_return covered.result ? covered.result->attributes.fileid : own;
}

}  // namespace penstock::nfs::v4
