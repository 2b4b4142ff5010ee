// A mounted export of a server: the interface to files that all versions of NFS share. open.cc chooses the version;
// nfs3/ and nfs4/ implement the interface.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/cancellation.h"
#include "base/loop.h"
#include "base/task.h"
#include "base/workers.h"
#include "client/call_security.h"
#include "client/error.h"
#include "client/file.h"
#include "client/known_names.h"
#include "client/node.h"
#include "client/reconnecting_channel.h"
#include "client/url.h"
#include "idmap/mapper.h"
#include "rdma/provider.h"

namespace penstock::client {

class Mount;

struct MountOptions {
  // The URL limits it further.
  RetryPolicy retry{.give_up_after = kNoTimeLimit};
  // Required for proto=rdma. It outlives the mount.
  rdma::Provider* provider = nullptr;
  // The most delegations that the client keeps for files that are not open; zero: the client wants no delegations. The
  // client opens a delegated file and knows its attributes without a call, until the server recalls the delegation or
  // newer ones replace it. The return of a delegation costs one call. Only from version 4.1 on.
  size_t delegations = 4096;
  // How long the names of a directory count as known, after the server has shown that no other client has changed it
  // (RFC 8881 §10.8). Meanwhile, a client that makes files there does not look up names that are absent. Zero: it asks
  // the server for each name. Only in version 4.
  Duration trusts_directories_for{};
  // Finds the names of owners and groups for a server of version 4 that does not accept numbers. It outlives the mount.
  // Null: the client does not send names in place of numbers.
  const idmap::Mapper* owners = nullptr;
  // Makes the initiators of security contexts for sec=krb5, krb5i and krb5p. Empty: KerberosInitiators({}).
  MakeInitiator initiators{};
  // A mount of the same URL for another user: the handles of one mean the same objects in the other. It outlives the
  // call of Open(). Null: handles belong to one mount.
  const Mount* shares_handles_with = nullptr;
  // Where mounts of version 3 remember which locks their servers keep if the process is killed: the next mount of the
  // server gives them back. Empty: nowhere.
  std::filesystem::path lock_records{};
  // Wait for a server that cannot be reached as long as calls of the mount wait, instead of reporting that at once.
  bool waits_for_server = false;
  // Ends Open() early, as Abort() ends a mount. It outlives the call of Open(). Null: nothing does.
  Cancellation* cancellation = nullptr;
};

// The sizes of one READ, WRITE or listing: the server's preference, limited by the client.
struct TransferSizes {
  uint32_t read = 4096;
  uint32_t write = 4096;
  uint32_t directory = 4096;
};

// Belongs to its loop. Any number of calls may run at the same time; the mount must outlive them. `what` is the name at
// the beginning of error messages.
//
// In version 4 the tree may go on at other servers, where Lookup() follows a referral. Then version(), sizes(),
// transport(), trouble() and Ping() concern the server that the URL names. Errors of other servers tell their trouble.
// See also set_names().
class Mount {
 public:
  // `loop`, `workers` and options.provider outlive the mount. `workers` look up the host name.
  static Task<Result<std::unique_ptr<Mount>>> Open(Loop& loop, Workers& workers, const Url& url, MountOptions options);
  virtual ~Mount() = default;
  Mount(const Mount&) = delete;
  Mount& operator=(const Mount&) = delete;

  // Gives back the state that the server keeps for this client. Call it last, when no other call is under way.
  virtual Task<void> Unmount() = 0;
  // Ends the mount without its servers, which keep the client's state until the lease expires. Drops the connections.
  // All calls of the mount and its files that are under way or wait fail soon, perhaps before this returns, and later
  // ones at once: with the errno ECANCELED, unless they need no server. Then Unmount(), which is still due, does not
  // wait for a server. Does nothing when it is called again.
  virtual void Abort() = 0;

  // Returns the version as `vers=` of a URL names it.
  virtual std::string_view version() const = 0;
  Loop& loop() { return loop_; }
  const Url& url() const { return url_; }
  const TransferSizes& sizes() const { return sizes_; }
  const Handle& root() const { return root_; }
  // url.path relative to the root, without a leading '/'.
  const std::string& path() const { return path_; }
  // Returns kTcp or kRdma: the transport of the connection over which Ping() goes. With proto=stepup the connection
  // may have become an RDMA connection, or may have stayed on TCP.
  virtual Protocol transport() const { return url_.protocol; }
  virtual uint64_t reconnections() const = 0;
  // Says why the last call had no reply, for WithTrouble(). The message is empty if the call had a reply.
  virtual SetupError trouble() const = 0;

  // Calls procedure 0, which does nothing.
  virtual Task<Result<void>> Ping() = 0;

  // Returns the node at `path` below the root. Follows symbolic links; in the last component only if `follow` is true.
  // A link that leads out of the export is an error. `..` leads back along the path, and the root is its own parent, as
  // in a file system that is mounted on "/": no path leads out of the root.
  Task<Result<Node>> Resolve(std::string path, bool follow = true);
  // Returns the parent directory of `path` below the root, and the name in it, which need not exist. The root itself is
  // an error.
  struct Place {
    Handle directory;
    std::string name;
  };
  Task<Result<Place>> ResolvePlace(std::string path);
  // Converts an absolute path on the server to a path for Resolve(). Returns nothing if the path is outside of the
  // mount.
  std::optional<std::string> PathBelowRoot(std::string_view path) const;
  // The same for the path of a URL that otherwise equals url(). Returns nothing if that URL may lead into another
  // export.
  std::optional<std::string> PathInExport(std::string_view path) const;

