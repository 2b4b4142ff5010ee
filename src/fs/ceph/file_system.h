// A file system that serves a directory of CephFS by libcephfs.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/workers.h"
#include "fs/ceph/client.h"
#include "fs/ceph/location.h"
#include "fs/ceph/tree.h"
#include "fs/file_system.h"

namespace penstock::fs::ceph {

struct Options {
  // Handles are valid under this name only. Every server of the cluster that exports the directory under this name
  // understands them.
  std::string export_name;
  // The directories that other exports serve, by their paths from this one: this export does not serve them (Covers).
  // Sorted, and none below another.
  std::vector<std::string> others{};
  // See Module::Mount().
  std::string mount_name{};
  // Whether changes of names and attributes are on stable storage before their reply, as RFC 1813 §4.8 requires.
  // Otherwise the MDS has them in its memory, and they are lost if it and this server fail within some seconds.
  bool sync_metadata = true;
  // libcephfs has no asynchronous calls, so that each call takes a thread until the cluster has answered. The threads
  // are this export's own: a cluster that stalls holds up no other export.
  size_t threads = 64;
  // How long a mount waits for the cluster, and its end.
  std::chrono::seconds patience{10};
  // How long a call waits for a thread. Then it fails with kDelay, and has done nothing.
  std::chrono::milliseconds wait_for_thread{5000};
};

class FileSystem final : public fs::FileSystem {
 public:
  // Mounts the directory, unless `mounted` is its mount. The module lives as long as the process. May block.
  static SetupResult<std::shared_ptr<FileSystem>> Open(const Location& location, Module& module, const Options& options,
                                                       std::unique_ptr<Client> mounted = nullptr);
  // Ends the mount. If the cluster does not answer within Options::patience, threads go on with that
  // (Workers::have_left_threads).
  ~FileSystem() override;

  const Location& location() const { return tree_->mount().location(); }
  const Options& options() const { return options_; }
  // Whether Open() with these `others` would cover the same directories now. Returns nothing if the cluster does not
  // tell. May block.
  std::optional<bool> StillCovers(std::span<const std::string> others) const;
  // The number of the file system, among all file systems of all clusters.
  uint64_t fsid() const { return fsid_; }

  Handle Root() const override { return tree_->Root(); }
  const Properties& GetProperties() const override { return properties_; }
  Result<Identity> Identify(const Handle& object) const override { return tree_->Identify(object); }

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
  // Gives none: other servers change files as well, and do not tell this one before. So no delegations are given.
  Task<LeaseReply> OpenLease(const RequestContext& context, const Handle& file) override;

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
  FileSystem(std::unique_ptr<Workers> pool, Tree tree, const Options& options, const Properties& properties,
             uint64_t fsid)
      : pool_(std::move(pool)),
        tree_(std::make_unique<Tree>(std::move(tree))),
        options_(options),
        properties_(properties),
        fsid_(fsid) {}

  // co_await OnThread(context, work, function) runs function() on a thread of the pool, and resumes with its result; or
  // with kDelay, without running it, if no thread was free in time.
  template <class Function>
  auto OnThread(const RequestContext& context, WorkKind work, Function function);

  std::unique_ptr<Workers> pool_;
  std::unique_ptr<Tree> tree_;
  const Options options_;
  const Properties properties_;
  const uint64_t fsid_;
};

}  // namespace penstock::fs::ceph
