// Mounts the tree of one server by NFS version 4.0, 4.1 or 4.2 (RFC 7530, RFC 8881, RFC 7862). tree.h adds the file
// systems of other servers.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/workers.h"
#include "client/mount.h"
#include "client/nfs4/dialect.h"
#include "client/nfs4/flavors.h"
#include "client/nfs4/locations.h"

namespace penstock::client::v4 {

// The most referrals that one lookup follows, and the most moves of one object that one call follows. More of them lead
// to one another.
inline constexpr unsigned kMostReferrals = 8;
inline constexpr unsigned kMostMoves = kMostReferrals;

// A mount of one server. Status::kMoved says that an object is in a file system that is absent from this server. All of
// its handles have Handle::part zero.
class ServerMount : public client::Mount {
 public:
  // Returns the locations of the absent file system whose root is `name` in `directory` (RFC 8881 §11.4.1).
  virtual Task<Result<std::vector<Location>>> GetLocations(const Handle& directory, std::string_view name) = 0;
  // The same for the absent file system that `object` is in.
  virtual Task<Result<std::vector<Location>>> GetLocationsOf(const Handle& object, std::string_view what) = 0;
  // Opens the file `at` of this server as `before` was open at another server, which the file system has left. The
  // locks are lost: see HandleReopened().
  virtual Task<Result<std::unique_ptr<client::File>>> Reopen(const client::File& before, const Node& at) = 0;
  // This server's file `before` is open as `after` at another server now, without its locks, because
  // nothing has kept them from other clients meanwhile: their owners are told so (see client::File::Lock()). RFC 8881
  // §11.11.9 lets a client reclaim locks only if both servers use the same filehandles. Closes `before`
  // in the background; if its file system has moved, this server need not keep the state (FREE_STATEID).
  virtual void HandleReopened(client::File& before, client::File& after) = 0;
  // `follow` is called with each file system (Attributes::file_system) of this server that turns out to have moved,
  // although no call has found out so: see MovedFileSystems.
  virtual void set_follow(std::function<void(uint64_t file_system)> follow) = 0;
  // Tells the server that this client reclaims no locks in a file system that has come from another server. Call it
  // before the first open there (RFC 8881 §18.51.3).
  virtual Task<void> CompleteReclaim(const Handle& root) = 0;
  // Returns the security flavors that the server accepts for `name` in `directory`.
  virtual Task<Result<Flavors>> GetFlavors(const Handle& directory, std::string_view name) = 0;

 protected:
  using client::Mount::Mount;
};

// The object at which a mount begins: `name` in `directory`.
struct Entrance {
  Handle directory;
  std::string name;
};

// Establishes a session, or a client id in version 4.0, and learns the server's root and limits. If the server does
// not speak this dialect, the error has Status::kVersionMismatch. If it accepts other flavors for its root than that of
// `url`, the error has Status::kWrongSecurity, and `accepted` gets them, as far as the server tells. With an
// `entrance`, that is the root of the mount, and the mount can be used although the server's root needs another flavor.
Task<Result<std::unique_ptr<ServerMount>>> OpenServer(Loop& loop, Workers& workers, const Url& url,
                                                      const Dialect& dialect, MountOptions options, Flavors& accepted,
                                                      const Entrance* entrance = nullptr);

}  // namespace penstock::client::v4
