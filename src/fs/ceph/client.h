// What Penstock uses of libcephfs, as an interface. It is implemented by the module penstock-ceph.so, which alone is
// linked with libcephfs, so that a server without CephFS needs none of Ceph's libraries.
//
// A client of the cluster is one mount of a file system. Any thread may call any method of it, and every method may
// block for as long as the cluster does not answer. A method returns zero, or another number that is not negative, or
// a negative errno. -ESHUTDOWN and -ENOTCONN mean that the cluster has ended the mount (an MDS has evicted the client,
// for example): nothing but its end will succeed from then on.
#pragma once

#include <sys/uio.h>

#include <chrono>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "fs/ceph/location.h"
#include "fs/types.h"
#include "objects/store.h"

namespace penstock::fs::ceph {

// References to objects of libcephfs.
struct Inode;
struct OpenFile;
struct OpenDirectory;

// What names an inode in the whole file system. The cluster does not give a number to another object later.
struct InodeNumber {
  uint64_t ino = 0;
  uint64_t snapshot = 0;
  auto operator<=>(const InodeNumber&) const = default;
};

inline constexpr uint64_t kNoSnapshot = static_cast<uint64_t>(-2);         // the live file system
inline constexpr uint64_t kSnapshotDirectory = static_cast<uint64_t>(-1);  // a directory ".snap"

struct Stat {
  InodeNumber number;
  // The fsid is the client's, and the fileid of an object in a snapshot differs from that of the live object.
  Attributes attributes;
};

// What Client::SetAttributes() sets.
struct NewStat {
  std::optional<uint32_t> mode;
  std::optional<uint32_t> uid;
  std::optional<uint32_t> gid;
  std::optional<uint64_t> size;
  std::optional<Timestamp> atime;
  std::optional<Timestamp> mtime;
};

inline constexpr Credentials kAsRoot{0, 0, {}};

// The user that a caller is to the cluster. libcephfs takes the number -1 for "not given", and then uses the process's.
inline uint32_t UidOf(const Credentials& caller) { return caller.uid == UINT32_MAX ? Credentials().uid : caller.uid; }
inline uint32_t GidOf(const Credentials& caller) { return caller.gid == UINT32_MAX ? Credentials().gid : caller.gid; }

struct Entry {
  std::string_view name;  // until the next call
  int64_t position = 0;   // continues after this entry
  // If asked for: the object, which the caller must Put().
  Inode* inode = nullptr;
  Stat stat;  // of "number" and "attributes.fileid" if the object was not asked for
};

struct Totals {
  uint64_t block_size = 0;
  uint64_t blocks = 0;
  uint64_t free_blocks = 0;
  uint64_t available_blocks = 0;
  uint64_t files = 0;
};

class Client {
 public:
  virtual ~Client() = default;  // ends the mount; no other call may be running

  // The number of the file system, among all file systems of all clusters.
  virtual uint64_t fsid() const = 0;
  // In octets.
  virtual uint64_t max_file_size() const = 0;

  // --- References. Each one that a method returns must be given back by Put().
  virtual int Root(Inode*& root) = 0;
  virtual int Find(const InodeNumber& number, Inode*& inode) = 0;
  virtual void Put(Inode* inode) = 0;

