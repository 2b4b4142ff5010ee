// A served tree of files. It does the work of posix::FileSystem by system calls, on the thread that its caller has
// chosen.
//
// Methods with a Patience are fast if the kernel and the server have all they need in memory. If impatient, they
// return no value instead of waiting for the disk. All other methods may block.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

#include "fs/file_system.h"
#include "fs/permission.h"
#include "fs/posix/covers.h"
#include "fs/posix/handles.h"
#include "fs/posix/identity.h"
#include "fs/posix/object.h"
#include "fs/posix/open_objects.h"
#include "fs/posix/quota.h"
#include "fs/posix/space_watch.h"

namespace penstock::fs::posix {

class Tree {
 public:
  struct Parts {
    FileDescriptor root;  // open for reading; `handles` uses it
    Volume volume;
    std::unique_ptr<HandleSource> handles;
    std::shared_ptr<OpenObjects> objects;
    bool sync_metadata = true;
    WriteVerifier verifier;
    Covers covers;
    CallerRights rights = CallerRights::kBest;
  };
  explicit Tree(Parts parts);

  // The objects whose metadata must be on the disk before a change is answered (RFC 1813 §4.8), in the order in which
  // they must get there. Empty if that is not required.
  struct Touched {
    ObjectRef object;
    SharedFile file;
  };
  using Touches = std::vector<Touched>;

  const Handle& root() const { return root_handle_; }
  Result<Identity> Identify(const Handle& handle) const { return parts_.handles->Identify(handle); }
  const Volume& volume() const { return parts_.volume; }
  const FileDescriptor& root_directory() const { return parts_.root; }
  const Covers& covers() const { return parts_.covers; }
  OpenObjects& all_objects() const { return *objects_.all(); }
  size_t open_objects() const { return objects_.size(); }

  // --- Any object (tree.cc)
  std::optional<Result<ObjectRef>> Reach(const Handle& handle, Patience patience);
  std::string PathOf(const Handle& handle) const;
  std::optional<Result<Attributes>> GetAttributes(const Handle& handle, Patience patience);
  std::optional<Observed<AccessMask>> Access(const Credentials& caller, const Handle& handle, AccessMask wanted,
                                             Patience patience);
  std::optional<Observed<std::string>> ReadLink(const Handle& handle, Patience patience);
  std::optional<Observed<Space>> GetSpace(const Handle& handle, Patience patience);
  Result<std::optional<Quota>> GetQuota(QuotaKind kind, uint32_t id) const {
    return ReadQuota(parts_.root.get(), kind, id);
  }
  Changed<void> SetAttributes(const Credentials& caller, const Handle& handle, const NewAttributes& values,
                              std::optional<Timestamp> guard, Touches& touches);

  // --- Names (tree_names.cc, tree_create.cc)
  // Whether the creation of the object may be the work of a call whose sync has not ended yet: a client that repeats
  // the call, after a crash of the server for example, must wait for it.
  static bool IsNew(const Attributes& attributes);
  std::optional<Observed<Node>> Lookup(const Credentials& caller, const Handle& directory, std::string_view name,
                                       Patience patience);
  Changed<Node> Create(const Credentials& caller, const Handle& directory, std::string_view name, const CreateHow& how,
                       Touches& touches);
  Changed<Node> MakeDirectory(const Credentials& caller, const Handle& directory, std::string_view name,
                              const NewAttributes& attributes, Touches& touches);
  Changed<Node> MakeSymlink(const Credentials& caller, const Handle& directory, std::string_view name,
                            std::string_view target, const NewAttributes& attributes, Touches& touches);
  Changed<Node> MakeNode(const Credentials& caller, const Handle& directory, std::string_view name,
                         const NodeType& type, const NewAttributes& attributes, Touches& touches);
  // `flags` as in unlinkat().
  Changed<void> Unlink(const Credentials& caller, const Handle& directory, std::string_view name, int flags,
                       Touches& touches);
  Renamed Rename(const Credentials& caller, const Handle& from_directory, std::string_view from_name,
                 const Handle& to_directory, std::string_view to_name, Touches& touches);
  Linked Link(const Credentials& caller, const Handle& file, const Handle& directory, std::string_view name,
              Touches& touches);
  Observed<ReadDirectoryReply> ReadDirectory(const Credentials& caller, const Handle& directory,
                                             const ReadDirectoryArguments& arguments, EntrySink& sink);

