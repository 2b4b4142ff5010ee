// A served tree, by system calls: what posix::FileSystem's methods do, on whatever thread it has chosen for them.
//
// Those that take a Patience are quick where the kernel and we have everything in memory; impatient, they give nothing
// where they would have to ask the disk. All others may block.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "fs/file_system.h"
#include "fs/permission.h"
#include "fs/posix/covers.h"
#include "fs/posix/handles.h"
#include "fs/posix/identity.h"
#include "fs/posix/object.h"
#include "fs/posix/open_objects.h"
#include "fs/posix/space_watch.h"

namespace penstock::fs::posix {

class Tree {
 public:
  struct Parts {
    FileDescriptor root;  // open for reading; what `handles` was given
    Volume volume;
    std::unique_ptr<HandleSource> handles;
    std::shared_ptr<OpenObjects> objects;
    bool sync_metadata = true;
    WriteVerifier verifier;
    Covers covers;
  };
  explicit Tree(Parts parts);

  // What a change has touched, and whose metadata has to be on the disk before the change is answered (RFC 1813 §4.8), in the
  // order in which it has to get there. Empty where that does not matter.
  struct Touched {
    ObjectRef object;
    SharedFile file;
  };
  using Touches = std::vector<Touched>;

  const Handle& root() const { return root_handle_; }
  Result<Identity> Identify(const Handle& handle) const { return parts_.handles->Identify(handle); }
  const Volume& volume() const { return parts_.volume; }
  OpenObjects& all_objects() const { return *objects_.all(); }
  size_t open_objects() const { return objects_.size(); }

  // --- Any object (tree.cc)
  std::optional<Result<ObjectRef>> Reach(const Handle& handle, Patience patience);
  std::optional<Result<Attributes>> GetAttributes(const Handle& handle, Patience patience);
  std::optional<Observed<AccessMask>> Access(const Credentials& caller, const Handle& handle, AccessMask wanted,
                                             Patience patience);
  std::optional<Observed<std::string>> ReadLink(const Handle& handle, Patience patience);
  std::optional<Observed<Space>> GetSpace(const Handle& handle, Patience patience);
  Changed<void> SetAttributes(const Credentials& caller, const Handle& handle, const NewAttributes& values,
                              std::optional<Timestamp> guard, Touches& touches);

  // --- Names (tree_names.cc, tree_create.cc)
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
  // `flags` as unlinkat() has them.
  Changed<void> Unlink(const Credentials& caller, const Handle& directory, std::string_view name, int flags,
                       Touches& touches);
  Renamed Rename(const Credentials& caller, const Handle& from_directory, std::string_view from_name,
                 const Handle& to_directory, std::string_view to_name, Touches& touches);
  Linked Link(const Credentials& caller, const Handle& file, const Handle& directory, std::string_view name,
              Touches& touches);
  Observed<ReadDirectoryReply> ReadDirectory(const Credentials& caller, const Handle& directory,
                                             const ReadDirectoryArguments& arguments, EntrySink& sink);

  // --- Data (tree_data.cc)
  // What of the file is to be read, by whom it may be: or why not.
  struct Extent {
    SharedFile file;
    size_t count = 0;  // shorter than asked where the file ends
    bool eof = false;
  };
  std::optional<Observed<Extent>> PrepareRead(const Credentials& caller, const Handle& handle, uint64_t offset,
                                              uint32_t count, Patience patience);
  // Absent, too, where impatient and somebody else is changing the file. What was written is not on the disk yet, whatever
  // the stability.
  std::optional<Changed<WriteReply>> Write(const Credentials& caller, Object& object, uint64_t offset, const Data& data,
                                           Stability stability, Patience patience);
  // A file that is to be committed: any descriptor of it will do.
  struct Uncommitted {
    ObjectRef object;
    SharedFile file;
  };
  Changed<Uncommitted> PrepareCommit(const Handle& handle);
  // After it is synced: its attributes, and the verifier of now, so that what another sync has lost since the caller wrote is
  // not taken for committed.
  struct Committed {
    std::optional<Attributes> after;
    WriteVerifier verifier;
  };
  Committed FinishCommit(Object& object);

