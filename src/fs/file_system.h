// The interface of a file system: one exported tree of files, on which the procedures of NFS versions 3 and 4 work.
//
// Any thread may call any method. A call resumes its caller on the thread that called. Arguments that are references
// or views (context, handles, names, data) must live until the call is done; a plain `co_await` ensures that. The
// file system checks the permission of the caller that the context names. Which hosts may call, and as which user, is
// decided earlier (nfs/exports.h).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/address.h"
#include "base/client_key.h"
#include "base/data.h"
#include "base/task.h"
#include "fs/acl.h"
#include "fs/local_lease.h"
#include "fs/local_locks.h"
#include "fs/quota.h"
#include "fs/types.h"

namespace penstock {
class Loop;
}

namespace penstock::fs {

// The context of one call.
struct RequestContext {
  Credentials credentials;
  // The loop that the caller runs on. The call resumes there after a thread of the pool has done the work, and the
  // loop's buffers take the data that is read. Null in simulations, which only a file system that stays on the
  // caller's thread (memory/) can serve.
  Loop* loop = nullptr;
  ClientKey client{};   // the client whose share of the pool's threads the call uses
  IpAddress address{};  // of that client; unspecified (0.0.0.0) if the server itself calls
};

struct ReadReply {
  Data data;         // shorter than requested only at the end of the file
  bool eof = false;  // the file ends with this data
};

struct WriteReply {
  uint32_t count = 0;
  Stability committed = Stability::kUnstable;  // at least as stable as requested
  WriteVerifier verifier;
};

// The behaviour of Create if the name exists (RFC 1813 §3.3.8).
enum class CreateMode : uint8_t {
  kUnchecked,  // accepts a regular file; of the attributes only a size of zero is then applied
  kGuarded,    // fails with kExist
  kExclusive,  // accepts the file that was created with the same verifier, even after a restart; else fails with kExist
};

struct CreateHow {
  CreateMode mode = CreateMode::kUnchecked;
  // All are applied to a new file (see Node::existed), or none if Create fails. With kExclusive, times are kInvalid,
  // because the verifier may be stored in them: the client sets them afterwards (RFC 8881 §18.16.3).
  NewAttributes attributes;
  CreateVerifier verifier;  // used with kExclusive
};

struct NodeType {
  FileType type = FileType::kFifo;  // kFifo, kSocket, kBlock or kCharacter
  Device device;                    // for kBlock and kCharacter only
};

struct DirectoryEntry {
  uint64_t fileid = 0;
  std::string_view name;
  Cookie cookie;  // continues after this entry
  // If ReadDirectory was asked for nodes: both have a value, or the error has.
  std::optional<Attributes> attributes{};
  std::optional<Handle> handle{};
  // Why the entry has no attributes and handle: kAccess if the caller may not search the directory, or if the entry
  // is the root of another file system; kDelay if the server has no descriptors or memory left. Entries that vanish
  // meanwhile are left out.
  std::optional<Error> error{};
};

// Receives the entries of a directory in their order. Another thread may call it while its owner waits for
// ReadDirectory.
class EntrySink {
 public:
  virtual ~EntrySink() = default;
  // Returns false if the sink has no room: the entry is not taken, and ReadDirectory ends before it.
  virtual bool Add(const DirectoryEntry& entry) = 0;
};

struct ReadDirectoryArguments {
  Cookie cookie;
  CookieVerifier verifier;  // zero if the cookie is zero
  bool with_nodes = false;  // for READDIRPLUS: adds attributes and handles
};

struct ReadDirectoryReply {
  CookieVerifier verifier;
  bool eof = false;  // all entries were given
};

struct Space {
  uint64_t total_bytes = 0;
  uint64_t free_bytes = 0;
  uint64_t available_bytes = 0;  // available to the caller
  uint64_t total_files = 0;
  uint64_t free_files = 0;
  uint64_t available_files = 0;
};

// An OPEN of version 4, for a file system that records what callers do.
struct OpenRecord {
  const Handle& at;  // the directory, or without a name, the file
  std::string_view name{};
  bool reads = false;
  bool writes = false;
  std::string_view result{};  // "ok", or the protocol's name of the error
};

// Keeps an object usable by its handle after its last name was removed, as long as this reference exists.
using Pinned = std::shared_ptr<const void>;

enum class SeekWhat : uint8_t { kData, kHole };

struct SeekReply {
  bool found = false;   // a place of that kind exists before the end of the file; for a hole, the end counts
  uint64_t offset = 0;  // where the place begins; the size of the file if it was not found
};

// The announced use of a range of a file.
enum class Advice : uint8_t { kWillNeed, kDontNeed };

struct CopyReply {
  uint64_t count = 0;  // octets copied; zero only if the source ends
  WriteVerifier verifier;
};

// The behaviour of SetXattr if the attribute exists, or does not exist (RFC 8276 §8.4.2).
enum class XattrMode : uint8_t {
  kEither,
  kCreate,   // fails with kExist if it exists
  kReplace,  // fails with kNoXattr if it does not exist
};

// Properties that do not change while the file system is served. FSINFO and PATHCONF report them.
struct Properties {
  uint64_t max_file_size = INT64_MAX;
  Timestamp time_granularity{0, 1};
  uint32_t link_max = 0;
  uint32_t name_max = 255;
  bool hard_links = true;
  bool symlinks = true;
  bool homogeneous = true;  // the properties hold for every object
  bool can_set_time = true;
  bool no_truncate = true;  // long names are rejected, not truncated
  bool chown_restricted = true;
  bool case_insensitive = false;
  bool case_preserving = true;
  bool read_only = false;         // the whole file system is read-only
  bool xattrs = false;            // extended attributes are supported
  bool acls = false;              // access control lists are supported
  bool quotas = false;            // quotas are kept
  uint32_t clone_block_size = 0;  // the unit of cloned ranges; zero if files cannot be cloned
  // A file that a caller has opened for writing can be written only while it is pinned: a server without root's rights
  // may not open it again if its mode lets nobody write.
  bool writers_need_pin = false;
  // Other servers have the same files, and their clients may read and change them at any time, without a word to this
  // server. So no delegations are given.
  bool has_other_servers = false;
  // A directory cookie of 2^31 or more is the position of the next entry among all numbers, as hashes of names are: the
  // entries come in the order of their positions, and ReadDirectory accepts any number of 2^31 or more, and continues
  // with the first entry at or after it.
  bool positional_cookies = false;
};

// A name is one component of a path. An empty name, and one with '/' or NUL, is kBadName. Lookup accepts "." and
// ".."; methods that create or remove a name reject both (kExist, kInvalid, kIsDir: fs/names.h).
class FileSystem {
 public:
  virtual ~FileSystem() = default;