  // --- Data (tree_data.cc)
  // The part of a file that the caller may read.
  struct Extent {
    SharedFile file;
    size_t count = 0;  // shorter than requested at the end of the file
    bool eof = false;
  };
  std::optional<Observed<Extent>> PrepareRead(const Credentials& caller, const Handle& handle, uint64_t offset,
                                              uint32_t count, Patience patience);
  // If impatient, also returns no value while another call changes the file. For any stability, the data is not yet on
  // the disk afterwards.
  std::optional<Changed<WriteReply>> Write(const Credentials& caller, Object& object, uint64_t offset, const Data& data,
                                           Stability stability, Patience patience);
  // A file to be committed, with any of its descriptors.
  struct Uncommitted {
    ObjectRef object;
    SharedFile file;
  };
  Changed<Uncommitted> PrepareCommit(const Handle& handle);
  // The state after the sync: the attributes, and the verifier read after it. So data that another sync has lost since
  // the caller wrote it does not count as committed.
  struct Committed {
    std::optional<Attributes> after;
    WriteVerifier verifier;
  };
  Committed FinishCommit(Object& object);

  // Makes the data of an open file stable, with all metadata or, with `data_only`, with the metadata needed to read
  // the data. If that fails, the write verifier changes: unstable data may be lost, and clients that see another
  // verifier send it again (RFC 1813 §3.3.7).
  Result<void> Sync(int fd, bool data_only);

  // --- Space (tree_space.cc)
  Observed<SeekReply> Seek(const Credentials& caller, const Handle& handle, uint64_t offset, SeekWhat what);
  // `flags` as in fallocate().
  Changed<void> ChangeSpace(const Credentials& caller, const Handle& handle, uint64_t offset, uint64_t length,
                            int flags, Touches& touches);
  Changed<CopyReply> Copy(const Credentials& caller, const Handle& from, uint64_t from_offset, const Handle& to,
                          uint64_t to_offset, uint64_t count);
  Changed<void> Clone(const Credentials& caller, const Handle& from, uint64_t from_offset, const Handle& to,
                      uint64_t to_offset, uint64_t count, Touches& touches);
  Result<void> Advise(const Credentials& caller, const Handle& handle, uint64_t offset, uint64_t count, Advice advice);

  // --- Extended attributes and access control lists (tree_xattrs.cc, tree_acls.cc)
  Observed<std::vector<std::byte>> GetXattr(const Credentials& caller, const Handle& handle, std::string_view name);
  Changed<void> SetXattr(const Credentials& caller, const Handle& handle, std::string_view name, ConstBytes value,
                         XattrMode mode, Touches& touches);
  Changed<void> RemoveXattr(const Credentials& caller, const Handle& handle, std::string_view name, Touches& touches);
  Observed<std::vector<std::string>> ListXattrs(const Credentials& caller, const Handle& handle);
  Observed<Acls> GetAcls(const Handle& handle);
  Changed<void> SetAcls(const Credentials& caller, const Handle& handle, const NewAcls& acls, Touches& touches);

  // --- Files that are kept without a name (tree.cc)
  Result<void> Pin(ObjectRef& object);
  ObjectRef Unpin(ObjectRef object) { return objects_.Unpin(std::move(object)); }

 private:
  struct Found {
    FileDescriptor fd;
    Stat stat;
  };

