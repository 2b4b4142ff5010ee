// An export of a server, mounted: what every version of NFS offers to those who want files. open.cc chooses the
// version; nfs3/ and nfs4/ implement it.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <variant>

#include "base/loop.h"
#include "base/task.h"
#include "base/workers.h"
#include "client/error.h"
#include "client/reconnecting_channel.h"
#include "client/url.h"
#include "rdma/provider.h"
#include "xdr/types.h"

namespace penstock::client {

// A file's name for the server; as long as the longest of any version.
using Handle = xdr::Opaque<128>;

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

struct Attributes {
  FileType type = FileType::kRegular;
  uint32_t mode = 0;  // the twelve bits of POSIX
  uint32_t links = 1;
  // A number where the server gives a number, otherwise name@domain.
  std::string owner{};
  std::string group{};
  uint64_t size = 0;
  int64_t modified = 0;  // in seconds since 1970
  // Another one with every change of data or attributes (RFC 8881 §5.8.1.4); in version 3 made of the time of the last.
  uint64_t change = 0;
};

// A time of a file.
struct Time {
  int64_t seconds = 0;  // since 1970
  uint32_t nanoseconds = 0;
};
// The server's own time, when it executes the call.
struct ServerTime {};

// Attributes to be set: those that are there.
struct NewAttributes {
  std::optional<uint32_t> mode{};  // the twelve bits of POSIX
  // A number; from version 4 on also a name, as the server takes it.
  std::optional<std::string> owner{};
  std::optional<std::string> group{};
  std::optional<uint64_t> size{};  // of a regular file: cut there, or grown with zeros
  std::optional<std::variant<ServerTime, Time>> accessed{};
  std::optional<std::variant<ServerTime, Time>> modified{};
};

// A file as the server named and described it.
struct Node {
  Handle handle;
  Attributes attributes;
  // Where it was found; empty for a root. Version 4.0 opens files by their names alone (RFC 7530 §16.16).
  Handle directory{};
  std::string name{};
};

// Whether `node` is a regular file, which can be read. The error says what it is instead.
Result<void> CheckRegular(const Node& node, std::string_view what);

// A directory's entry.
struct Entry {
  std::string name;
  std::optional<Attributes> attributes;
};

// Of data that was written and is not yet stable: another one later means that the server has restarted and may have
// lost it.
using Verifier = std::array<std::byte, 8>;

struct MountOptions {
  RetryPolicy retry;
  // For proto=rdma; outlives the mount.
  rdma::Provider* provider = nullptr;
  // How many files the server may delegate to us beyond those that are open; zero: none at all. What is delegated is opened,
  // and its attributes are known, without asking it again, until it wants it back, or others take its place; it costs one
  // call more in the end. From version 4.1 on.
  size_t delegations = 1024;
};

// What the server would like, limited to what we can carry.
struct TransferSizes {
  uint32_t read = 4096;
  uint32_t write = 4096;
  uint32_t directory = 4096;
};

enum class Access : uint8_t { kRead = 1, kWrite = 2, kBoth = 3 };

enum class LockKind : uint8_t { kShared, kExclusive };
// Octets of a file; they need not be there. By default all of them.
struct ByteRange {
  static constexpr uint64_t kToEnd = ~uint64_t{0};
  uint64_t offset = 0;
  uint64_t length = kToEnd;
  bool operator==(const ByteRange&) const = default;
};
// Somebody's lock that is in the way.
struct LockConflict {
  ByteRange range;
  LockKind kind = LockKind::kShared;
};

// A regular file that is open. Calls may run side by side; the mount outlives it.
class File {
 public:
  virtual ~File() = default;

  const Node& node() const { return node_; }
  // For people.
  const std::string& name() const { return name_; }

  struct ReadReply {
    uint32_t count = 0;
    bool eof = false;
  };
  // Up to into.size() octets, at most sizes().read, straight into `into` where the transport can.
  virtual Task<Result<ReadReply>> Read(uint64_t offset, Bytes into) = 0;

  struct WriteReply {
    uint32_t count = 0;
    Verifier verifier{};
  };
  // Unstable: Commit() afterwards, and write again where it does not give the same verifier. `from` stays where it is
  // until this is done; at most sizes().write octets.
  virtual Task<Result<WriteReply>> Write(uint64_t offset, ConstBytes from) = 0;
  virtual Task<Result<Verifier>> Commit() = 0;

  // Byte-range locks, which bind those who ask for them; Status::kNotSupported in version 3. `owner` names who locks,
  // within this open file: what one owner has is in the way of others, and in that of other open files. A lock replaces
  // what its owner had in that range; it needs the access that it is a lock for. After a restart of the server locks are
  // had again together with the file. Where they cannot be, because the lease has run out, say, the owner's next call
  // fails with Status::kExpired, once. Until then so do all that read or write the file: another may have locked it
  // meanwhile. What the owner has locked anew after that error is its own again.
  //
  // Status::kDenied where it cannot be had before `patience` has passed.
  virtual Task<Result<void>> Lock(std::string owner, ByteRange range, LockKind kind,
                                  Duration patience = Duration::zero()) = 0;
  // Also of what the owner has not locked.
  virtual Task<Result<void>> Unlock(std::string owner, ByteRange range) = 0;
  // A lock that is in the way of this one; nothing: it could be had now.
  virtual Task<Result<std::optional<LockConflict>>> TestLock(std::string owner, ByteRange range, LockKind kind) = 0;

