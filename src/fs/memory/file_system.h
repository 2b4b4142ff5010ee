// A file system in this process's memory. It is a part of the product like fs/posix: a host process can serve it, as
// temporary storage or as files that it makes itself. Tests, simulations and benchmarks use it as well. Its contents
// are lost when the process ends. Its methods run on the thread of the caller, never wait, and need no loop.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "fs/file_system.h"
#include "fs/memory/inode.h"

namespace penstock::fs::memory {

struct Options {
  uint64_t capacity = uint64_t{1} << 40;  // bytes of data
  // A file system accepts the handles of another one only if both have the same instance. It is the write verifier, the
  // fsid and the volume of Identify() as well. So a host that serves its files again after a restart chooses a new
  // instance, and each of several file systems in one server gets an instance of its own.
  uint64_t instance = 1;
  uint32_t root_mode = 0755;
  uint32_t root_uid = 0;
  uint32_t root_gid = 0;
  std::function<Timestamp()> clock{};  // empty: the system's clock
};

// Any thread. One operation runs at a time, under a lock; every operation is short.
class FileSystem final : public fs::FileSystem {
 public:
  explicit FileSystem(Options options = {});

  Handle Root() const override;
  const Properties& GetProperties() const override { return properties_; }
  Result<Identity> Identify(const Handle& object) const override;

  Task<Result<Attributes>> GetAttributes(const RequestContext& context, const Handle& object) override;
  Task<Changed<void>> SetAttributes(const RequestContext& context, const Handle& object, const NewAttributes& values,
                                    std::optional<Timestamp> guard) override;
  Task<Observed<Node>> Lookup(const RequestContext& context, const Handle& directory, std::string_view name) override;
  Task<Observed<AccessMask>> Access(const RequestContext& context, const Handle& object, AccessMask wanted) override;
  Task<Observed<std::string>> ReadLink(const RequestContext& context, const Handle& symlink) override;
  Task<Observed<ReadReply>> Read(const RequestContext& context, const Handle& file, uint64_t offset,
                                 uint32_t count) override;
  Task<Changed<WriteReply>> Write(const RequestContext& context, const Handle& file, uint64_t offset, const Data& data,
                                  Stability stability) override;
  Task<Changed<WriteVerifier>> Commit(const RequestContext& context, const Handle& file) override;
  Task<Changed<Node>> Create(const RequestContext& context, const Handle& directory, std::string_view name,
                             const CreateHow& how) override;
  Task<Changed<Node>> MakeDirectory(const RequestContext& context, const Handle& directory, std::string_view name,
                                    const NewAttributes& attributes) override;
  Task<Changed<Node>> MakeSymlink(const RequestContext& context, const Handle& directory, std::string_view name,
                                  std::string_view target, const NewAttributes& attributes) override;
  Task<Changed<Node>> MakeNode(const RequestContext& context, const Handle& directory, std::string_view name,
                               const NodeType& type, const NewAttributes& attributes) override;
  Task<Changed<void>> Remove(const RequestContext& context, const Handle& directory, std::string_view name) override;
  Task<Changed<void>> RemoveDirectory(const RequestContext& context, const Handle& directory,
                                      std::string_view name) override;
  Task<Renamed> Rename(const RequestContext& context, const Handle& from_directory, std::string_view from_name,
                       const Handle& to_directory, std::string_view to_name) override;
  Task<Linked> Link(const RequestContext& context, const Handle& file, const Handle& directory,
                    std::string_view name) override;
  Task<Observed<ReadDirectoryReply>> ReadDirectory(const RequestContext& context, const Handle& directory,
                                                   const ReadDirectoryArguments& arguments, EntrySink& sink) override;
  Task<Observed<Space>> GetSpace(const RequestContext& context, const Handle& object) override;
  Task<Result<Pinned>> Pin(const RequestContext& context, const Handle& file) override;

  Task<Observed<SeekReply>> Seek(const RequestContext& context, const Handle& file, uint64_t offset,
                                 SeekWhat what) override;
  Task<Changed<void>> Allocate(const RequestContext& context, const Handle& file, uint64_t offset,
                               uint64_t length) override;
  Task<Changed<void>> Deallocate(const RequestContext& context, const Handle& file, uint64_t offset,
                                 uint64_t length) override;
  Task<Changed<CopyReply>> Copy(const RequestContext& context, const Handle& from, uint64_t from_offset,
                                const Handle& to, uint64_t to_offset, uint64_t count) override;
  Task<Changed<void>> Clone(const RequestContext& context, const Handle& from, uint64_t from_offset, const Handle& to,
                            uint64_t to_offset, uint64_t count) override;
  Task<Result<void>> Advise(const RequestContext& context, const Handle& file, uint64_t offset, uint64_t count,
                            Advice advice) override;