  // Closes the descriptors of a removed object unless it is pinned, because they would keep its space. If impatient,
  // returns no value for such an object: the kernel may take long to free its space.
  std::optional<Result<Stat>> StatOf(const Object& object, Patience patience);
  Result<Stat> StatOf(const Object& object) { return *StatOf(object, Patience::kMayBlock); }
  std::optional<Result<Found>> Find(const Object& directory, std::string_view name, Patience patience) const;
  Result<ObjectRef> Enter(const Handle& handle, FileDescriptor fd, FileType type);
  // The handle of the object that was found in the directory as `name`.
  Result<Handle> HandleOf(const Object& directory, std::string_view name, const Found& found);
  std::optional<Result<Node>> FindNode(const Object& directory, std::string_view name, Patience patience);
  // Finds an object without opening it, if its handle is known. `name` ends with a zero. May block.
  std::optional<Result<Node>> FindKnown(const Object& directory, const char* name) const;
  // Adds an object that Find() has found to the cache.
  Result<Node> EnterFound(const Object& directory, std::string_view name, Found found);
  Result<Node> FindParent(const Object& directory, const Stat& stat);

  // --- Permission (tree_permission.cc). The kernel decides for a thread that acts as the caller. The functions that
  // return a Result<void> decide for callers whom the server checks itself (ServerIdentity::Checks), and allow
  // everything to others.
  //
  // The credentials whose rights to the object count: the caller's, or those of the server's user.
  Credentials JudgedAs(Object& object, const Attributes& attributes, const Credentials& caller) const;
  bool CountsAsOwner(Object& object, const Attributes& attributes, const Credentials& caller) const {
    return IsOwner(attributes, JudgedAs(object, attributes, caller));
  }
  // Checks that the caller may make this name in the directory. Fails with kExist if the name exists already.
  Result<void> CheckMayCreate(const Credentials& caller, Object& directory, const std::string& name);
  // Checks that the caller may take the name from the object that was found, if any was.
  Result<void> CheckMayRemove(const Credentials& caller, Object& directory, const Result<Found>& found,
                              std::string_view name);
  Result<void> CheckMaySearch(const Credentials& caller, Object& directory);
  // The group that a new object gets is one of the caller's, or the one that it would have anyway.
  Result<void> CheckMayGive(const Credentials& caller, Object& directory, const NewAttributes& values);
  Result<void> CheckMayRename(const Credentials& caller, Object& from, const Result<Found>& moved,
                              const std::string& from_name, Object& to, const Result<Found>& replaced,
                              const std::string& to_name);
  Result<void> CheckMayLink(const Credentials& caller, Object& file, const Attributes& attributes);
  // Checks owner, group, mode, and given times; Apply() checks the rest.
  Result<void> CheckMaySet(const Credentials& caller, Object& object, const Attributes& attributes,
                           const NewAttributes& values);
  // A file with set-id bits would run with the rights of the server's user.
  Result<void> CheckMode(const Credentials& caller, FileType type, std::optional<uint32_t> mode) const;
  Result<void> CheckMayReadXattrs(const Credentials& caller, Object& object, const Attributes& attributes);
  Result<void> CheckMayChangeXattrs(const Credentials& caller, Object& object, const Attributes& attributes);
  // Records who created the object.
  void MarkCreator(const Credentials& caller, Object& object) const;

  std::optional<Rights> RightsTo(Object& object, const Attributes& attributes, const Credentials& caller,
                                 Patience patience) const;
  Rights RightsTo(Object& object, const Attributes& attributes, const Credentials& caller) const {
    return *RightsTo(object, attributes, caller, Patience::kMayBlock);
  }
  // Opens a descriptor of the regular file if the caller may read or write its data.
  std::optional<Result<SharedFile>> OpenToRead(const Credentials& caller, Object& object, const Attributes& attributes,
                                               Patience patience);
  Result<SharedFile> OpenToRead(const Credentials& caller, Object& object, const Attributes& attributes) {
    return *OpenToRead(caller, object, attributes, Patience::kMayBlock);
  }
  std::optional<Result<SharedFile>> OpenToWrite(const Credentials& caller, Object& object, const Attributes& attributes,
                                                Patience patience);
  Result<SharedFile> OpenToWrite(const Credentials& caller, Object& object, const Attributes& attributes) {
    return *OpenToWrite(caller, object, attributes, Patience::kMayBlock);
  }
  // Whether a write clears set-id bits: it does for all callers but root.
  bool LosesSetId(const Credentials& caller, const Attributes& before) const;
  void DropSetId(const Credentials& caller, int fd, const Attributes& before) const;