  // The exported directory. Its ".." is itself.
  virtual Handle Root() const = 0;
  virtual const Properties& GetProperties() const = 0;
  // Returns the identity of the object that a handle leads to, from the octets of the handle alone. The other methods
  // check whether the object still exists. Never fails for a handle that this file system gave since it was started.
  // Fails with kBadHandle for a forged handle or one of another export, and with kStale for a handle in the format of
  // an earlier version.
  virtual Result<Identity> Identify(const Handle& object) const = 0;

  virtual Task<Result<Attributes>> GetAttributes(const RequestContext& context, const Handle& object) = 0;
  // With a guard, fails with kNotSync unless the guard equals the object's ctime.
  virtual Task<Changed<void>> SetAttributes(const RequestContext& context, const Handle& object,
                                            const NewAttributes& values, std::optional<Timestamp> guard) = 0;
  // The attributes in the reply are those of the directory.
  virtual Task<Observed<Node>> Lookup(const RequestContext& context, const Handle& directory,
                                      std::string_view name) = 0;
  // Returns the rights of `wanted` that the caller has, among those that apply to the object. OPEN uses it as well:
  // kAccessRead or kAccessExecute for reading (a caller with the right to execute a program may read it, to run it),
  // kAccessModify for writing. Access ignores ownership, whereas Read and Write always admit the owner.
  virtual Task<Observed<AccessMask>> Access(const RequestContext& context, const Handle& object, AccessMask wanted) = 0;
  virtual Task<Observed<std::string>> ReadLink(const RequestContext& context, const Handle& symlink) = 0;
  virtual Task<Observed<ReadReply>> Read(const RequestContext& context, const Handle& file, uint64_t offset,
                                         uint32_t count) = 0;
  // The data may be arriving. If no more comes, or after Data::EndArrival(), Write writes what is there, and reports so
  // many octets.
  virtual Task<Changed<WriteReply>> Write(const RequestContext& context, const Handle& file, uint64_t offset,
                                          const Data& data, Stability stability) = 0;
  // Makes all data of the file stable. The range that the client named does not matter.
  virtual Task<Changed<WriteVerifier>> Commit(const RequestContext& context, const Handle& file) = 0;

