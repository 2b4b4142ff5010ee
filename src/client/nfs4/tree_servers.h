// The servers of a tree, and the ways from one to another: referrals (RFC 8881 §11.5.6, RFC 7530 §8.4.3), and other
// security flavors (RFC 8881 §2.6.3).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/cancellation.h"
#include "base/loop.h"
#include "base/signal.h"
#include "base/task.h"
#include "base/workers.h"
#include "client/nfs4/dialect.h"
#include "client/nfs4/mount.h"
#include "client/nfs4/tree_parts.h"

namespace penstock::client::v4 {

// How messages name a server.
std::string ServerText(const Url& url);

using OpenedServer = Result<std::unique_ptr<ServerMount>>;
// Mounts the server. If `url` names several flavors, tries them in their order. If it names none, and the server does
// not accept AUTH_SYS for its root, tries the flavors that it accepts.
Task<OpenedServer> OpenNegotiated(Loop& loop, Workers& workers, Url url, const Dialect& dialect, MountOptions options);

// Belongs to its loop.
class TreeServers {
 public:
  // An object with its server. The handles in `node` are those that the server knows.
  struct NodeAtServer {
    ServerMount* server = nullptr;
    Node node;
  };

  // `home` is the mount of the server that `url` names. Unless `url` names one flavor, objects for which a server does
  // not accept the flavor of its mount are reached by another one. All but `home` outlive this object.
  TreeServers(Loop& loop, Workers& workers, const Url& url, const Dialect& dialect, MountOptions options,
              std::unique_ptr<ServerMount> home);

  ServerMount& home() { return home_; }
  const ServerMount& home() const { return home_; }
  Task<void> Unmount();
  // `follow` is called with each file system that a server says has moved: see ServerMount::set_follow().
  void set_follow(std::function<void(const ServerMount& server, uint64_t file_system)> follow) {
    follow_ = std::move(follow);
  }
  // All mounts abort when it is cancelled.
  Cancellation& ending() { return ending_; }
  uint64_t reconnections() const;

  // Returns the mount of the server that `url` names. `is_last`: no other server has the file system. All entrances of
  // a server share a mount for each flavor.
  Task<Result<ServerMount*>> MountOf(Url url, bool is_last, const Entrance* entrance = nullptr);
  // The entrance of one of these mounts.
  const std::optional<Entrance>& EntranceOf(const ServerMount& mount) const;

  // Whether an object whose lookup has failed may be reached by another mount.
  static bool LeadsOn(const Error& error) {
    return error.status == Status::kMoved || error.status == Status::kWrongSecurity;
  }
  // Reaches `name` in `directory` of `from`. The lookup failed for `why`. `followed` counts the referrals of one
  // lookup. `now`: the server where the object has been found before, which is preferred if it is still one of its
  // locations. Null: there is none.
  Task<Result<NodeAtServer>> Onward(ServerMount& from, const Handle& directory, std::string_view name, const Error& why,
                                    unsigned& followed, const Url* now = nullptr);
  // Goes on at one of the locations of `what` that `from` has told.
  Task<Result<NodeAtServer>> GoTo(ServerMount& from, std::string_view what, Result<std::vector<Location>> told,
                                  unsigned& followed, const Url* now = nullptr);

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

  void HandleMounted(Server& server, std::unique_ptr<ServerMount> mount);
  Task<OpenedServer> OpenAt(const Url& url, const Entrance* entrance);
  Task<Result<void>> Probe(Url url);
  Task<Result<NodeAtServer>> Step(ServerMount& from, const Handle& directory, std::string_view name,
                                  unsigned& followed);
  // Looks `name` up by a flavor that the server accepts for it.
  Task<Result<NodeAtServer>> Secure(ServerMount& from, const Handle& directory, std::string_view name);
  // How to mount the server of a location that `from` has told.
  Url UrlOf(const ServerMount& from, const Location& location) const;
  // Finds the file system at a location that a referral of `from` names.
  Task<Result<NodeAtServer>> Reach(const ServerMount& from, const Location& location, bool is_last, unsigned& followed);
  Task<Result<NodeAtServer>> Walk(ServerMount& server, const std::vector<std::string>& path, unsigned& followed);

  Cancellation ending_;
  Loop& loop_;
  Workers& workers_;
  const Url& url_;
  const Dialect& dialect_;
  MountOptions options_;
  ServerMount& home_;
  std::map<ServerKey, Server> servers_;
  std::function<void(const ServerMount&, uint64_t)> follow_;
};

}  // namespace penstock::client::v4