  // Runs `look(object, stat)`, which returns a std::optional<Result<T>>.
  template <class T, class Function>
  std::optional<Observed<T>> Observe(const Handle& handle, Patience patience, Function look);
  // Runs `change(object, stat)`, which returns a Result<T>, and records the object's attributes before and after it.
  // Adds the object to `touches`, unless the result is a node that existed and is not new.
  template <class T, class Function>
  Changed<T> Change(const Handle& handle, Touches& touches, Function change);
  template <class T, class Function>
  Changed<T> ChangeDirectory(const Handle& handle, Touches& touches, Function change);
  // Records the attributes after a change, or after a failed change (`done` is false). The caller holds
  // object.changing.
  void NoteAfter(const Object& object, const Attributes& before, WeakCacheData& data, bool done);
  uint64_t NoteChange(const PreAttributes& before, const Attributes& after);
  // Records the attributes of a file around a change of its names, which changes them. From the construction until
  // Note(), the server makes no other change to the file.
  class Renaming {
   public:
    Renaming(Tree& tree, ObjectRef file, int fd);
    void Note();

   private:
    Tree& tree_;
    const ObjectRef file_;  // null if the server does not have it open, and so cannot change it
    const int fd_;
    std::unique_lock<std::mutex> lock_;
    Result<Stat> before_;
  };

  Result<void> Apply(const Credentials& caller, Object& object, const Stat& stat, const NewAttributes& values);
  // Sets owner, mode and times, as far as the kernel allows it to the caller.
  Result<void> Set(const Credentials& caller, int fd, FileType type, const NewAttributes& values) const;
  // Sets the attributes that the object could not be created with, and `set_id` in its mode. Removes the object if that
  // fails. `mode` is the mode that it was to be created with, zero for a symbolic link.
  Result<Node> FinishNew(const Credentials& caller, Object& directory, const std::string& name, NewAttributes rest,
                         uint32_t mode, uint32_t set_id, Touches& touches);
  Result<Node> CreateFile(const Credentials& caller, Object& directory, const std::string& name, const CreateHow& how,
                          Touches& touches);
  // Adds a new object to `touches` if attributes of its own were set.
  Result<void> TouchNew(const Handle& handle, const NewAttributes& set, Touches& touches);
  // Adds a file that was just created to the cache.
  Result<Node> EnterNew(const Credentials& caller, Object& directory, const std::string& name, SharedFile file,
                        const Stat& stat);
  Result<Node> ReuseFile(const Credentials& caller, Object& directory, const std::string& name, const CreateHow& how,
                         Touches& touches);
  // The mode to create a new object with, if the client asked for `mode`.
  static uint32_t FirstMode(const Object& directory, uint32_t mode, uint32_t umask);
  // Gives a new object the bits of `wanted` that the process's umask has taken from its `mode`, and returns them.
  static uint32_t UndoProcessUmask(const Object& directory, int object, uint32_t mode, uint32_t wanted);
  // The attributes and the handle of an entry. `name` ends with a zero. `may_be_known`: its handle may be known, and it
  // is no directory, where another file system may be mounted: see StatOfEntry().
  Result<Node> NodeOfEntry(const Object& directory, const Stat& stat, const char* name, bool may_be_known);
  // Returns false if both names lead to the same object, so that nothing was renamed.
  Result<bool> RenameEntry(const Credentials& caller, Object& from, const std::string& from_name, Object& to,
                           const std::string& to_name);