  virtual Task<Result<Node>> Lookup(const Handle& directory, std::string_view name) = 0;
  virtual Task<Result<Attributes>> GetAttributes(const Handle& object, std::string_view what) = 0;
  virtual Task<Result<std::string>> ReadLink(const Handle& symlink, std::string_view what) = 0;
  // Returns the room of the file system that has the object.
  virtual Task<Result<Space>> GetSpace(const Handle& object, std::string_view what) = 0;

  virtual Task<Result<std::unique_ptr<File>>> OpenFile(const Node& file, std::string_view what, Access access) = 0;
  // Creates the regular file `name` with the twelve mode bits `mode`, or does with an existing file what `how` says,
  // and opens it at least for `access`. If an exclusive creation succeeds, this call has created the file, also if it
  // was sent several times. If it fails after the creation, the file may stay behind.
  virtual Task<Result<std::unique_ptr<File>>> CreateFile(const Handle& directory, std::string_view name, uint32_t mode,
                                                         CreateMode how = CreateMode::kTruncate,
                                                         Access access = Access::kBoth) = 0;
  // Sets all of the attributes or none, unless the server fails in the middle. Does not follow symbolic links.
  virtual Task<Result<void>> SetAttributes(const Handle& object, std::string_view what,
                                           const NewAttributes& attributes) = 0;

  // MakeDirectory() and MakeSymlink() fail with Status::kExists if the name is taken.
  virtual Task<Result<Node>> MakeDirectory(const Handle& directory, std::string_view name, uint32_t mode) = 0;
  // `target` is the text of the link. The server does not interpret it.
  virtual Task<Result<Node>> MakeSymlink(const Handle& directory, std::string_view name, std::string_view target) = 0;
  // Gives an existing file another name.
  virtual Task<Result<void>> Link(const Handle& file, const Handle& directory, std::string_view name) = 0;
  // Replaces an object that has the new name, under the same rules as POSIX rename().
  virtual Task<Result<void>> Rename(const Handle& from_directory, std::string_view from, const Handle& to_directory,
                                    std::string_view to) = 0;
  // Removes anything but a directory.
  virtual Task<Result<void>> Remove(const Handle& directory, std::string_view name) = 0;
  // Removes an empty directory.
  virtual Task<Result<void>> RemoveDirectory(const Handle& directory, std::string_view name) = 0;

  // Creates a FIFO, a socket, or a device node with these numbers.
  virtual Task<Result<Node>> MakeNode(const Handle& directory, std::string_view name, FileType type, uint32_t mode,
                                      uint32_t device_major, uint32_t device_minor) = 0;

  // Calls `entry` for each entry of the directory except "." and "..", in the order of the server.
  Task<Result<void>> List(const Handle& directory, std::string_view what, std::function<void(Entry)> entry);
  // Returns the entries from `from` on that the server puts into one reply. The listing may have no entries and not
  // end.
  virtual Task<Result<Listing>> ListFrom(const Handle& directory, std::string_view what, ListPosition from,
                                         ListContent content) = 0;

  struct Granted {
    uint32_t rights = 0;
    std::optional<Attributes> attributes{};  // if the reply has them
  };
  // Returns those of `rights` that the user has (see client/node.h).
  virtual Task<Result<Granted>> CheckAccess(const Handle& object, std::string_view what, uint32_t rights) = 0;

  // ---- extended attributes of users (RFC 8276): version 4.2; in others Status::kNotSupported ----

  // `name` is without "user.". An attribute that does not exist is an error, ENODATA.
  virtual Task<Result<std::vector<std::byte>>> GetXattr(const Handle& object, std::string_view what,
                                                        std::string_view name);
  virtual Task<Result<void>> SetXattr(const Handle& object, std::string_view what, std::string_view name,
                                      ConstBytes value, XattrMode mode);
  virtual Task<Result<std::vector<std::string>>> ListXattrs(const Handle& object, std::string_view what);
  virtual Task<Result<void>> RemoveXattr(const Handle& object, std::string_view what, std::string_view name);

  // ---- objects that move ----

  // In version 4 a file system may move to another server while it is in use (RFC 8881 §11.5.5). With `names` the mount
  // finds its objects again there, and goes on; otherwise calls fail with Status::kMoved. All mounts that share handles
  // share the names. They outlive the mount, or are replaced by null.
  virtual void set_names(const KnownNames*) {}

  // ---- access control lists ----

  // Of version 4 (RFC 8881 §6.2.1); in version 3 Status::kNotSupported.
  virtual Task<Result<std::vector<Ace>>> GetAcl(const Handle& object, std::string_view what);
  virtual Task<Result<void>> SetAcl(const Handle& object, std::string_view what, const std::vector<Ace>& acl);
  // Of version 3, by the protocol NFSACL; in version 4 Status::kNotSupported.
  virtual Task<Result<PosixAcl>> GetPosixAcl(const Handle& object, std::string_view what);
  virtual Task<Result<void>> SetPosixAcl(const Handle& object, std::string_view what, const PosixAcl& acl);

 protected:
  Mount(Loop& loop, Url url) : loop_(loop), url_(std::move(url)) {}

  Loop& loop_;
  const Url url_;
  // These are known after the mount is open.
  Handle root_;
  std::string root_path_;  // the path of root_ on the server, without a '/' at its end
  std::string path_;
  // In version 3, the paths of other exports below the root, which have roots of their own.
  std::vector<std::string> exports_below_;
  TransferSizes sizes_;
};

}  // namespace penstock::client