  Task<Observed<std::vector<std::byte>>> GetXattr(const RequestContext& context, const Handle& object,
                                                  std::string_view name) override;
  Task<Changed<void>> SetXattr(const RequestContext& context, const Handle& object, std::string_view name,
                               ConstBytes value, XattrMode mode) override;
  Task<Changed<void>> RemoveXattr(const RequestContext& context, const Handle& object, std::string_view name) override;
  Task<Observed<std::vector<std::string>>> ListXattrs(const RequestContext& context, const Handle& object) override;
  Task<Observed<Acls>> GetAcls(const RequestContext& context, const Handle& object) override;
  Task<Changed<void>> SetAcls(const RequestContext& context, const Handle& object, const NewAcls& acls) override;

 private:
  // The caller of the following methods holds mutex_.
  Handle HandleOf(uint64_t fileid) const;
  Result<Inode*> Find(const Handle& handle);
  Inode& At(uint64_t fileid) { return *inodes_.at(fileid); }
  Node NodeOf(const Inode& inode) const { return {HandleOf(inode.attributes.fileid), inode.attributes}; }
  Timestamp Now();
  void Touch(Inode& inode, bool data);  // sets ctime, and also mtime if data changed

  // Runs `change(inode)`, which returns a Result<T>, and records the object's attributes before and after it.
  template <class T, class Function>
  Changed<T> Change(const Handle& object, Function change);
  // Runs `look(inode)`, which returns a Result<T>.
  template <class T, class Function>
  Observed<T> Observe(const Handle& object, Function look);

  Result<void> Apply(const Credentials& caller, Inode& inode, const NewAttributes& values);
  Result<void> Truncate(Inode& inode, uint64_t size);
  Result<void> MayRead(const Credentials& caller, const Inode& file) const;
  Result<void> MayWrite(const Credentials& caller, const Inode& file) const;
  // Checks that the range is possible in a file, and that there is room for the octets that it adds.
  Result<void> MayGrow(const Inode& file, uint64_t offset, uint64_t length) const;
  // Runs `write(content)` after the file was extended to `end`.
  template <class Function>
  void WriteRange(const Credentials& caller, Inode& file, uint64_t end, Function write);
  Result<uint64_t> CopyRange(const Credentials& caller, Inode& from, uint64_t from_offset, Inode& to,
                             uint64_t to_offset, uint64_t count);
  Result<void> CloneRange(const Credentials& caller, Inode& from, uint64_t from_offset, Inode& to, uint64_t to_offset,
                          uint64_t count);
  void Unpin(uint64_t fileid);
  void Forget(Inode& inode);  // frees the inode after its last name and its last pin are gone

  // Returns the inode of an entry, or null if the entry does not exist. Fails if the caller may not search the
  // directory.
  Result<Inode*> Search(const Credentials& caller, Inode& directory, std::string_view name);
  Result<void> MayChangeEntries(const Credentials& caller, const Inode& directory) const;
  // Checks whether the caller may remove or replace the entry (the rule of the sticky bit).
  Result<void> MayTakeAway(const Credentials& caller, const Inode& directory, const Inode& entry) const;
  // The common part of all methods that create objects. It sets the type and nlink of the new inode, no other
  // attribute.
  Result<Inode*> Make(const Credentials& caller, Inode& directory, std::string_view name, FileType type,
                      const NewAttributes& attributes);
  void Enter(Inode& directory, std::string_view name, Inode& inode);
  void TakeOut(Inode& directory, std::string_view name);
  void DropLink(Inode& inode);  // may free the inode
  bool IsBelow(const Inode& directory, const Inode& ancestor);
  Result<void> Move(const Credentials& caller, Inode& from, std::string_view from_name, Inode& to,
                    std::string_view to_name);

  const Options options_;
  Properties properties_;
  std::mutex mutex_;
  std::unordered_map<uint64_t, std::unique_ptr<Inode>> inodes_;  // by fileid, which is never reused
  uint64_t next_fileid_ = 2;
  uint64_t used_ = 0;
  Timestamp last_time_;
  uint64_t last_change_ = 0;
};

}  // namespace penstock::fs::memory