  // Opens the descriptor for the sync of a change before the change is made, so that a shortage of descriptors fails
  // it early (kDelay). Null if the change is not to be synced, or if the object itself is not synced.
  Result<SharedFile> OpenToSync(Object& object) const;
  static void Touch(const ObjectRef& object, const SharedFile& file, Touches& touches) {
    if (file) touches.push_back({object, file});
  }
  Result<uint32_t> WriteAll(const Credentials& caller, int fd, uint64_t offset, ConstBytes bytes);
  // Returns no value if the write may wait for the disk, cannot be done in full, or must be made as the caller.
  std::optional<uint32_t> WriteAtOnce(int fd, uint64_t offset, ConstBytes bytes);
  Result<CopyReply> CopyRange(const Credentials& caller, const Handle& from, uint64_t from_offset, Object& to,
                              const Attributes& before, uint64_t to_offset, uint64_t count);
  Result<void> CloneRange(const Credentials& caller, const Handle& from, uint64_t from_offset, Object& to,
                          const Attributes& before, uint64_t to_offset, uint64_t count);
  Result<void> SetAccessAcl(const Credentials& caller, const Object& object, const Attributes& attributes,
                            const Acl& acl) const;
  Result<void> SetDefaultAcl(const Credentials& caller, const Object& object, const Acl& acl) const;

  Parts parts_;
  const ServerIdentity server_;
  const Handle root_handle_;
  ObjectCache objects_;
  SpaceWatch space_;
  // False once the file system has shown that it cannot write without waiting (RWF_NOWAIT).
  std::atomic<bool> writes_at_once_ = true;
  const std::shared_ptr<std::atomic<uint64_t>> verifier_;  // shared with the objects, which may outlive this
};

template <class T, class Function>
std::optional<Observed<T>> Tree::Observe(const Handle& handle, Patience patience, Function look) {
  const std::optional<Result<ObjectRef>> object = Reach(handle, patience);
  if (!object) return std::nullopt;
  if (!*object) return Observed<T>{std::unexpected(object->error()), {}};
  const std::optional<Result<Stat>> stat = StatOf(***object, patience);
  if (!stat) return std::nullopt;
  if (!*stat) return Observed<T>{std::unexpected(stat->error()), {}};
  std::optional<Result<T>> result = look(***object, **stat);
  if (!result) return std::nullopt;
  return Observed<T>{std::move(*result), (*stat)->attributes};
}

template <class T, class Function>
Changed<T> Tree::Change(const Handle& handle, Touches& touches, Function change) {
  const Result<ObjectRef> object = *Reach(handle, Patience::kMayBlock);
  if (!object) return {std::unexpected(object.error()), {}};
  const Result<SharedFile> file = OpenToSync(**object);
  if (!file) return {std::unexpected(file.error()), {}};
  Changed<T> changed{std::unexpected(Error::kStale), {}};
  bool done = false;
  bool is_synced = false;
  {
    std::lock_guard lock((*object)->changing);
    const Result<Stat> stat = StatOf(**object);
    if (!stat) return {std::unexpected(stat.error()), {}};
    changed.object.before = BeforeOf(stat->attributes);
    changed.result = change(**object, *stat);
    done = changed.result.has_value();
    if constexpr (std::is_same_v<T, Node>) {
      is_synced = done && changed.result->existed && !IsNew(changed.result->attributes);
      done = done && !changed.result->existed;
    }
    NoteAfter(**object, stat->attributes, changed.object, done);
  }
  if (changed.result && !is_synced) Touch(*object, *file, touches);
  return changed;
}

template <class T, class Function>
Changed<T> Tree::ChangeDirectory(const Handle& handle, Touches& touches, Function change) {
  return Change<T>(handle, touches, [&](Object& directory, const Stat&) -> Result<T> {
    if (!directory.is_directory()) return std::unexpected(Error::kNotDir);
    return change(directory);
  });
}

}  // namespace penstock::fs::posix