  // Puts what was written to an open file on the disk, or its data and what leads to it alone. The verifier of writes becomes another
  // where that fails: what was written unstably may be lost, and clients that see another verifier send it again (RFC 1813
  // §3.3.7).
  Result<void> Sync(int fd, bool data_only);

  // --- Space (tree_space.cc)
  Observed<SeekReply> Seek(const Credentials& caller, const Handle& handle, uint64_t offset, SeekWhat what);
  // `flags` as fallocate() has them.
  Changed<void> ChangeSpace(const Credentials& caller, const Handle& handle, uint64_t offset, uint64_t length,
                            int flags, Touches& touches);
  Changed<CopyReply> Copy(const Credentials& caller, const Handle& from, uint64_t from_offset, const Handle& to,
                          uint64_t to_offset, uint64_t count);
  Changed<void> Clone(const Credentials& caller, const Handle& from, uint64_t from_offset, const Handle& to,
                      uint64_t to_offset, uint64_t count, Touches& touches);
  Result<void> Advise(const Credentials& caller, const Handle& handle, uint64_t offset, uint64_t count, Advice advice);

  // --- What is kept beside the data (tree_xattrs.cc, tree_acls.cc)
  Observed<std::vector<std::byte>> GetXattr(const Credentials& caller, const Handle& handle, std::string_view name);
  Changed<void> SetXattr(const Credentials& caller, const Handle& handle, std::string_view name, ConstBytes value,
                         XattrMode mode, Touches& touches);
  Changed<void> RemoveXattr(const Credentials& caller, const Handle& handle, std::string_view name, Touches& touches);
  Observed<std::vector<std::string>> ListXattrs(const Credentials& caller, const Handle& handle);
  Observed<Acls> GetAcls(const Handle& handle);
  Changed<void> SetAcls(const Credentials& caller, const Handle& handle, const NewAcls& acls, Touches& touches);

  // --- Files that are to stay (tree.cc)
  Result<void> Pin(const ObjectRef& object);
  void Unpin(const Handle& handle) { objects_.Unpin(handle); }

 private:
  struct Found {
    FileDescriptor fd;
    Stat stat;
  };

  // A removed object's descriptors are closed, unless it is pinned: they would keep its space.
  Result<Stat> StatOf(const Object& object);
  std::optional<Result<Found>> Find(const Object& directory, std::string_view name, Patience patience) const;
  Result<ObjectRef> Enter(const Handle& handle, FileDescriptor fd, FileType type);
  // The handle of what was found in the directory as `name`.
  Result<Handle> HandleOf(const Object& directory, std::string_view name, const Found& found);
  std::optional<Result<Node>> FindNode(const Object& directory, std::string_view name, Patience patience);
  Result<Node> FindParent(const Object& directory, const Stat& stat);

  std::optional<Rights> RightsTo(Object& object, const Attributes& attributes, const Credentials& caller,
                                 Patience patience) const;
  Rights RightsTo(Object& object, const Attributes& attributes, const Credentials& caller) const {
    return *RightsTo(object, attributes, caller, Patience::kMayBlock);
  }
  // A descriptor of the regular file, for a caller who may read or write its data.
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
  // Writing by anybody but root takes the set-id bits from a program.
  bool LosesSetId(const Credentials& caller, const Attributes& before) const;
  void DropSetId(const Credentials& caller, int fd, const Attributes& before) const;

  // Runs `look(object, stat)` -> std::optional<Result<T>>.
  template <class T, class Function>
  std::optional<Observed<T>> Observe(const Handle& handle, Patience patience, Function look);
  // Runs `change(object, stat)` -> Result<T> with attributes noted around it; then what changed is put on the disk.
  template <class T, class Function>
  Changed<T> Change(const Handle& handle, Touches& touches, Function change);
  template <class T, class Function>
  Changed<T> ChangeDirectory(const Handle& handle, Touches& touches, Function change);
  // The attributes after a change, or after what was tried (`done`: without an error). The caller holds object.changing.
  void NoteAfter(const Object& object, const Attributes& before, WeakCacheData& data, bool done);
  uint64_t NoteChange(const PreAttributes& before, const Attributes& after);
  // A file that is about to get or to lose a name, which changes its attributes: from here until Note() there is no other
  // change of ours to it.
  class Renaming {
   public:
    Renaming(Tree& tree, ObjectRef file, int fd);
    void Note();