  // Gives up its locks, too. To be called once, when nothing else is under way. Without it the server keeps the file open
  // until the mount is given up.
  virtual Task<Result<void>> Close() = 0;

 protected:
  File(Node node, std::string_view name) : node_(std::move(node)), name_(name) {}

  // What to say of a reply that cannot be.
  Error Contradiction(std::string_view operation) const;

 private:
  const Node node_;
  const std::string name_;
};

// Belongs to its loop. Calls may run side by side, as many as one likes; the mount must outlive them. `what` is a name
// for people, which errors begin with.
class Mount {
 public:
  // `loop`, `workers` and options.provider outlive the mount; `workers` look up the host's name.
  static Task<Result<std::unique_ptr<Mount>>> Open(Loop& loop, Workers& workers, const Url& url, MountOptions options);
  virtual ~Mount() = default;
  Mount(const Mount&) = delete;
  Mount& operator=(const Mount&) = delete;

  // Gives back what the server keeps for us. To be called once it is open, as the last thing, when nothing else is
  // under way.
  virtual Task<void> Unmount() = 0;

  // "3", "4.0", "4.1", "4.2"
  virtual std::string_view version() const = 0;
  Loop& loop() { return loop_; }
  const Url& url() const { return url_; }
  const TransferSizes& sizes() const { return sizes_; }
  const Handle& root() const { return root_; }
  // url.path, seen from the root; without a leading '/'.
  const std::string& path() const { return path_; }
  virtual uint64_t reconnections() const = 0;
  // Why the last call had no reply, for people: to be added to its error. Empty where it had one.
  virtual const std::string& trouble() const = 0;

  // Asks nothing of the server but an answer (procedure 0).
  virtual Task<Result<void>> Ping() = 0;

  // The node at `path` below the root. Symlinks on the way are followed, the last component's too where `follow`; one
  // that leads out of the export is an error.
  Task<Result<Node>> Resolve(std::string path, bool follow = true);
  // The directory that `path` below the root lies in, and the name there, which need not exist. A root has neither.
  struct Place {
    Handle directory;
    std::string name;
  };
  Task<Result<Place>> ResolvePlace(std::string path);
  // `path` on the server, as Resolve() takes it; nothing where it lies outside of what is mounted.
  std::optional<std::string> PathBelowRoot(std::string_view path) const;

  virtual Task<Result<Node>> Lookup(const Handle& directory, std::string_view name) = 0;
  virtual Task<Result<Attributes>> GetAttributes(const Handle& object, std::string_view what) = 0;
  virtual Task<Result<std::string>> ReadLink(const Handle& symlink, std::string_view what) = 0;

  virtual Task<Result<std::unique_ptr<File>>> OpenFile(const Node& file, std::string_view what, Access access) = 0;
  // The regular file `name`, made where it is not there, cut to nothing where it is; open for both.
  virtual Task<Result<std::unique_ptr<File>>> CreateFile(const Handle& directory, std::string_view name,
                                                         uint32_t mode) = 0;
  // All or nothing, but for a server that breaks off in between. Symlinks are not followed.
  virtual Task<Result<void>> SetAttributes(const Handle& object, std::string_view what,
                                           const NewAttributes& attributes) = 0;

  // What is made is new: Status::kExists where the name is taken.
  virtual Task<Result<Node>> MakeDirectory(const Handle& directory, std::string_view name, uint32_t mode) = 0;
  // `target` is the link's text, for whoever follows it.
  virtual Task<Result<Node>> MakeSymlink(const Handle& directory, std::string_view name, std::string_view target) = 0;
  // One more name of a file that has one already.
  virtual Task<Result<void>> Link(const Handle& file, const Handle& directory, std::string_view name) = 0;
  // What has the new name is replaced, where POSIX rename() would do so.
  virtual Task<Result<void>> Rename(const Handle& from_directory, std::string_view from, const Handle& to_directory,
                                    std::string_view to) = 0;
  // Anything but a directory.
  virtual Task<Result<void>> Remove(const Handle& directory, std::string_view name) = 0;
  // An empty one.
  virtual Task<Result<void>> RemoveDirectory(const Handle& directory, std::string_view name) = 0;

  // Calls `entry` for everything in the directory but "." and "..", in the server's order.
  virtual Task<Result<void>> List(const Handle& directory, std::string_view what, std::function<void(Entry)> entry) = 0;

 protected:
  Mount(Loop& loop, Url url) : loop_(loop), url_(std::move(url)) {}

  // The error of List() for a server whose last reply neither ended the directory nor moved the cookie on.
  static Error EndlessListing(std::string_view what);

  Loop& loop_;
  const Url url_;
  // Known once it is open.
  Handle root_;
  std::string root_path_;  // where root_ is, for the server; without a '/' at its end
  std::string path_;
  TransferSizes sizes_;
};

}  // namespace penstock::client
