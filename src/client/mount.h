// A mounted export of a server: the interface to files that all versions of NFS share. open.cc chooses the version;
// nfs3/ and nfs4/ implement the interface.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/cancellation.h"
#include "base/loop.h"
#include "base/task.h"
#include "base/workers.h"
#include "client/call_security.h"
#include "client/error.h"
#include "client/reconnecting_channel.h"
#include "client/url.h"
#include "idmap/mapper.h"
#include "rdma/provider.h"
#include "xdr/types.h"

namespace penstock::client {

// A file handle. It has room for the longest handle of any version.
struct Handle : xdr::Opaque<128> {
  using Opaque::Opaque;
  Handle() = default;
  Handle(const Opaque& octets) : Opaque(octets) {}  // NOLINT: implicit, as handles come in replies
  // For requests.
  const Opaque& octets() const { return *this; }

  // Tells which part of the mount's tree the object belongs to, since two servers may use the same octets. Zero: the
  // server that the URL names. Others are behind referrals (client/nfs4/tree.h).
  uint32_t part = 0;

  bool operator==(const Handle&) const = default;
  bool operator==(const Opaque& octets) const { return *this == Handle(octets); }
  std::strong_ordering operator<=>(const Handle&) const = default;
};

enum class FileType : uint8_t {
  kRegular,
  kDirectory,
  kSymlink,
  kBlockDevice,
  kCharacterDevice,
  kSocket,
  kFifo,
  kOther
};
// Converts an ftype3 of version 3 or an nfs_ftype4 of version 4. Their numbers agree for all types of version 3.
FileType FileTypeOf(uint32_t number);

// A timestamp of a file.
struct Time {
  int64_t seconds = 0;  // since 1970
  uint32_t nanoseconds = 0;
  bool operator==(const Time&) const = default;
};

// An attribute that the server does not have is zero.
struct Attributes {
  FileType type = FileType::kRegular;
  uint32_t mode = 0;  // the twelve mode bits of POSIX
  uint32_t links = 1;
  // A number or name@domain, as the server gives it.
  std::string owner{};
  std::string group{};
  uint64_t size = 0;
  uint64_t used = 0;  // octets of storage
  Time accessed{};
  Time modified{};
  Time changed{};  // the last change of data or attributes
  // The numbers of the file in its file system, and of the file system among those of the mount. Several servers and
  // exports may have file systems.
  uint64_t file_id = 0;
  uint64_t file_system = 0;
  // The device that a device node stands for.
  uint32_t device_major = 0;
  uint32_t device_minor = 0;
  // Changes with every change of data or attributes (RFC 8881 §5.8.1.4). In version 3 it is made from the ctime.
  uint64_t change = 0;
};

// Stands for the server's own time when it executes the call.
struct ServerTime {};

// Attributes to set. Absent values stay as they are.
struct NewAttributes {
  std::optional<uint32_t> mode{};  // the twelve mode bits of POSIX
  // A number. In version 4 also name@domain, if the server knows the name. If the server does not accept numbers, the
  // client sends names that it finds by MountOptions::owners (RFC 7530 §5.9).
  std::optional<std::string> owner{};
  std::optional<std::string> group{};
  std::optional<uint64_t> size{};  // truncates a regular file or extends it with zeros
  std::optional<std::variant<ServerTime, Time>> accessed{};
  std::optional<std::variant<ServerTime, Time>> modified{};
};

// A file: its handle and attributes from the server, and the name that led to it.
struct Node {
  Handle handle;
  Attributes attributes;
  // The directory and name of the lookup; empty for a root. Version 4.0 and the sessions of
  // 2004 open files only by name (RFC 7530 §16.16).
  Handle directory{};
  std::string name{};
};

// Succeeds if `node` is a regular file. The error says that it is a directory or of another type.
Result<void> CheckRegular(const Node& node, std::string_view what);

// The room of a file system. A number that the server does not tell is zero.
struct Space {
  uint64_t total = 0;  // octets
  uint64_t free = 0;
  uint64_t available = 0;  // of the free octets, those for the user of the mount
  uint64_t total_files = 0;
  uint64_t free_files = 0;
  uint64_t available_files = 0;
};

// An entry of a directory.
struct Entry {
  std::string name;
  // Absent if the server cannot read them, and for a referral.
  std::optional<Attributes> attributes;
  // The entry is the root of a file system of another server. Listing does not ask that server; Lookup() does.
  bool is_referral = false;
};

// The write verifier of WRITE and COMMIT replies. If it changes, the server has restarted and may have lost uncommitted
// data.
using Verifier = std::array<std::byte, 8>;

struct MountOptions {
  RetryPolicy retry;
  // Required for proto=rdma. It outlives the mount.
  rdma::Provider* provider = nullptr;
  // The most delegations that the client keeps for files that are not open; zero: the client wants no delegations. The
  // client opens a delegated file and knows its attributes without a call, until the server recalls the delegation or
  // newer ones replace it. The return of a delegation costs one call. Only from version 4.1 on.
  size_t delegations = 1024;
  // Finds the names of owners and groups for a server of version 4 that does not accept numbers. It outlives the mount.
  // Null: the client does not send names in place of numbers.
  const idmap::Mapper* owners = nullptr;
  // Makes the initiators of security contexts for sec=krb5, krb5i and krb5p. Empty: KerberosInitiators({}).
  MakeInitiator initiators{};
  // Ends Open() early, as Abort() ends a mount. It outlives the call of Open(). Null: nothing does.
  Cancellation* cancellation = nullptr;
};

// The sizes of one READ, WRITE or listing: the server's preference, limited by the client.
struct TransferSizes {
  uint32_t read = 4096;
  uint32_t write = 4096;
  uint32_t directory = 4096;
};

enum class Access : uint8_t { kRead = 1, kWrite = 2, kBoth = 3 };

// What CreateFile() does with a regular file that has the name already.
enum class CreateMode : uint8_t {
  kTruncate,   // truncates it to zero octets
  kKeep,       // leaves it as it is
  kExclusive,  // fails with Status::kExists, also if the name belongs to another object
};

enum class LockKind : uint8_t { kShared, kExclusive };
// A range of octets of a file. It may reach beyond the end of the file. The default is the whole file.
struct ByteRange {
  static constexpr uint64_t kToEnd = ~uint64_t{0};
  uint64_t offset = 0;
  uint64_t length = kToEnd;
  bool operator==(const ByteRange&) const = default;
};
// A lock of another owner that conflicts with a request.
struct LockConflict {
  ByteRange range;
  LockKind kind = LockKind::kShared;
};

// An open regular file. Calls may run at the same time. The mount outlives the file.
class File {
 public:
  virtual ~File() = default;