   private:
    Tree& tree_;
    const ObjectRef file_;  // null where nobody has it open, and so nobody changes it
    const int fd_;
    std::unique_lock<std::mutex> lock_;
    Result<Stat> before_;
  };

  Result<void> Apply(const Credentials& caller, Object& object, const Stat& stat, const NewAttributes& values);
  // Owner, mode and times, as the kernel allows them to the caller.
  Result<void> Set(const Credentials& caller, int fd, FileType type, const NewAttributes& values) const;
  // Gives a new object the attributes that it could not be made with, and `set_id` in its mode. Takes it away again where
  // that fails.
  Result<Node> FinishNew(const Credentials& caller, Object& directory, const std::string& name, NewAttributes rest,
                         uint32_t set_id, Touches& touches);
  Result<Node> CreateFile(const Credentials& caller, Object& directory, const std::string& name, const CreateHow& how,
                          Touches& touches);
  // Of an object that was made just now, where something was set that is its own.
  Result<void> TouchNew(const Handle& handle, const NewAttributes& set, Touches& touches);
  // Of a file that was made just now.
  Result<Node> EnterNew(Object& directory, const std::string& name, SharedFile file);
  Result<Node> ReuseFile(const Credentials& caller, Object& directory, const std::string& name, const CreateHow& how,
                         Touches& touches);
  // What a new object is to be made with in the directory, where the client asked for `mode`.
  static uint32_t FirstMode(const Object& directory, uint32_t mode, uint32_t umask);
  Result<Node> NodeOfEntry(const Object& directory, const Stat& stat, std::string_view name);
  // Whether anything has happened: nothing where both are names of one object.
  Result<bool> RenameEntry(const Credentials& caller, Object& from, const std::string& from_name, Object& to,
                           const std::string& to_name);

  // What a change is going to be synced by, opened before it is made: where that takes a descriptor and there is none, kDelay.
  // Null where the change is not to be synced, or not by the object itself.
  Result<SharedFile> OpenToSync(Object& object) const;
  static void Touch(const ObjectRef& object, const SharedFile& file, Touches& touches) {
    if (file) touches.push_back({object, file});
  }
  Result<uint32_t> WriteAll(const Credentials& caller, int fd, uint64_t offset, ConstBytes bytes);
  // Absent where that may take the disk, cannot be done whole, or is to be done as the caller.
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
  std::atomic<bool> writes_at_once_ =
      true;  // as far as we know: not every file system can tell what it need not wait for
  const std::shared_ptr<std::atomic<uint64_t>> verifier_;  // shared with the objects, which may outlive this
};

template <class T, class Function>
std::optional<Observed<T>> Tree::Observe(const Handle& handle, Patience patience, Function look) {
  const std::optional<Result<ObjectRef>> object = Reach(handle, patience);
  if (!object) return std::nullopt;
  if (!*object) return Observed<T>{std::unexpected(object->error()), {}};
  const Result<Stat> stat = StatOf(***object);
  if (!stat) return Observed<T>{std::unexpected(stat.error()), {}};
  std::optional<Result<T>> result = look(***object, *stat);
  if (!result) return std::nullopt;
  return Observed<T>{std::move(*result), stat->attributes};
}

template <class T, class Function>
Changed<T> Tree::Change(const Handle& handle, Touches& touches, Function change) {
  const Result<ObjectRef> object = *Reach(handle, Patience::kMayBlock);
  if (!object) return {std::unexpected(object.error()), {}};
  const Result<SharedFile> file = OpenToSync(**object);
  if (!file) return {std::unexpected(file.error()), {}};
  Changed<T> changed{std::unexpected(Error::kStale), {}};
  {
    std::lock_guard lock((*object)->changing);
    const Result<Stat> stat = StatOf(**object);
    if (!stat) return {std::unexpected(stat.error()), {}};
    changed.object.before = BeforeOf(stat->attributes);
    changed.result = change(**object, *stat);
    NoteAfter(**object, stat->attributes, changed.object, changed.result.has_value());
  }
  if (changed.result) Touch(*object, *file, touches);
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
