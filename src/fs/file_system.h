// What the procedures of NFS versions 2, 3 and 4 stand on: one exported tree of files.
//
// Every method may be called from any thread. It resumes its caller on the thread that called it. What it takes by
// reference or view (context, handle, names, data) must live until it is done, which a plain `co_await` sees to.
// Object-level permission is decided here, for the caller named in the context; which hosts may come, and as whom, is
// decided before.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/client_key.h"
#include "base/data.h"
#include "base/task.h"
#include "fs/acl.h"
#include "fs/local_lease.h"
#include "fs/local_locks.h"
#include "fs/types.h"

namespace penstock {
class Loop;
}

namespace penstock::fs {

// One call's surroundings.
struct RequestContext {
  Credentials credentials;
  // The loop that the caller runs on: where the call resumes after a thread of the pool did the work, and whose buffers
  // take what is read. Null in simulations, which only a file system that never leaves the thread (memory/) can serve.
  Loop* loop = nullptr;
  ClientKey client{};  // whose turn it is that the call takes where it waits for a thread
};

struct ReadReply {
  Data data;         // shorter than asked only at the end of the file
  bool eof = false;  // the file ends with this data
};

struct WriteReply {
  uint32_t count = 0;
  Stability committed = Stability::kUnstable;  // at least what was asked
  WriteVerifier verifier;
};

// How Create meets a name that exists (RFC 1813 §3.3.8).
enum class CreateMode : uint8_t {
  kUnchecked,  // a regular file of that name will do; of the attributes only a size of zero is then obeyed
  kGuarded,    // kExist
  kExclusive,  // the file that the same verifier made will do, even after a restart; else kExist
};

struct CreateHow {
  CreateMode mode = CreateMode::kUnchecked;
  // All are obeyed where the file is new (Node::existed says), or there is no file. Of kExclusive without times
  // (kInvalid), which the verifier may be kept in: the client sets them afterwards (RFC 8881 §18.16.3).
  NewAttributes attributes;
  CreateVerifier verifier;  // of kExclusive
};

struct NodeType {
  FileType type = FileType::kFifo;  // kFifo, kSocket, kBlock or kCharacter
  Device device;                    // of the latter two
};

struct DirectoryEntry {
  uint64_t fileid = 0;
  std::string_view name;
  Cookie cookie;  // where to go on after this entry
  // Of what ReadDirectory was asked for: both, or the error.
  std::optional<Attributes> attributes{};
  std::optional<Handle> handle{};
  // Why there are none: kAccess where the caller may not search the directory, and for another file system's root;
  // kDelay where the server is out of descriptors or memory. Entries that vanished meanwhile are not given at all.
  std::optional<Error> error{};
};

// Takes a directory's entries in their order. May be called on another thread while its owner waits for ReadDirectory.
class EntrySink {
 public:
  virtual ~EntrySink() = default;
  // False where there is no room: the entry is not taken, and reading ends before it.
  virtual bool Add(const DirectoryEntry& entry) = 0;
};

struct ReadDirectoryArguments {
  Cookie cookie;
  CookieVerifier verifier;  // zero with a cookie of zero
  bool with_nodes = false;  // READDIRPLUS: attributes and handles
};

struct ReadDirectoryReply {
  CookieVerifier verifier;
  bool eof = false;  // every entry was given
};

struct Space {
  uint64_t total_bytes = 0;
  uint64_t free_bytes = 0;
  uint64_t available_bytes = 0;  // to the caller
  uint64_t total_files = 0;
  uint64_t free_files = 0;
  uint64_t available_files = 0;
};

// An object that stays usable by its handle although its last name is removed: for as long as somebody has this.
using Pinned = std::shared_ptr<const void>;

enum class SeekWhat : uint8_t { kData, kHole };

struct SeekReply {
  bool found = false;   // there is such a place before the file's end, or a hole at its end
  uint64_t offset = 0;  // where it begins; the file's size where there is none
};

// What a client is about to do with a range of a file.
enum class Advice : uint8_t { kWillNeed, kDontNeed };

struct CopyReply {
  uint64_t count = 0;  // of octets; zero only where the source ends
  WriteVerifier verifier;
};

// How SetXattr meets an attribute that exists, or does not (RFC 8276 §8.4.2).
enum class XattrMode : uint8_t {
  kEither,
  kCreate,   // else kExist
  kReplace,  // else kNoXattr
};

// What does not change while the file system is served (the file system's part of FSINFO and PATHCONF).
struct Properties {
  uint64_t max_file_size = INT64_MAX;
  Timestamp time_granularity{0, 1};
  uint32_t link_max = 0;
  uint32_t name_max = 255;
  bool hard_links = true;
  bool symlinks = true;
  bool homogeneous = true;  // the same for every object
  bool can_set_time = true;
  bool no_truncate = true;  // long names are refused, not cut
  bool chown_restricted = true;
  bool case_insensitive = false;
  bool case_preserving = true;
  bool read_only = false;         // the file system itself is: nothing in it can be changed
  bool xattrs = false;            // extended attributes are kept
  bool acls = false;              // access control lists are kept
  uint32_t clone_block_size = 0;  // what a cloned range is made of; zero where files cannot be cloned
};

// Names are one component: a name that is empty or holds '/' or NUL is kBadName. Lookup knows "." and ".."; what
// creates or removes refuses both (kExist, kInvalid, kIsDir: fs/names.h).
class FileSystem {
 public:
  virtual ~FileSystem() = default;

