// A file system that stands before another, for tests: what is derived from it may fail an operation, or take its time.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fs/file_system.h"

namespace penstock::fs {

enum class FileOperation : uint8_t {
  kGetAttributes,
  kSetAttributes,
  kLookup,
  kAccess,
  kReadLink,
  kRead,
  kWrite,
  kCommit,
  kCreate,
  kMakeDirectory,
  kMakeSymlink,
  kMakeNode,
  kRemove,
  kRemoveDirectory,
  kRename,
  kLink,
  kReadDirectory,
  kGetSpace,
  kPin,
  kSeek,
  kAllocate,
  kDeallocate,
  kCopy,
  kClone,
  kAdvise,
  kGetXattr,
  kSetXattr,
  kRemoveXattr,
  kListXattrs,
  kGetAcls,
  kSetAcls,
};

class ForwardingFiles : public FileSystem {
 public:
  explicit ForwardingFiles(std::shared_ptr<FileSystem> files) : files_(std::move(files)) {}

  Handle Root() const override { return files_->Root(); }
  const Properties& GetProperties() const override { return files_->GetProperties(); }
  Result<Identity> Identify(const Handle& object) const override { return files_->Identify(object); }
  Task<Result<Attributes>> GetAttributes(const RequestContext& context, const Handle& object) override {
    return Pass(FileOperation::kGetAttributes, files_->GetAttributes(context, object));
  }
  Task<Changed<void>> SetAttributes(const RequestContext& context, const Handle& object, const NewAttributes& values,
                                    std::optional<Timestamp> guard) override {
    return Pass(FileOperation::kSetAttributes, files_->SetAttributes(context, object, values, guard));
  }
  Task<Observed<Node>> Lookup(const RequestContext& context, const Handle& directory, std::string_view name) override {
    return Pass(FileOperation::kLookup, files_->Lookup(context, directory, name));
  }
  Task<Observed<AccessMask>> Access(const RequestContext& context, const Handle& object, AccessMask wanted) override {
    return Pass(FileOperation::kAccess, files_->Access(context, object, wanted));
  }
  Task<Observed<std::string>> ReadLink(const RequestContext& context, const Handle& symlink) override {
    return Pass(FileOperation::kReadLink, files_->ReadLink(context, symlink));
  }
  Task<Observed<ReadReply>> Read(const RequestContext& context, const Handle& file, uint64_t offset,
                                 uint32_t count) override {
    return Pass(FileOperation::kRead, files_->Read(context, file, offset, count));
  }
  Task<Changed<WriteReply>> Write(const RequestContext& context, const Handle& file, uint64_t offset, const Data& data,
                                  Stability stability) override {
    return Pass(FileOperation::kWrite, files_->Write(context, file, offset, data, stability));
  }
  Task<Changed<WriteVerifier>> Commit(const RequestContext& context, const Handle& file) override {
    return Pass(FileOperation::kCommit, files_->Commit(context, file));
  }
  Task<Changed<Node>> Create(const RequestContext& context, const Handle& directory, std::string_view name,
                             const CreateHow& how) override {
    return Pass(FileOperation::kCreate, files_->Create(context, directory, name, how));
  }
  Task<Changed<Node>> MakeDirectory(const RequestContext& context, const Handle& directory, std::string_view name,
                                    const NewAttributes& attributes) override {
    return Pass(FileOperation::kMakeDirectory, files_->MakeDirectory(context, directory, name, attributes));
  }
  Task<Changed<Node>> MakeSymlink(const RequestContext& context, const Handle& directory, std::string_view name,
                                  std::string_view target, const NewAttributes& attributes) override {
    return Pass(FileOperation::kMakeSymlink, files_->MakeSymlink(context, directory, name, target, attributes));
  }
  Task<Changed<Node>> MakeNode(const RequestContext& context, const Handle& directory, std::string_view name,
                               const NodeType& type, const NewAttributes& attributes) override {
    return Pass(FileOperation::kMakeNode, files_->MakeNode(context, directory, name, type, attributes));
  }
  Task<Changed<void>> Remove(const RequestContext& context, const Handle& directory, std::string_view name) override {
    return Pass(FileOperation::kRemove, files_->Remove(context, directory, name));
  }
  Task<Changed<void>> RemoveDirectory(const RequestContext& context, const Handle& directory,
                                      std::string_view name) override {
    return Pass(FileOperation::kRemoveDirectory, files_->RemoveDirectory(context, directory, name));
  }
  Task<Renamed> Rename(const RequestContext& context, const Handle& from_directory, std::string_view from_name,
                       const Handle& to_directory, std::string_view to_name) override {
    return Pass(FileOperation::kRename, files_->Rename(context, from_directory, from_name, to_directory, to_name));
  }
  Task<Linked> Link(const RequestContext& context, const Handle& file, const Handle& directory,
                    std::string_view name) override {
    return Pass(FileOperation::kLink, files_->Link(context, file, directory, name));
  }
  Task<Observed<ReadDirectoryReply>> ReadDirectory(const RequestContext& context, const Handle& directory,
                                                   const ReadDirectoryArguments& arguments, EntrySink& sink) override {
    return Pass(FileOperation::kReadDirectory, files_->ReadDirectory(context, directory, arguments, sink));
  }
  Task<Observed<Space>> GetSpace(const RequestContext& context, const Handle& object) override {
    return Pass(FileOperation::kGetSpace, files_->GetSpace(context, object));
  }
  Task<Result<Pinned>> Pin(const RequestContext& context, const Handle& file) override {
    return Pass(FileOperation::kPin, files_->Pin(context, file));
  }
  Task<Result<std::shared_ptr<LocalLocks>>> OpenLocks(const RequestContext& context, const Handle& file,
                                                      bool exclusive) override {
    return files_->OpenLocks(context, file, exclusive);
  }
  Task<LeaseReply> OpenLease(const RequestContext& context, const Handle& file) override {
    return files_->OpenLease(context, file);
  }
  Task<Observed<SeekReply>> Seek(const RequestContext& context, const Handle& file, uint64_t offset,
                                 SeekWhat what) override {
    return Pass(FileOperation::kSeek, files_->Seek(context, file, offset, what));
  }
  Task<Changed<void>> Allocate(const RequestContext& context, const Handle& file, uint64_t offset,
                               uint64_t length) override {
    return Pass(FileOperation::kAllocate, files_->Allocate(context, file, offset, length));
  }
  Task<Changed<void>> Deallocate(const RequestContext& context, const Handle& file, uint64_t offset,
                                 uint64_t length) override {
    return Pass(FileOperation::kDeallocate, files_->Deallocate(context, file, offset, length));
  }
  Task<Changed<CopyReply>> Copy(const RequestContext& context, const Handle& from, uint64_t from_offset,
                                const Handle& to, uint64_t to_offset, uint64_t count) override {
    return Pass(FileOperation::kCopy, files_->Copy(context, from, from_offset, to, to_offset, count));
  }
  Task<Changed<void>> Clone(const RequestContext& context, const Handle& from, uint64_t from_offset, const Handle& to,
                            uint64_t to_offset, uint64_t count) override {
    return Pass(FileOperation::kClone, files_->Clone(context, from, from_offset, to, to_offset, count));
  }
  Task<Result<void>> Advise(const RequestContext& context, const Handle& file, uint64_t offset, uint64_t count,
                            Advice advice) override {
    return Pass(FileOperation::kAdvise, files_->Advise(context, file, offset, count, advice));
  }
  Task<Observed<std::vector<std::byte>>> GetXattr(const RequestContext& context, const Handle& object,
                                                  std::string_view name) override {
    return Pass(FileOperation::kGetXattr, files_->GetXattr(context, object, name));
  }
  Task<Changed<void>> SetXattr(const RequestContext& context, const Handle& object, std::string_view name,
                               ConstBytes value, XattrMode mode) override {
    return Pass(FileOperation::kSetXattr, files_->SetXattr(context, object, name, value, mode));
  }
  Task<Changed<void>> RemoveXattr(const RequestContext& context, const Handle& object, std::string_view name) override {
    return Pass(FileOperation::kRemoveXattr, files_->RemoveXattr(context, object, name));
  }
  Task<Observed<std::vector<std::string>>> ListXattrs(const RequestContext& context, const Handle& object) override {
    return Pass(FileOperation::kListXattrs, files_->ListXattrs(context, object));
  }
  Task<Observed<Acls>> GetAcls(const RequestContext& context, const Handle& object) override {
    return Pass(FileOperation::kGetAcls, files_->GetAcls(context, object));
  }
  Task<Changed<void>> SetAcls(const RequestContext& context, const Handle& object, const NewAcls& acls) override {
    return Pass(FileOperation::kSetAcls, files_->SetAcls(context, object, acls));
  }

