// The served tree of an export of CephFS. It does the work of ceph::FileSystem. Every method may block.
//
// Names, attributes and extended attributes are changed with the caller's rights, which libcephfs and the MDS check.
// NFS has other rules for data than POSIX: the owner may always read and write (fs/permission.h). So this class checks
// the rights to data itself, and acts as root then.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "fs/ceph/covers.h"
#include "fs/ceph/handles.h"
#include "fs/ceph/mount.h"
#include "fs/file_system.h"
#include "fs/names.h"
#include "fs/permission.h"

namespace penstock::fs::ceph {

// The MDS allows no longer names.
inline constexpr size_t kNameMax = 255;

class Tree {
 public:
  // `sync_metadata`: changes of names and attributes are on stable storage before the method returns (RFC 1813 §4.8).
  Tree(std::shared_ptr<Mount> mount, Handles handles, Covers covers, const InodeNumber& root, bool sync_metadata)
      : mount_(std::move(mount)),
        handles_(std::move(handles)),
        covers_(std::move(covers)),
        root_(root),
        sync_metadata_(sync_metadata) {}

  Mount& mount() const { return *mount_; }
  const Covers& covers() const { return covers_; }
  Handle Root() const { return handles_.Of(root_); }
  Result<Identity> Identify(const Handle& handle) const { return handles_.Identify(handle); }

  // --- Any object (tree.cc)
  Result<Attributes> GetAttributes(const Handle& handle);
  Observed<AccessMask> Access(const Credentials& caller, const Handle& handle, AccessMask wanted);
  Observed<std::string> ReadLink(const Handle& handle);
  Observed<Space> GetSpace(const Handle& handle);
  Changed<void> SetAttributes(const Credentials& caller, const Handle& handle, const NewAttributes& values,
                              std::optional<Timestamp> guard);
  Result<Pinned> Pin(const Handle& handle);

  // --- Names (tree_names.cc, tree_create.cc)
  Observed<Node> Lookup(const Credentials& caller, const Handle& directory, std::string_view name);
  Changed<Node> Create(const Credentials& caller, const Handle& directory, std::string_view name, const CreateHow& how);
  Changed<Node> MakeDirectory(const Credentials& caller, const Handle& directory, std::string_view name,
                              const NewAttributes& attributes);
  Changed<Node> MakeSymlink(const Credentials& caller, const Handle& directory, std::string_view name,
                            std::string_view target, const NewAttributes& attributes);
  Changed<Node> MakeNode(const Credentials& caller, const Handle& directory, std::string_view name,
                         const NodeType& type, const NewAttributes& attributes);
  Changed<void> Remove(const Credentials& caller, const Handle& directory, std::string_view name);
  Changed<void> RemoveDirectory(const Credentials& caller, const Handle& directory, std::string_view name);
  Renamed Rename(const Credentials& caller, const Handle& from, std::string_view from_name, const Handle& to,
                 std::string_view to_name);
  Linked Link(const Credentials& caller, const Handle& file, const Handle& directory, std::string_view name);
  Observed<ReadDirectoryReply> ReadDirectory(const Credentials& caller, const Handle& directory,
                                             const ReadDirectoryArguments& arguments, EntrySink& sink);

  // --- Data (tree_data.cc)
  struct Piece {
    size_t size = 0;
    bool eof = false;
  };
  Observed<Piece> Read(const Credentials& caller, const Handle& file, uint64_t offset, Bytes into);
  Changed<WriteReply> Write(const Credentials& caller, const Handle& file, uint64_t offset, ConstBytes data,
                            Stability stability);
  Changed<WriteVerifier> Commit(const Handle& file);
  Observed<SeekReply> Seek(const Credentials& caller, const Handle& file, uint64_t offset, SeekWhat what);
  Changed<void> Allocate(const Credentials& caller, const Handle& file, uint64_t offset, uint64_t length);
  Changed<void> Deallocate(const Credentials& caller, const Handle& file, uint64_t offset, uint64_t length);
  Changed<CopyReply> Copy(const Credentials& caller, const Handle& from, uint64_t from_offset, const Handle& to,
                          uint64_t to_offset, uint64_t count);
  Changed<void> Clone(const Credentials& caller, const Handle& from, const Handle& to);
  Result<void> Advise(const Credentials& caller, const Handle& file);