  const Node& node() const { return node_; }
  // The name in errors.
  const std::string& name() const { return name_; }

  struct ReadReply {
    uint32_t count = 0;
    bool eof = false;
  };
  // Reads up to into.size() octets, but at most sizes().read. The transport places the data directly in `into` if it
  // can.
  virtual Task<Result<ReadReply>> Read(uint64_t offset, Bytes into) = 0;

  struct WriteReply {
    uint32_t count = 0;
    Verifier verifier{};
  };
  // Writes at most sizes().write octets, unstable: call Commit() afterwards, and write again if its verifier differs.
  // `from` must stay valid until the task is done.
  virtual Task<Result<WriteReply>> Write(uint64_t offset, ConstBytes from) = 0;
  virtual Task<Result<Verifier>> Commit() = 0;

  // Advisory byte-range locks. Version 3 has none: Status::kNotSupported. `owner` names a lock-owner within this open
  // file. The locks of one owner conflict with those of other owners and of other open files. A new lock replaces older
  // locks of its owner in the range. A lock needs the access of its kind.
  //
  // After a restart of the server the client reclaims the locks together with the file. If that fails, for example
  // because the lease has expired, the owner's next call fails once with Status::kExpired. Until then all reads and
  // writes of the file fail in the same way, because another client may have locked and changed it. After the error the
  // owner can lock again.
  //
  // Fails with Status::kDenied if the lock is not available before `patience` has passed, or before `impatience`, which
  // may be null and outlives the call, is cancelled. A request that is under way then is not cancelled.
  virtual Task<Result<void>> Lock(std::string owner, ByteRange range, LockKind kind,
                                  Duration patience = Duration::zero(), Cancellation* impatience = nullptr) = 0;
  // Succeeds also if the owner has not locked the range.
  virtual Task<Result<void>> Unlock(std::string owner, ByteRange range) = 0;
  // Returns a conflicting lock, or nothing if the lock is available now.
  virtual Task<Result<std::optional<LockConflict>>> TestLock(std::string owner, ByteRange range, LockKind kind) = 0;

  // Also releases the locks. Call it once, when no other call is under way. Without it the server keeps the file open
  // until the mount ends.
  virtual Task<Result<void>> Close() = 0;

 protected:
  File(Node node, std::string_view name) : node_(std::move(node)), name_(name) {}

  // Makes the error for a reply that contradicts itself.
  Error Contradiction(std::string_view operation) const;

 private:
  const Node node_;
  const std::string name_;
};

// Belongs to its loop. Any number of calls may run at the same time; the mount must outlive them. `what` is the name at
// the beginning of error messages.
//
// In version 4 the tree may go on at other servers, where Lookup() follows a referral. Then version(), sizes(),
// transport(), trouble() and Ping() concern the server that the URL names. Errors of other servers tell their trouble.
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
  // and opens it for reading and writing. If an exclusive creation succeeds, this call has created the file, also if it
  // was sent several times. If it fails after the creation, the file may stay behind.
  virtual Task<Result<std::unique_ptr<File>>> CreateFile(const Handle& directory, std::string_view name, uint32_t mode,
                                                         CreateMode how = CreateMode::kTruncate) = 0;
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

  // Calls `entry` for each entry of the directory except "." and "..", in the order of the server.
  virtual Task<Result<void>> List(const Handle& directory, std::string_view what, std::function<void(Entry)> entry) = 0;

 protected:
  Mount(Loop& loop, Url url) : loop_(loop), url_(std::move(url)) {}

  // Makes the error of List() for a reply that does not end the directory and does not advance the cookie.
  static Error EndlessListing(std::string_view what);

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