  // The directory that is exported: ".." of it is itself.
  virtual Handle Root() const = 0;
  virtual const Properties& GetProperties() const = 0;
  // What a handle leads to, told from its octets alone. Whether the object is still there is for the others to say. Never
  // fails for a handle that this file system gave since it was started. kBadHandle where it is forged, or another
  // export's; kStale where it is of a kind that earlier versions gave.
  virtual Result<Identity> Identify(const Handle& object) const = 0;

  virtual Task<Result<Attributes>> GetAttributes(const RequestContext& context, const Handle& object) = 0;
  // With a guard, kNotSync unless it is the object's ctime.
  virtual Task<Changed<void>> SetAttributes(const RequestContext& context, const Handle& object,
                                            const NewAttributes& values, std::optional<Timestamp> guard) = 0;
  // Observes the directory.
  virtual Task<Observed<Node>> Lookup(const RequestContext& context, const Handle& directory,
                                      std::string_view name) = 0;
  // Those of the rights in `wanted` that the caller has, of those that make sense for the object. It is what OPEN asks
  // too: kAccessRead or kAccessExecute to read (whoever may execute a program may read it, to run it), kAccessModify to
  // write. It does not know whose files are whose: Read and Write let a file's owner, whatever its mode.
  virtual Task<Observed<AccessMask>> Access(const RequestContext& context, const Handle& object, AccessMask wanted) = 0;
  virtual Task<Observed<std::string>> ReadLink(const RequestContext& context, const Handle& symlink) = 0;
  virtual Task<Observed<ReadReply>> Read(const RequestContext& context, const Handle& file, uint64_t offset,
                                         uint32_t count) = 0;
  virtual Task<Changed<WriteReply>> Write(const RequestContext& context, const Handle& file, uint64_t offset,
                                          const Data& data, Stability stability) = 0;
  // Everything that was written to the file, whatever the range asked for.
  virtual Task<Changed<WriteVerifier>> Commit(const RequestContext& context, const Handle& file) = 0;

  // These change the directory, and give the new object.
  virtual Task<Changed<Node>> Create(const RequestContext& context, const Handle& directory, std::string_view name,
                                     const CreateHow& how) = 0;
  virtual Task<Changed<Node>> MakeDirectory(const RequestContext& context, const Handle& directory,
                                            std::string_view name, const NewAttributes& attributes) = 0;
  virtual Task<Changed<Node>> MakeSymlink(const RequestContext& context, const Handle& directory, std::string_view name,
                                          std::string_view target, const NewAttributes& attributes) = 0;
  virtual Task<Changed<Node>> MakeNode(const RequestContext& context, const Handle& directory, std::string_view name,
                                       const NodeType& type, const NewAttributes& attributes) = 0;

  // Anything but a directory.
  virtual Task<Changed<void>> Remove(const RequestContext& context, const Handle& directory, std::string_view name) = 0;
  virtual Task<Changed<void>> RemoveDirectory(const RequestContext& context, const Handle& directory,
                                              std::string_view name) = 0;
  virtual Task<Renamed> Rename(const RequestContext& context, const Handle& from_directory, std::string_view from_name,
                               const Handle& to_directory, std::string_view to_name) = 0;
  virtual Task<Linked> Link(const RequestContext& context, const Handle& file, const Handle& directory,
                            std::string_view name) = 0;

  // Gives `sink` the entries after `cookie`, "." and ".." among them, until it has no room. An entry that is there
  // throughout is given exactly once by a sequence of calls from cookie to cookie, whatever happens to the others.
  virtual Task<Observed<ReadDirectoryReply>> ReadDirectory(const RequestContext& context, const Handle& directory,
                                                           const ReadDirectoryArguments& arguments,
                                                           EntrySink& sink) = 0;

  virtual Task<Observed<Space>> GetSpace(const RequestContext& context, const Handle& object) = 0;