  // --- Extended attributes and access control lists (tree_xattrs.cc)
  Observed<std::vector<std::byte>> GetXattr(const Credentials& caller, const Handle& object, std::string_view name);
  Changed<void> SetXattr(const Credentials& caller, const Handle& object, std::string_view name, ConstBytes value,
                         XattrMode mode);
  Changed<void> RemoveXattr(const Credentials& caller, const Handle& object, std::string_view name);
  Observed<std::vector<std::string>> ListXattrs(const Credentials& caller, const Handle& object);
  Observed<Acls> GetAcls(const Handle& object);
  Changed<void> SetAcls(const Credentials& caller, const Handle& object, const NewAcls& acls);

 private:
  // One call, in one session.
  struct Call {
    SessionRef session;
    Client& client() const { return *session->client; }
  };
  // An object of a call, with its attributes at the beginning of the call.
  struct Reached {
    ObjectRef object;
    Attributes attributes;
  };

  Result<Call> Begin() const;
  std::unexpected<Error> Failed(const Call& call, int code) const;
  Result<void> ResultOf(const Call& call, int code) const;
  // Adopts the reference.
  ObjectRef Enter(const Call& call, Inode* inode, const Stat& stat) const;
  Result<Reached> Reach(const Call& call, const Handle& handle) const;
  // Fails with kStale for an object without a name, unless it is pinned.
  Result<Attributes> StatOf(const Call& call, const ObjectRef& object) const;
  // The directory that ".." leads to; for a directory ".snap", the one that it belongs to. Returns a negative errno.
  int LookUpParent(const Call& call, const Credentials& caller, Inode* directory, const InodeNumber& number,
                   Inode*& parent, Stat& stat) const;
  // Fails with kStale for a directory that is not in the exported tree, or that another export serves.
  Result<void> CheckServed(const Call& call, Inode* directory, const InodeNumber& number) const;
  // After a change by this client. With kCached, the reply to the change has told the attributes.
  std::optional<Attributes> After(const Call& call, const ObjectRef& object,
                                  Client::Freshness freshness = Client::Freshness::kCached) const;
  Result<void> SyncMetadata(const Call& call, const ObjectRef& object) const;
  Result<Rights> RightsTo(const Call& call, const Reached& reached, const Credentials& caller) const;
  Result<Acl> AclOf(const Call& call, const ObjectRef& object, const char* which) const;
  Result<Reached> ReachToRead(const Call& call, const Credentials& caller, const Handle& file) const;
  Result<void> CheckRead(const Call& call, const Credentials& caller, const Reached& file) const;
  Result<void> CheckWrite(const Call& call, const Credentials& caller, const Reached& file) const;
  // Data that were written through a mount that has ended may be lost without another error: fails with kDelay then.
  Result<void> CheckCurrent(const Call& call) const;
  // Makes what this call has written stable. `losses_before`: Object::losses() before the call wrote.
  Result<void> SyncWritten(const Call& call, const Reached& file, bool data_only, uint64_t losses_before) const;
  Result<void> DropSetId(const Call& call, const Credentials& caller, const Reached& file) const;
  Result<void> Apply(const Call& call, const Credentials& caller, const Reached& reached,
                     const NewAttributes& values) const;

  // Runs look(call, reached), which returns a Result<T>.
  template <class T, class Function>
  Observed<T> Observe(const Handle& handle, Function look) const;
  // Runs change(call, reached), which returns a Result<T>, makes the change stable, and notes the attributes before and
  // after it.
  enum class Syncs : uint8_t { kObject, kItself };
  template <class T, class Function>
  Changed<T> Change(const Handle& handle, Function change, Syncs syncs = Syncs::kObject) const;
  // Change() of a directory, whose entry `name` is checked first. `dots`: the error for "." and "..".
  template <class T, class Function>
  Changed<T> ChangeEntry(const Handle& directory, std::string_view name, Error dots, Function change) const;

