// A file system that serves a directory of this machine by system calls.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/workers.h"
#include "fs/file_system.h"
#include "fs/posix/sync_queue.h"
#include "fs/posix/tree.h"
#include "fs/posix/write_queue.h"

namespace penstock::fs::posix {

class KnownHandles;

enum class HandleMethod {
  kBest,    // the kernel's handles if the server may use them, else a table
  kKernel,  // the kernel's handles; Open() fails without them
  kTable,
};

struct Options {
  // The directory that keeps handles from one start to the next. It must exist, and no other server may use it: see
  // StateDirectory.
  std::filesystem::path state_directory;
  HandleMethod handles = HandleMethod::kBest;
  // The name of the export. Handles are valid under this name only, so that no export accepts the handle of another.
  std::string export_name{};
  // The directories that other exports serve. This export does not serve them, see Covers.
  std::vector<std::filesystem::path> others{};
  // Further directories that clients do not reach through this export. They may be missing.
  std::vector<std::filesystem::path> hidden{};
  // Whose rights decide what a caller may do.
  CallerRights rights = CallerRights::kBest;
  // Whether changes of names and attributes reach the disk before their reply, as RFC 1813 §4.8 requires.
  bool sync_metadata = true;
  // Data of at least this size is returned as a range of the open file, which transports send without a copy.
  size_t file_range_from = 32 << 10;
  // Shared by all file systems of the process. Null: a new instance that may use all descriptors of the process.
  std::shared_ptr<OpenObjects> objects{};
  // Whether OpenLease takes leases. When a lease is broken, the kernel sends SIGIO to the process, which ends it by
  // default. So only programs that handle SIGIO set this.
  bool leases = false;
  // Shared by all file systems of the process, so that a file has the same change attribute in each. Null: a new
  // instance.
  std::shared_ptr<ChangeCounters> changes{};
  // Shared by all file systems of the process. Null: a new instance.
  std::shared_ptr<KnownHandles> known_handles{};
};

// Serves the objects below its root that are on the root's own file system. Another file system that is mounted there
// shows as a name that cannot be looked up (kAccess). Symbolic links are never followed.
//
// A server that root starts acts as each caller in turn. A server that another user starts acts as that user for all
// callers, but checks what each caller may do (CallerRights). What such callers create belongs to the server's user,
// and the creator counts as the owner for as long as CreatorMark says.
//
// The process's umask has no effect on what clients create: a client asks for exactly the mode that a new file gets.
// The host makes two settings before the first call:
//   DropResourceOverride() (identity.h) on the threads of the pool, in a process of root: else callers may exceed
//   quotas
//     and limits. It is made for Workers::ThreadSettings::begin;
//   the limit of open files, which bounds the descriptors that the file systems keep: RaiseDescriptorLimit().
class FileSystem final : public fs::FileSystem {
 public:
  // `pool` runs calls that may block. It outlives the file system.
  static SetupResult<std::unique_ptr<FileSystem>> Open(const std::filesystem::path& root, Workers& pool,
                                                       const Options& options = {});

  // Whether Open() with this directory and these options would serve the same tree with the same handles: the path
  // leads to the same directory, and the same places below it are not served.
  bool IsOf(const std::filesystem::path& root, const Options& options) const;

  Handle Root() const override { return tree_.root(); }
  const Properties& GetProperties() const override { return properties_; }
  Result<Identity> Identify(const Handle& object) const override { return tree_.Identify(object); }

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
  Task<Result<std::optional<Quota>>> GetQuota(const RequestContext& context, QuotaKind kind, uint32_t id) override;
  Task<Result<Pinned>> Pin(const RequestContext& context, const Handle& file) override;
  Task<Result<std::shared_ptr<LocalLocks>>> OpenLocks(const RequestContext& context, const Handle& file,
                                                      bool exclusive) override;
  Task<LeaseReply> OpenLease(const RequestContext& context, const Handle& file) override;

  // The path that the kernel knows. It knows none for an object that nobody has reached by a name for long.
  std::string PathOf(const Handle& object) override;

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

  // The number of objects that are open in the cache.
  size_t open_objects() const { return tree_.open_objects(); }

 private:
  FileSystem(Tree::Parts parts, Workers& pool, const Options& options, const Properties& properties)
      : tree_(std::move(parts)),
        pool_(pool),
        syncs_(pool, [this](int fd, bool data_only) { return tree_.Sync(fd, data_only); }),
        small_writes_(pool),
        file_range_from_(options.file_range_from),
        leases_(options.leases),
        properties_(properties) {}

  template <class Change>
  auto ChangeAndSync(const RequestContext& context, WorkKind work, Change change, WorkKind of_files = WorkKind::kData)
      -> Task<std::invoke_result_t<Change&, Tree::Touches&>>;

  Task<Changed<WriteReply>> WriteStably(const RequestContext& context, const ObjectRef& object, uint64_t offset,
                                        const Data& data, Stability stability);
  Task<Changed<WriteReply>> WriteArriving(const RequestContext& context, const ObjectRef& object, uint64_t offset,
                                          const Data& data);
  LeaseReply TakeLease(const Handle& file);

  Tree tree_;
  Workers& pool_;
  SyncQueue syncs_;
  WriteQueue small_writes_;
  const size_t file_range_from_;
  const bool leases_;
  const Properties properties_;
};

}  // namespace penstock::fs::posix