  // --- For those that open files and keep them so (version 4)

  // Of a regular file. While somebody has what this gives, a file whose last name goes (its nlink is then zero) can be
  // used on by its handle, by everybody. A file that is pinned takes up to three file descriptors (posix/), however
  // often it is pinned; kDelay where too many files are. Let go of it before the file system ends. That may be done under
  // a lock: what it frees is freed elsewhere.
  virtual Task<Result<Pinned>> Pin(const RequestContext& context, const Handle& file) = 0;
  // For the byte-range locks of one owner on a regular file, which local programs are to see. Null where there are no such programs, or
  // the file system or the server's rights do not allow it: locks are the clients' alone then. `exclusive`: for locks of both kinds, if
  // the server may write to the file (LocalLocks::CanExclude). kDelay where a lease of somebody else is in the way, which this breaks,
  // and where there are no descriptors.
  virtual Task<Result<std::shared_ptr<LocalLocks>>> OpenLocks(const RequestContext& /*context*/, const Handle& /*file*/,
                                                              bool /*exclusive*/) {
    co_return nullptr;
  }
  // Tells when a local program is about to change the data of a regular file. No lease, and not contended, where there are no such
  // programs, or the file system, the server's rights or its descriptors do not allow it. The server's own opens for writing break it as
  // well: Write and the like are kDelay until it is given up.
  virtual Task<LeaseReply> OpenLease(const RequestContext& /*context*/, const Handle& /*file*/) {
    co_return LeaseReply{};
  }

  // --- Space (RFC 7862). Rights are those of Read and of Write.

  // The first octet at or after `offset` that is data, or in a hole. Every file has a hole at its end. kNxIo where the offset is
  // beyond the end. Where holes are not known, everything is data.
  virtual Task<Observed<SeekReply>> Seek(const RequestContext& context, const Handle& file, uint64_t offset,
                                         SeekWhat what) = 0;
  // Space for the range, so that writing there cannot fail for lack of it. The file grows to hold it. Ranges are not empty
  // (kInvalid).
  virtual Task<Changed<void>> Allocate(const RequestContext& context, const Handle& file, uint64_t offset,
                                       uint64_t length) = 0;
  // Zeros instead of the range, and their space given back. The size stays.
  virtual Task<Changed<void>> Deallocate(const RequestContext& context, const Handle& file, uint64_t offset,
                                         uint64_t length) = 0;
  // Copies up to `count` octets, as many of them as take a moment: call it again for the rest. As an unstable Write is. Ranges of
  // one file that overlap are kInvalid.
  virtual Task<Changed<CopyReply>> Copy(const RequestContext& context, const Handle& from, uint64_t from_offset,
                                        const Handle& to, uint64_t to_offset, uint64_t count) = 0;
  // At once and as a whole, by sharing what is stored. A count of zero reaches to the end. kInvalid where an offset is not a
  // multiple of the clone block size, nor the count, except at the source's end; kNotSupported where files cannot be cloned.
  virtual Task<Changed<void>> Clone(const RequestContext& context, const Handle& from, uint64_t from_offset,
                                    const Handle& to, uint64_t to_offset, uint64_t count) = 0;
  virtual Task<Result<void>> Advise(const RequestContext& context, const Handle& file, uint64_t offset, uint64_t count,
                                    Advice advice) = 0;

  // --- Extended attributes of files and directories (RFC 8276), by names without any prefix. kNoXattr for what other objects are
  // asked, kPerm for what they are told; kNotSupported where they are not kept.

  virtual Task<Observed<std::vector<std::byte>>> GetXattr(const RequestContext& context, const Handle& object,
                                                          std::string_view name) = 0;
  virtual Task<Changed<void>> SetXattr(const RequestContext& context, const Handle& object, std::string_view name,
                                       ConstBytes value, XattrMode mode) = 0;
  virtual Task<Changed<void>> RemoveXattr(const RequestContext& context, const Handle& object,
                                          std::string_view name) = 0;
  // All of them, in the order of their names.
  virtual Task<Observed<std::vector<std::string>>> ListXattrs(const RequestContext& context, const Handle& object) = 0;

  // --- Access control lists. What they say counts wherever permission is decided.

  virtual Task<Observed<Acls>> GetAcls(const RequestContext& context, const Handle& object) = 0;
  // Sets those that are given. The mode follows the list as the kernel's does: the permissions of its owner, of its mask (else of its
  // group), and of others. kInvalid for a list that is none, and for a default where there is no directory; kNotSupported where
  // lists are not kept and this one says more than a mode.
  virtual Task<Changed<void>> SetAcls(const RequestContext& context, const Handle& object, const NewAcls& acls) = 0;
};

}  // namespace penstock::fs