  // The following methods change the directory and return the new object.
  virtual Task<Changed<Node>> Create(const RequestContext& context, const Handle& directory, std::string_view name,
                                     const CreateHow& how) = 0;
  virtual Task<Changed<Node>> MakeDirectory(const RequestContext& context, const Handle& directory,
                                            std::string_view name, const NewAttributes& attributes) = 0;
  virtual Task<Changed<Node>> MakeSymlink(const RequestContext& context, const Handle& directory, std::string_view name,
                                          std::string_view target, const NewAttributes& attributes) = 0;
  virtual Task<Changed<Node>> MakeNode(const RequestContext& context, const Handle& directory, std::string_view name,
                                       const NodeType& type, const NewAttributes& attributes) = 0;

  // For all objects but directories.
  virtual Task<Changed<void>> Remove(const RequestContext& context, const Handle& directory, std::string_view name) = 0;
  virtual Task<Changed<void>> RemoveDirectory(const RequestContext& context, const Handle& directory,
                                              std::string_view name) = 0;
  virtual Task<Renamed> Rename(const RequestContext& context, const Handle& from_directory, std::string_view from_name,
                               const Handle& to_directory, std::string_view to_name) = 0;
  virtual Task<Linked> Link(const RequestContext& context, const Handle& file, const Handle& directory,
                            std::string_view name) = 0;

  // Gives `sink` the entries after `cookie`, including "." and "..", until it has no room. An entry that exists during
  // a whole sequence of calls, from cookie to cookie, is given exactly once, even if other entries are added or
  // removed.
  virtual Task<Observed<ReadDirectoryReply>> ReadDirectory(const RequestContext& context, const Handle& directory,
                                                           const ReadDirectoryArguments& arguments,
                                                           EntrySink& sink) = 0;

  virtual Task<Observed<Space>> GetSpace(const RequestContext& context, const Handle& object) = 0;

  // Returns the quota of a user or a group, without regard to the caller's rights. Returns no value if the file system
  // keeps no quotas of this kind. Fails with kPerm if the server has no right to read it.
  virtual Task<Result<std::optional<Quota>>> GetQuota(const RequestContext& /*context*/, QuotaKind /*kind*/,
                                                      uint32_t /*id*/) {
    co_return std::nullopt;
  }

  // --- For callers that keep files open (version 4)

  // Pins a regular file: while the result lives, a file whose last name was removed (its nlink is then zero) stays
  // usable by its handle, for all callers. A pinned file takes up to three file descriptors (in posix/), however
  // often it is pinned. Fails with kDelay if too many files are pinned. The result must be released before the file
  // system ends; it may be released with a lock held, because resources are freed elsewhere.
  virtual Task<Result<Pinned>> Pin(const RequestContext& context, const Handle& file) = 0;
  // Opens a regular file for the byte-range locks of one owner, so that local programs see them. The result is null
  // if no such programs exist, or if the file system or the server's rights do not allow it: then locks apply to
  // clients only. `exclusive` asks for locks of both kinds, if the server may write to the file
  // (LocalLocks::CanExclude). Fails with kDelay if no descriptor is left, or if another program has a lease on the
  // file; the call breaks that lease.
  virtual Task<Result<std::shared_ptr<LocalLocks>>> OpenLocks(const RequestContext& /*context*/, const Handle& /*file*/,
                                                              bool /*exclusive*/) {
    co_return nullptr;
  }
  // Takes a lease, which tells when a local program is about to change the data of a regular file. The reply has no
  // lease, and is not contended, if no such programs exist, or if the file system, the server's rights or its
  // descriptors do not allow it. The server's own opens for writing break the lease as well: Write and similar
  // methods fail with kDelay until the lease is given up.
  virtual Task<LeaseReply> OpenLease(const RequestContext& /*context*/, const Handle& /*file*/) {
    co_return LeaseReply{};
  }