  // --- With the rights of `caller`, which libcephfs and the MDS check. A new object belongs to the caller.
  virtual int Lookup(const Credentials& caller, Inode* directory, const std::string& name, Inode*& found,
                     Stat& stat) = 0;
  virtual int SetAttributes(const Credentials& caller, Inode* inode, const NewStat& values) = 0;
  // O_EXCL; the result is open for reading and writing.
  virtual int Create(const Credentials& caller, Inode* directory, const std::string& name, uint32_t mode, Inode*& made,
                     OpenFile*& file, Stat& stat) = 0;
  virtual int MakeDirectory(const Credentials& caller, Inode* directory, const std::string& name, uint32_t mode,
                            Inode*& made, Stat& stat) = 0;
  virtual int MakeSymlink(const Credentials& caller, Inode* directory, const std::string& name,
                          const std::string& target, Inode*& made, Stat& stat) = 0;
  // `mode` with the type, as for mknod().
  virtual int MakeNode(const Credentials& caller, Inode* directory, const std::string& name, uint32_t mode,
                       const Device& device, Inode*& made, Stat& stat) = 0;
  virtual int Unlink(const Credentials& caller, Inode* directory, const std::string& name) = 0;
  virtual int RemoveDirectory(const Credentials& caller, Inode* directory, const std::string& name) = 0;
  virtual int Rename(const Credentials& caller, Inode* from, const std::string& from_name, Inode* to,
                     const std::string& to_name) = 0;
  virtual int Link(const Credentials& caller, Inode* inode, Inode* directory, const std::string& name) = 0;
  virtual int OpenDir(const Credentials& caller, Inode* directory, OpenDirectory*& opened) = 0;
  virtual int GetXattr(const Credentials& caller, Inode* inode, const std::string& name,
                       std::vector<std::byte>& value) = 0;
  // `flags`: those of setxattr().
  virtual int SetXattr(const Credentials& caller, Inode* inode, const std::string& name, ConstBytes value,
                       int flags) = 0;
  virtual int RemoveXattr(const Credentials& caller, Inode* inode, const std::string& name) = 0;
  virtual int ListXattrs(const Credentials& caller, Inode* inode, std::vector<std::string>& names) = 0;

  // --- With root's rights.

  // kCached: what the client knows, without asking the MDS. It is right at the moment only if the client has the
  // capabilities for it, or after a call of this client that has changed the object.
  enum class Freshness : uint8_t { kCurrent, kCached };
  virtual int GetAttributes(Inode* inode, Stat& stat, Freshness freshness) = 0;
  virtual int ReadLink(Inode* inode, std::string& target) = 0;
  virtual int GetTotals(Inode* inode, Totals& totals) = 0;
  // Waits until the changes of the object by this client are on stable storage: its attributes, and for a directory
  // its entries.
  virtual int SyncInode(Inode* inode) = 0;

  virtual int Open(Inode* inode, int flags, OpenFile*& file) = 0;
  virtual void Close(OpenFile* file) = 0;
  // Returns the number of octets, fewer than requested only at the end of the file.
  virtual int64_t Read(OpenFile* file, uint64_t offset, Bytes into) = 0;
  virtual int64_t Write(OpenFile* file, uint64_t offset, std::span<const iovec> data) = 0;
  // Waits until all data of the file that this client has written are on stable storage. Fails if some of them are
  // lost; that is told once for each OpenFile.
  virtual int Sync(OpenFile* file, bool data_only) = 0;
  virtual int PunchHole(OpenFile* file, uint64_t offset, uint64_t length) = 0;

  // Goes to `position`, of an earlier Entry or zero.
  virtual void Seek(OpenDirectory* directory, int64_t position) = 0;
  // Returns 1 with the next entry, or 0 at the end. One thread at a time for each OpenDirectory.
  virtual int Next(OpenDirectory* directory, bool with_inode, Entry& entry) = 0;
  virtual void CloseDir(OpenDirectory* directory) = 0;

  // --- The cluster's wishes. Called on a thread of libcephfs, which must not be kept: the function calls no method.

  // The MDS wants this client to hold fewer inodes.
  virtual void OnWantsFewer(std::function<void()> wants_fewer) = 0;
};

// What the module offers.
class Module {
 public:
  virtual ~Module() = default;
  // Mounts the location's path as the root of a client. Fails with a message for the operator after `patience` if the
  // cluster does not answer. `name`: of the mount in the cluster; may be empty. It ends an earlier mount of this name,
  // whose process was killed, so that nobody waits for it. Only one mount at a time has the name.
  virtual SetupResult<std::unique_ptr<Client>> Mount(const Location& location, const std::string& name,
                                                     std::chrono::seconds patience) = 0;
  // Opens the objects of a cluster of servers. A call of the store waits for `patience` at most.
  virtual SetupResult<std::unique_ptr<objects::Store>> OpenPool(const ClusterLocation& location,
                                                                std::chrono::seconds patience) = 0;
};

}  // namespace penstock::fs::ceph