  // Fails with kCovered for the place of a directory that another export serves.
  Result<void> CheckPlace(const Reached& directory, std::string_view name) const;
  Result<Node> NodeOf(const Call& call, Inode* inode, const Stat& stat) const;
  Result<Node> FindEntry(const Call& call, const Credentials& caller, const Reached& directory,
                         const std::string& name) const;
  Result<Node> FindParent(const Call& call, const Credentials& caller, const Reached& directory) const;
  Result<Node> CreateFile(const Call& call, const Credentials& caller, const Reached& directory,
                          const std::string& name, const CreateHow& how) const;
  Result<Node> ReuseFile(const Call& call, const Credentials& caller, const Reached& directory, const std::string& name,
                         const CreateHow& how) const;
  // The mode to create an object with.
  Result<uint32_t> FirstMode(const Call& call, const Credentials& caller, const Reached& directory, uint32_t mode,
                             uint32_t umask) const;
  Result<uint32_t> ModeOfNew(const Call& call, const Credentials& caller, const Reached& directory,
                             const NewAttributes& wanted) const;
  // Removes an object that this call has made and cannot finish.
  void TakeBack(const Call& call, const Reached& directory, const std::string& name, const ObjectRef& made) const;
  // Sets what the creation itself cannot set. Removes the new object if that fails.
  Result<Node> FinishNew(const Call& call, const Credentials& caller, const Reached& directory, const std::string& name,
                         const Reached& made, const NewAttributes& rest) const;
  // The verifier of the exclusive Create that made the file.
  Result<std::optional<CreateVerifier>> VerifierOf(const Call& call, const ObjectRef& file) const;
  // Gives the file the verifier. Fails with kExist if it has another one.
  Result<void> TakeUnfinished(const Call& call, const ObjectRef& file, CreateVerifier verifier) const;
  Result<Node> FinishExclusive(const Call& call, const Credentials& caller, const Reached& directory,
                               const std::string& name, const ObjectRef& object, const CreateHow& how) const;
  // The common part of Remove and RemoveDirectory.
  Changed<void> TakeAway(const Credentials& caller, const Handle& directory, std::string_view name, Error dots,
                         int (Client::*remove)(const Credentials&, Inode*, const std::string&));
  // Forgets the object that the entry led to, if its last name is gone.
  void ForgetIfNameless(const Call& call, const std::optional<InodeNumber>& number) const;
  // The object that a change takes the entry from, if there is one. Fails with kCovered if another export serves it.
  Result<std::optional<InodeNumber>> NumberOfEntry(const Call& call, const Reached& directory,
                                                   const std::string& name) const;

  const std::shared_ptr<Mount> mount_;
  const Handles handles_;
  const Covers covers_;
  const InodeNumber root_;
  const bool sync_metadata_;
};

template <class T, class Function>
Observed<T> Tree::Observe(const Handle& handle, Function look) const {
  const Result<Call> call = Begin();
  if (!call) return {std::unexpected(call.error()), {}};
  const Result<Reached> reached = Reach(*call, handle);
  if (!reached) return {std::unexpected(reached.error()), {}};
  return {look(*call, *reached), reached->attributes};
}

template <class T, class Function>
Changed<T> Tree::Change(const Handle& handle, Function change, Syncs syncs) const {
  const Result<Call> call = Begin();
  if (!call) return {std::unexpected(call.error()), {}};
  const Result<Reached> reached = Reach(*call, handle);
  if (!reached) return {std::unexpected(reached.error()), {}};
  Changed<T> changed{change(*call, *reached), {BeforeOf(reached->attributes), {}}};
  if (changed.result && syncs == Syncs::kObject) {
    if (const auto synced = SyncMetadata(*call, reached->object); !synced) {
      changed.result = std::unexpected(synced.error());
    }
  }
  changed.object.after = After(*call, reached->object);
  return changed;
}

template <class T, class Function>
Changed<T> Tree::ChangeEntry(const Handle& directory, std::string_view name, Error dots, Function change) const {
  return Change<T>(directory, [&](const Call& call, const Reached& reached) -> Result<T> {
    if (!reached.object->is_directory()) return std::unexpected(Error::kNotDir);
    PENSTOCK_CHECK(CheckOrdinaryName(name, kNameMax, dots));
    PENSTOCK_CHECK(CheckPlace(reached, name));
    // In ".snap", names are those of snapshots, which only the cluster's own clients make and remove.
    if (!reached.object->is_live()) return std::unexpected(Error::kReadOnly);
    return change(call, reached, std::string(name));
  });
}

}  // namespace penstock::fs::ceph