  // --- For file systems that record what callers do

  // Whether RecordOpen() does anything. If it does, callers that keep files open call it when an open has ended.
  virtual bool RecordsOpens() const { return false; }
  virtual void RecordOpen(const RequestContext& /*context*/, const OpenRecord& /*open*/) {}
  // For people: a path of an object below the root, which is "/", as far as it can be told cheaply. Otherwise returns
  // nothing. Not for access: the object may have other names, and another object may have this one by now. May block,
  // but needs no thread of the pool.
  virtual std::string PathOf(const Handle& /*object*/) { return {}; }

  // --- Space (RFC 7862). The rights of Read and of Write apply.

  // Finds the first octet at or after `offset` that is data, or in a hole. Every file has a hole at its end. Fails
  // with kNxIo if the offset is beyond the end. If the file system does not know holes, all octets are data.
  virtual Task<Observed<SeekReply>> Seek(const RequestContext& context, const Handle& file, uint64_t offset,
                                         SeekWhat what) = 0;
  // Reserves space for the range, so that a later write cannot fail for lack of space. The file grows to include the
  // range. An empty range is kInvalid.
  virtual Task<Changed<void>> Allocate(const RequestContext& context, const Handle& file, uint64_t offset,
                                       uint64_t length) = 0;
  // Replaces the range by zeros and frees its space. The size stays.
  virtual Task<Changed<void>> Deallocate(const RequestContext& context, const Handle& file, uint64_t offset,
                                         uint64_t length) = 0;
  // Copies up to `count` octets, but no more than a call can copy in a moment; the caller calls again for the rest.
  // The data is as unstable as after an unstable Write. Overlapping ranges of one file are kInvalid.
  virtual Task<Changed<CopyReply>> Copy(const RequestContext& context, const Handle& from, uint64_t from_offset,
                                        const Handle& to, uint64_t to_offset, uint64_t count) = 0;
  // Clones the range atomically, by sharing the stored blocks. A count of zero means up to the end. Fails with
  // kInvalid unless the offsets are multiples of the clone block size, and the count is one or reaches the end of the
  // source; with kNotSupported if files cannot be cloned.
  virtual Task<Changed<void>> Clone(const RequestContext& context, const Handle& from, uint64_t from_offset,
                                    const Handle& to, uint64_t to_offset, uint64_t count) = 0;
  virtual Task<Result<void>> Advise(const RequestContext& context, const Handle& file, uint64_t offset, uint64_t count,
                                    Advice advice) = 0;

  // --- Extended attributes of files and directories (RFC 8276), by names without a prefix. For other objects,
  // methods that read fail with kNoXattr, and methods that change fail with kPerm. All fail with kNotSupported if the
  // file system has no extended attributes.

  virtual Task<Observed<std::vector<std::byte>>> GetXattr(const RequestContext& context, const Handle& object,
                                                          std::string_view name) = 0;
  virtual Task<Changed<void>> SetXattr(const RequestContext& context, const Handle& object, std::string_view name,
                                       ConstBytes value, XattrMode mode) = 0;
  virtual Task<Changed<void>> RemoveXattr(const RequestContext& context, const Handle& object,
                                          std::string_view name) = 0;
  // Returns all names, sorted.
  virtual Task<Observed<std::vector<std::string>>> ListXattrs(const RequestContext& context, const Handle& object) = 0;

  // --- Access control lists. Every check of permission applies them.

  virtual Task<Observed<Acls>> GetAcls(const RequestContext& context, const Handle& object) = 0;
  // Sets the lists that have a value. The mode follows the access list as in the kernel: it takes the permissions of
  // the owner, of the mask (without a mask, of the owning group), and of others. Fails with kInvalid for a malformed
  // list, and for a default list of an object other than a directory; with kNotSupported if the file system has no
  // lists and this one says more than a mode.
  virtual Task<Changed<void>> SetAcls(const RequestContext& context, const Handle& object, const NewAcls& acls) = 0;
};

}  // namespace penstock::fs
