// The single tree that a client of NFSv4 sees (RFC 8881 §7, RFC 7530 §7). It consists of the exports and of the
// directories of PseudoFileSystem above them.
//
// If the path of an export leads into another export, the root of the inner export replaces the directory of that name,
// which should exist there like a mount point. A client sees the exports that admit it, and the directories on the
// paths to them. If the export "/" admits the client, the client's tree begins there.
//
// An export may be the root itself (fsid=0 in exports(5)). The tree then begins with it, and clients reach the exports
// below its path, each by the rest of its path.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "nfs/exports.h"
#include "nfs/v4/engine/pseudo_file_system.h"
#include "rpc/dispatch.h"
#include "rpc/transport.h"

namespace penstock::nfs::v4 {

class Object;

// The context of a request that the server makes for itself, as root.
fs::RequestContext OwnContext(Loop* loop);

// An object and its export.
struct Place {
  const Export* in = nullptr;
  fs::Handle object;
};

// A name in a directory whose meaning in the tree differs from the directory's file system.
struct Junction {
  std::string_view name;
  const Export* leads_to = nullptr;  // null if the client does not see the name
  uint64_t covered_fileid = 0;       // the fileid of the replaced directory, if that is one of PseudoFileSystem
};

// A namespace never changes: another one replaces it when the exports change. Any thread may use it.
class Namespace {
 public:
  using Client = rpc::Peer;

  // The tree of the exports in `table`, which it holds. `exports` logs refusals, and outlives the namespace. `since`:
  // when the set of directories began, as their times say. Fails if file handles cannot distinguish two paths, or if an
  // export is below a referral.
  static SetupResult<std::shared_ptr<const Namespace>> Make(const Exports& exports,
                                                            std::shared_ptr<const ExportTable> table,
                                                            fs::Timestamp since);
  // The tree of the current exports.
  static SetupResult<std::shared_ptr<const Namespace>> Make(const Exports& exports, fs::Timestamp since) {
    return Make(exports, exports.Get(), since);
  }

  // The export of a handle; the directories above exports form an export, too. Returns null if the export does not
  // exist or does not admit this client.
  const Export* Find(ExportId id, const Client& client) const;
  // The security flavors that a client may use for an object. A directory above exports takes the flavors of every
  // export below it that admits the client, so that the client can reach each of them (RFC 8881 §2.6.3.1.1.3).
  SecurityFlavors FlavorsOf(const Export& in, const fs::Handle& object, const Client& client) const;
  // Whether an object may be used over the client's connection: see Export::AdmitsProtection(). For a directory above
  // exports, whether an export below it that admits the client may be.
  bool AdmitsProtection(const Export& in, const fs::Handle& object, const Client& client) const {
    return !RefusalOf(in, object, client);
  }
  // Logs why the object may not be used by this call: AdmitsProtection() is false, or FlavorsOf() does not have its
  // flavor. Call it where the client gets the refusal.
  void LogRefusal(const Export& in, const fs::Handle& object, const rpc::CallContext& call) const;
  const Refusals& refusals() const { return exports_.refusals(); }
  // Whether there is such an export, for any client.
  bool Has(ExportId id) const { return id == pseudo_.id() || table_->Find(id); }
  // The path of an export in the clients' tree, as long as the export lives.
  std::string_view PathOf(const Export& in) const;
  // The root of a client's tree.
  Place Root(const Client& client) const;

  // The junctions in a directory that the client sees: all of them, or the one with the name `only`.
  Task<std::vector<Junction>> JunctionsIn(const Object& directory, const Client& client,
                                          std::string_view only = {}) const {
    return JunctionsIn(directory, &client, only);
  }
  // Whether another export has this place in a directory, whichever clients it admits.
  Task<bool> IsJunction(const Object& directory, std::string_view name) const;
  // Whether a client that has a handle of this object may use it: not if it is a directory above exports, of which none
  // admits the client.
  bool Shows(const Export& in, const fs::Handle& object, const Client& client) const;
  // Whether the object is the root of an export or a directory above exports. ParentOfTop() finds the parent of such an
  // object; it fails with kNoEnt for the root of the tree.
  bool IsTop(const Object& object) const;
  Task<fs::Result<Place>> ParentOfTop(const Object& object, const Client& client) const;
  // The fileid of the directory that the root of an export replaces, as a local READDIR of the parent would show it
  // (RFC 8881 §5.8.2.23). Returns `own` if the root replaces no directory.
  Task<uint64_t> MountedOnFileId(const Object& root, uint64_t own, const Client& client) const;

 private:
  using Node = PseudoFileSystem::Node;

  Namespace(const Exports& exports, std::shared_ptr<const ExportTable> table, fs::Timestamp since);
  // Without a client: all junctions.
  Task<std::vector<Junction>> JunctionsIn(const Object& directory, const Client* client, std::string_view only) const;
  const Export* At(const Node& node, const Client& client) const;
  bool IsVisible(const Node& node, const Client& client) const;
  // The export because of which AdmitsProtection() is false; null if it is true.
  const Export* RefusalOf(const Export& in, const fs::Handle& object, const Client& client) const;
  void AddProtected(const Node& node, const Client& client, bool& admits, const Export*& refused) const;
  void AddFlavors(const Node& node, const Client& client, SecurityFlavors& flavors) const;
  Task<fs::Result<Place>> Resolve(const Node& node, const Client& client, Loop* loop) const;
  static Task<fs::Result<fs::Handle>> Walk(const Export& from, std::string_view path, Loop* loop);

  const Exports& exports_;
  const std::shared_ptr<const ExportTable> table_;
  const std::shared_ptr<PseudoFileSystem> directories_;
  const Export pseudo_;
  std::unordered_map<const Node*, const Export*> at_;
  const Node* root_;  // the clients' root: of the export with fsid=0, else the directory "/"
};

}  // namespace penstock::nfs::v4
