#include "fs/audited/file_system.h"

#include <fmt/format.h>

#include <chrono>
#include <utility>

namespace penstock::fs::audited {

Record FileSystem::RecordOf(const RequestContext& context, std::string_view operation, const Handle& at,
                            std::string_view name) const {
  Record record;
  record.operation = operation;
  record.client = context.client;
  record.uid = context.credentials.uid;
  record.gid = context.credentials.gid;
  record.export_path = path_;
  record.files = files_;
  record.object = Place{.at = at, .name = std::string(name)};
  return record;
}

namespace {

// Adds the record of an operation with this result.
template <class T>
void AddWithResult(AuditLog& log, Record record, const Result<T>& result) {
  if (!result) {
    if (result.error() == Error::kDelay) return;
    record.result = ToString(result.error());
  }
  log.Add(std::move(record));
}

}  // namespace

template <class Reply>
Task<Reply> FileSystem::Pass(Record record, Task<Reply> task) const {
  const std::shared_ptr<AuditLog> log = log_;
  Reply reply = co_await std::move(task);
  AddWithResult(*log, std::move(record), reply.result);
  co_return reply;
}

template <class Reply>
Task<Reply> FileSystem::PassWrite(Record record, Handle file, Task<Reply> task) const {
  const std::shared_ptr<AuditLog> log = log_;
  Reply reply = co_await std::move(task);
  if (!reply.result) {
    if (reply.result.error() == Error::kDelay) co_return reply;
    record.result = ToString(reply.result.error());
  }
  const TimePoint now = std::chrono::steady_clock::now();
  const std::string writer = fmt::format("{} {}", record.uid, record.operation);
  if (log->IsFirstWrite(record.client, writer, file, reply.result.has_value(), now)) log->Add(std::move(record));
  co_return reply;
}

Task<Changed<void>> FileSystem::SetAttributes(const RequestContext& context, const Handle& object,
                                              const NewAttributes& values, std::optional<Timestamp> guard) {
  return Pass(RecordOf(context, "setattr", object), files_->SetAttributes(context, object, values, guard));
}

Task<Changed<WriteReply>> FileSystem::Write(const RequestContext& context, const Handle& file, uint64_t offset,
                                            const Data& data, Stability stability) {
  return PassWrite(RecordOf(context, "write", file), file, files_->Write(context, file, offset, data, stability));
}

Task<Changed<Node>> FileSystem::Create(const RequestContext& context, const Handle& directory, std::string_view name,
                                       const CreateHow& how) {
  const std::shared_ptr<AuditLog> log = log_;
  Record record = RecordOf(context, "create", directory, name);
  Changed<Node> reply = co_await files_->Create(context, directory, name, how);
  const bool is_existing_file = reply.result && reply.result->existed && how.attributes.size != 0;
  const bool is_existing = !reply.result && reply.result.error() == Error::kExist && how.mode == CreateMode::kUnchecked;
  if (!is_existing_file && !is_existing) AddWithResult(*log, std::move(record), reply.result);
  co_return reply;
}

Task<Changed<Node>> FileSystem::MakeDirectory(const RequestContext& context, const Handle& directory,
                                              std::string_view name, const NewAttributes& attributes) {
  return Pass(RecordOf(context, "mkdir", directory, name), files_->MakeDirectory(context, directory, name, attributes));
}

Task<Changed<Node>> FileSystem::MakeSymlink(const RequestContext& context, const Handle& directory,
                                            std::string_view name, std::string_view target,
                                            const NewAttributes& attributes) {
  return Pass(RecordOf(context, "symlink", directory, name),
              files_->MakeSymlink(context, directory, name, target, attributes));
}

Task<Changed<Node>> FileSystem::MakeNode(const RequestContext& context, const Handle& directory, std::string_view name,
                                         const NodeType& type, const NewAttributes& attributes) {
  return Pass(RecordOf(context, "mknod", directory, name),
              files_->MakeNode(context, directory, name, type, attributes));
}

Task<Changed<void>> FileSystem::Remove(const RequestContext& context, const Handle& directory, std::string_view name) {
  return Pass(RecordOf(context, "remove", directory, name), files_->Remove(context, directory, name));
}

Task<Changed<void>> FileSystem::RemoveDirectory(const RequestContext& context, const Handle& directory,
                                                std::string_view name) {
  return Pass(RecordOf(context, "rmdir", directory, name), files_->RemoveDirectory(context, directory, name));
}

Task<Renamed> FileSystem::Rename(const RequestContext& context, const Handle& from_directory,
                                 std::string_view from_name, const Handle& to_directory, std::string_view to_name) {
  Record record = RecordOf(context, "rename", from_directory, from_name);
  record.to = Place{.at = to_directory, .name = std::string(to_name)};
  return Pass(std::move(record), files_->Rename(context, from_directory, from_name, to_directory, to_name));
}

Task<Linked> FileSystem::Link(const RequestContext& context, const Handle& file, const Handle& directory,
                              std::string_view name) {
  Record record = RecordOf(context, "link", file);
  record.to = Place{.at = directory, .name = std::string(name)};
  return Pass(std::move(record), files_->Link(context, file, directory, name));
}

void FileSystem::RecordOpen(const RequestContext& context, const OpenRecord& open) {
  Record record = RecordOf(context, "open", open.at, open.name);
  if (open.reads) record.access = "read";
  if (open.writes) record.access += open.reads ? ",write" : "write";
  record.result = open.result;
  log_->Add(std::move(record));
}

Task<Changed<void>> FileSystem::Allocate(const RequestContext& context, const Handle& file, uint64_t offset,
                                         uint64_t length) {
  return Pass(RecordOf(context, "allocate", file), files_->Allocate(context, file, offset, length));
}

Task<Changed<void>> FileSystem::Deallocate(const RequestContext& context, const Handle& file, uint64_t offset,
                                           uint64_t length) {
  return Pass(RecordOf(context, "deallocate", file), files_->Deallocate(context, file, offset, length));
}

// A client's COPY may take many calls.
Task<Changed<CopyReply>> FileSystem::Copy(const RequestContext& context, const Handle& from, uint64_t from_offset,
                                          const Handle& to, uint64_t to_offset, uint64_t count) {
  return PassWrite(RecordOf(context, "copy", to), to, files_->Copy(context, from, from_offset, to, to_offset, count));
}

Task<Changed<void>> FileSystem::Clone(const RequestContext& context, const Handle& from, uint64_t from_offset,
                                      const Handle& to, uint64_t to_offset, uint64_t count) {
  return Pass(RecordOf(context, "clone", to), files_->Clone(context, from, from_offset, to, to_offset, count));
}

Task<Changed<void>> FileSystem::SetXattr(const RequestContext& context, const Handle& object, std::string_view name,
                                         ConstBytes value, XattrMode mode) {
  return Pass(RecordOf(context, "setxattr", object), files_->SetXattr(context, object, name, value, mode));
}

Task<Changed<void>> FileSystem::RemoveXattr(const RequestContext& context, const Handle& object,
                                            std::string_view name) {
  return Pass(RecordOf(context, "removexattr", object), files_->RemoveXattr(context, object, name));
}

Task<Changed<void>> FileSystem::SetAcls(const RequestContext& context, const Handle& object, const NewAcls& acls) {
  return Pass(RecordOf(context, "setacl", object), files_->SetAcls(context, object, acls));
}

}  // namespace penstock::fs::audited
