// A file system that forwards to another one, and adds a record to the audit log for each operation that changes
// something, and for each OPEN of version 4.
//
// An operation that is refused before it reaches a file system has no record: the log of refusals has it
// (base/refusal_log.h). Nor has one that the client must try again (kDelay).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/task.h"
#include "fs/audited/audit_log.h"
#include "fs/file_system.h"

namespace penstock::fs::audited {

// Any thread may call any method.
class FileSystem final : public fs::FileSystem {
 public:
  // `path`: that of the export, for the records.
  FileSystem(std::shared_ptr<fs::FileSystem> files, std::string path, std::shared_ptr<AuditLog> log)
      : files_(std::move(files)), path_(std::move(path)), log_(std::move(log)) {}

  const std::shared_ptr<fs::FileSystem>& files() const { return files_; }
  const std::string& path() const { return path_; }

  Handle Root() const override { return files_->Root(); }
  const Properties& GetProperties() const override { return files_->GetProperties(); }
  Result<Identity> Identify(const Handle& object) const override { return files_->Identify(object); }
  Task<Result<Attributes>> GetAttributes(const RequestContext& context, const Handle& object) override {
    return files_->GetAttributes(context, object);
  }
  Task<Changed<void>> SetAttributes(const RequestContext& context, const Handle& object, const NewAttributes& values,
                                    std::optional<Timestamp> guard) override;
  Task<Observed<Node>> Lookup(const RequestContext& context, const Handle& directory, std::string_view name) override {
    return files_->Lookup(context, directory, name);
  }
  Task<Observed<AccessMask>> Access(const RequestContext& context, const Handle& object, AccessMask wanted) override {
    return files_->Access(context, object, wanted);
  }
  Task<Observed<std::string>> ReadLink(const RequestContext& context, const Handle& symlink) override {
    return files_->ReadLink(context, symlink);
  }
  Task<Observed<ReadReply>> Read(const RequestContext& context, const Handle& file, uint64_t offset,
                                 uint32_t count) override {
    return files_->Read(context, file, offset, count);
  }
  Task<Changed<WriteReply>> Write(const RequestContext& context, const Handle& file, uint64_t offset, const Data& data,
                                  Stability stability) override;
  Task<Changed<WriteVerifier>> Commit(const RequestContext& context, const Handle& file) override {
    return files_->Commit(context, file);
  }
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
                                                   const ReadDirectoryArguments& arguments, EntrySink& sink) override {
    return files_->ReadDirectory(context, directory, arguments, sink);
  }
  Task<Observed<Space>> GetSpace(const RequestContext& context, const Handle& object) override {
    return files_->GetSpace(context, object);
  }
  Task<Result<std::optional<Quota>>> GetQuota(const RequestContext& context, QuotaKind kind, uint32_t id) override {
    return files_->GetQuota(context, kind, id);
  }
  Task<Result<Pinned>> Pin(const RequestContext& context, const Handle& file) override {
    return files_->Pin(context, file);
  }
  Task<Result<std::shared_ptr<LocalLocks>>> OpenLocks(const RequestContext& context, const Handle& file,
                                                      bool exclusive) override {
    return files_->OpenLocks(context, file, exclusive);
  }
  Task<LeaseReply> OpenLease(const RequestContext& context, const Handle& file) override {
    return files_->OpenLease(context, file);
  }
  bool RecordsOpens() const override { return true; }
  void RecordOpen(const RequestContext& context, const OpenRecord& open) override;
  std::string PathOf(const Handle& object) override { return files_->PathOf(object); }
  Task<Observed<SeekReply>> Seek(const RequestContext& context, const Handle& file, uint64_t offset,
                                 SeekWhat what) override {
    return files_->Seek(context, file, offset, what);
  }
  Task<Changed<void>> Allocate(const RequestContext& context, const Handle& file, uint64_t offset,
                               uint64_t length) override;
  Task<Changed<void>> Deallocate(const RequestContext& context, const Handle& file, uint64_t offset,
                                 uint64_t length) override;
  Task<Changed<CopyReply>> Copy(const RequestContext& context, const Handle& from, uint64_t from_offset,
                                const Handle& to, uint64_t to_offset, uint64_t count) override;
  Task<Changed<void>> Clone(const RequestContext& context, const Handle& from, uint64_t from_offset, const Handle& to,
                            uint64_t to_offset, uint64_t count) override;
  Task<Result<void>> Advise(const RequestContext& context, const Handle& file, uint64_t offset, uint64_t count,
                            Advice advice) override {
    return files_->Advise(context, file, offset, count, advice);
  }
  Task<Observed<std::vector<std::byte>>> GetXattr(const RequestContext& context, const Handle& object,
                                                  std::string_view name) override {
    return files_->GetXattr(context, object, name);
  }
  Task<Changed<void>> SetXattr(const RequestContext& context, const Handle& object, std::string_view name,
                               ConstBytes value, XattrMode mode) override;
  Task<Changed<void>> RemoveXattr(const RequestContext& context, const Handle& object, std::string_view name) override;
  Task<Observed<std::vector<std::string>>> ListXattrs(const RequestContext& context, const Handle& object) override {
    return files_->ListXattrs(context, object);
  }
  Task<Observed<Acls>> GetAcls(const RequestContext& context, const Handle& object) override {
    return files_->GetAcls(context, object);
  }
  Task<Changed<void>> SetAcls(const RequestContext& context, const Handle& object, const NewAcls& acls) override;

 private:
  Record RecordOf(const RequestContext& context, std::string_view operation, const Handle& at,
                  std::string_view name = {}) const;
  // Carries out one operation, and adds its record. `task` has not begun yet.
  template <class Reply>
  Task<Reply> Pass(Record record, Task<Reply> task) const;
  // The same for an operation that writes data to `file`: not all have records.
  template <class Reply>
  Task<Reply> PassWrite(Record record, Handle file, Task<Reply> task) const;

  const std::shared_ptr<fs::FileSystem> files_;
  const std::string path_;
  const std::shared_ptr<AuditLog> log_;
};

}  // namespace penstock::fs::audited