 protected:
  // Before the operation is begun. An error: it is not, and ends with that.
  virtual Task<std::optional<Error>> Before(FileOperation operation) = 0;
  // When it is done, before its caller hears of it. An error: it is said to have failed, although it was done.
  virtual Task<std::optional<Error>> After(FileOperation operation) = 0;

 private:
  template <class T>
  static Result<T> Failed(Error error, const Result<T>*) {
    return std::unexpected(error);
  }
  static Renamed Failed(Error error, const Renamed*) { return {std::unexpected(error), {}, {}}; }
  static Linked Failed(Error error, const Linked*) { return {std::unexpected(error), {}, {}}; }
  template <class Reply>
  static Reply Failed(Error error, const Reply*) {
    return Reply{std::unexpected(error), {}};
  }

  // `task` begins when it is awaited.
  template <class Reply>
  Task<Reply> Pass(FileOperation operation, Task<Reply> task) {
    std::optional<Error> error = co_await Before(operation);
    if (error) co_return Failed(*error, static_cast<const Reply*>(nullptr));
    Reply reply = co_await std::move(task);
    error = co_await After(operation);
    if (error) co_return Failed(*error, static_cast<const Reply*>(nullptr));
    co_return reply;
  }

  const std::shared_ptr<FileSystem> files_;
};

}  // namespace penstock::fs
