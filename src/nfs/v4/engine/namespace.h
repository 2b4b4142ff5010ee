// The one tree that a client of NFSv4 sees (RFC 8881 §7, RFC 7530 §7): exports joined by directories of our own.
//
// Where an export's path leads through another export's directories, its root stands in for the directory of its name
// there (which should exist, like a mount point); everywhere else through PseudoFileSystem's. A client sees the exports
// that admit it, and what leads to them. Where it is admitted to "/", its tree begins there.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "nfs/exports.h"
#include "nfs/v4/engine/pseudo_file_system.h"
#include "rpc/transport.h"

namespace penstock::nfs::v4 {

class Object;

// The server's own look about, for nobody in particular.
fs::RequestContext OwnContext(Loop* loop);

// An object, and the export that it is in.
struct Place {
  const Export* in = nullptr;
  fs::Handle object;
};

// A name in a directory that is not what the directory's file system says.
struct Junction {
  std::string_view name;
  const Export* leads_to = nullptr;  // null: the name is not to be seen
  uint64_t covered_fileid = 0;       // of the directory that it stands in for, where that is a PseudoFileSystem's
};

// Never changes; any thread.
class Namespace {
 public:
  using Client = rpc::Peer;

  // `exports` outlives it and does not change any more. An error where two paths cannot be told apart in handles.
  static SetupResult<std::unique_ptr<const Namespace>> Make(const Exports& exports, fs::Timestamp started);

  // The export of a handle, the directories above exports included; null where there is none, or none for this client.
  const Export* Find(ExportId id, const Client& client) const;
  // How clients may call for an object. Above exports it is as for any of those below that admit the client, so that each
  // of them can be reached (RFC 8881 §2.6.3.1.1.3).
  SecurityFlavors FlavorsOf(const Export& in, const fs::Handle& object, const Client& client) const;
  // Where a client's tree begins.
  Place Root(const Client& client) const;

  // In a directory, all of them, or those of one name.
  Task<std::vector<Junction>> JunctionsIn(const Object& directory, const Client& client,
                                          std::string_view only = {}) const;
  // What is above the root of an export, or a directory above exports. kNoEnt: nothing.
  bool IsTop(const Object& object) const;
  Task<fs::Result<Place>> ParentOfTop(const Object& object, const Client& client) const;
  // The fileid of the directory that the root of an export stands in for: what a local READDIR of its parent would show
  // (RFC 8881 §5.8.2.23). Its own where there is none.
  Task<uint64_t> MountedOnFileId(const Object& root, uint64_t own, const Client& client) const;

 private:
  using Node = PseudoFileSystem::Node;

  Namespace(const Exports& exports, fs::Timestamp started);
  const Export* At(const Node& node, const Client& client) const;
  bool IsVisible(const Node& node, const Client& client) const;
  void AddFlavors(const Node& node, const Client& client, SecurityFlavors& flavors) const;
  Task<fs::Result<Place>> Resolve(const Node& node, const Client& client, Loop* loop) const;
  static Task<fs::Result<fs::Handle>> Walk(const Export& from, std::string_view path, Loop* loop);

  const Exports& exports_;
  const std::shared_ptr<PseudoFileSystem> directories_;
  const Export pseudo_;
  std::unordered_map<const Node*, const Export*> at_;
};

}  // namespace penstock::nfs::v4
