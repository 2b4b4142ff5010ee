// What the procedures of NFS versions 2, 3 and 4 stand on: one exported tree of files.
//
// Every method may be called from any thread. It resumes its caller on the thread that called it. What it takes by
// reference or view (context, handle, names, data) must live until it is done, which a plain `co_await` sees to.
// Object-level permission is decided here, for the caller named in the Context; which hosts may come, and as whom, is
// decided before.
#pragma once

#include <string>
#include <string_view>

#include "base/data.h"
#include "base/task.h"
#include "fs/types.h"

namespace penstock {
class Loop;
}

namespace penstock::fs {

// One call's surroundings.
struct Context {
  Credentials credentials;
  // The loop that the caller runs on: where the call resumes after a thread of the pool did the work, and whose buffers
  // take what is read. Null in simulations, which only a file system that never leaves the thread (memory/) can serve.
  Loop* loop = nullptr;
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
  NewAttributes attributes;  // not of kExclusive: there the client sets them afterwards
  CreateVerifier verifier;   // of kExclusive
};

struct NodeType {
  FileType type = FileType::kFifo;  // kFifo, kSocket, kBlock or kCharacter
  Device device;                    // of the latter two
};

struct DirectoryEntry {
  uint64_t fileid = 0;
  std::string_view name;
  Cookie cookie;  // where to go on after this entry
  // Of what ReadDirectory was asked for; absent also where the entry vanished meanwhile or is another file system's.
  std::optional<Attributes> attributes;
  std::optional<Handle> handle;
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
};

// Names are one component: a name that is empty or holds '/' or NUL is kBadName. Lookup knows "." and ".."; what
// creates or removes refuses both (kExist, kInvalid, kIsDir: fs/names.h).
class FileSystem {
 public:
  virtual ~FileSystem() = default;

  // The directory that is exported: ".." of it is itself.
  virtual Handle Root() const = 0;
  virtual const Properties& GetProperties() const = 0;

  virtual Task<Result<Attributes>> GetAttributes(const Context& context, const Handle& object) = 0;
  // With a guard, kNotSync unless it is the object's ctime.
  virtual Task<Changed<void>> SetAttributes(const Context& context, const Handle& object, const NewAttributes& values,
                                            std::optional<Timestamp> guard) = 0;
  // Observes the directory.
  virtual Task<Observed<Node>> Lookup(const Context& context, const Handle& directory, std::string_view name) = 0;
  // Those of the rights in `wanted` that the caller has, of those that make sense for the object.
  virtual Task<Observed<AccessMask>> Access(const Context& context, const Handle& object, AccessMask wanted) = 0;
  virtual Task<Observed<std::string>> ReadLink(const Context& context, const Handle& symlink) = 0;
  virtual Task<Observed<ReadReply>> Read(const Context& context, const Handle& file, uint64_t offset,
                                         uint32_t count) = 0;
  virtual Task<Changed<WriteReply>> Write(const Context& context, const Handle& file, uint64_t offset, const Data& data,
                                          Stability stability) = 0;
  // Everything that was written to the file, whatever the range asked for.
  virtual Task<Changed<WriteVerifier>> Commit(const Context& context, const Handle& file) = 0;

  // These change the directory, and give the new object.
  virtual Task<Changed<Node>> Create(const Context& context, const Handle& directory, std::string_view name,
                                     const CreateHow& how) = 0;
  virtual Task<Changed<Node>> MakeDirectory(const Context& context, const Handle& directory, std::string_view name,
                                            const NewAttributes& attributes) = 0;
  virtual Task<Changed<Node>> MakeSymlink(const Context& context, const Handle& directory, std::string_view name,
                                          std::string_view target, const NewAttributes& attributes) = 0;
  virtual Task<Changed<Node>> MakeNode(const Context& context, const Handle& directory, std::string_view name,
                                       const NodeType& type, const NewAttributes& attributes) = 0;

  // Anything but a directory.
  virtual Task<Changed<void>> Remove(const Context& context, const Handle& directory, std::string_view name) = 0;
  virtual Task<Changed<void>> RemoveDirectory(const Context& context, const Handle& directory,
                                              std::string_view name) = 0;
  virtual Task<Renamed> Rename(const Context& context, const Handle& from_directory, std::string_view from_name,
                               const Handle& to_directory, std::string_view to_name) = 0;
  virtual Task<Linked> Link(const Context& context, const Handle& file, const Handle& directory,
                            std::string_view name) = 0;

  // Gives `sink` the entries after `cookie`, "." and ".." among them, until it has no room. An entry that is there
  // throughout is given exactly once by a sequence of calls from cookie to cookie, whatever happens to the others.
  virtual Task<Observed<ReadDirectoryReply>> ReadDirectory(const Context& context, const Handle& directory,
                                                           const ReadDirectoryArguments& arguments,
                                                           EntrySink& sink) = 0;

  virtual Task<Observed<Space>> GetSpace(const Context& context, const Handle& object) = 0;
};

}  // namespace penstock::fs
