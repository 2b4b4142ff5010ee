#include "library/server/adapted_file_system.h"

#include <fmt/format.h>

namespace penstock::library {
namespace {

// The buffer pool of the calling thread. Buffers may outlive their thread.
BufferPool& BuffersOfCaller() {
  static thread_local BufferPool pool;
  return pool;
}

}  // namespace

SetupResult<std::shared_ptr<AdaptedFileSystem>> AdaptedFileSystem::Make(std::shared_ptr<const Embedded> files,
                                                                        Workers& pool, const Settings& settings) {
  std::shared_ptr<AdaptedFileSystem> made(new AdaptedFileSystem(std::move(files), pool, settings));
  if (const auto found = made->tree_.FindRoot(); !found) {
    return std::unexpected(
        SetupError{fmt::format("the root of the host's file system cannot be used: {}", fs::ToString(found.error()))});
  }
  return made;
}

// The buffer comes from the loop, whose transports send it without a copy.
Task<fs::Observed<fs::ReadReply>> AdaptedFileSystem::Read(const fs::RequestContext& context, const fs::Handle& file,
                                                          uint64_t offset, uint32_t count) {
  BufferPool& buffers = context.loop ? context.loop->buffers() : BuffersOfCaller();
  const BufferRef buffer = buffers.Allocate(count);
  const auto run = [&] { return tree_.Read(context, file, offset, count, buffer); };
  co_return co_await Run(context, WorkKind::kData, run);
}

Task<fs::Result<fs::Pinned>> AdaptedFileSystem::Pin(const fs::RequestContext& context, const fs::Handle& file) {
  const auto run = [&] { return tree_.Pin(context, file); };
  const fs::Result<penstock_handle> pinned = co_await Run(context, WorkKind::kMetadata, run);
  if (!pinned) co_return std::unexpected(pinned.error());
  const auto unpin = [this, handle = *pinned, client = context.client](const void*) { Unpin(handle, client); };
  co_return fs::Pinned(&tree_, unpin);
}

// The caller may hold a lock, so the host is called on the pool.
void AdaptedFileSystem::Unpin(const penstock_handle& file, const ClientKey& client) const {
  if (!tree_.files().ops().pin) return;
  const auto unpin = [files = tree_.shared_files(), file] {
    const fs::RequestContext context;
    EmbeddedCalls(*files, context).Unpin(file);
  };
  if (may_block()) {
    pool_.Post(unpin, client);
  } else {
    unpin();
  }
}

// ---- The other methods are those of the tree.

Task<fs::Result<fs::Attributes>> AdaptedFileSystem::GetAttributes(const fs::RequestContext& context,
                                                                  const fs::Handle& object) {
  const auto run = [&] { return tree_.GetAttributes(context, object); };
  co_return co_await Run(context, WorkKind::kMetadata, run);
}

Task<fs::Changed<void>> AdaptedFileSystem::SetAttributes(const fs::RequestContext& context, const fs::Handle& object,
                                                         const fs::NewAttributes& values,
                                                         std::optional<fs::Timestamp> guard) {
  const auto run = [&] { return tree_.SetAttributes(context, object, values, guard); };
  // Truncating a long file takes time.
  const WorkKind kind = values.size ? WorkKind::kData : WorkKind::kMetadata;
  co_return co_await Run(context, kind, run);
}

Task<fs::Observed<fs::Node>> AdaptedFileSystem::Lookup(const fs::RequestContext& context, const fs::Handle& directory,
                                                       std::string_view name) {
  const auto run = [&] { return tree_.Lookup(context, directory, name); };
  co_return co_await Run(context, WorkKind::kMetadata, run);
}

Task<fs::Observed<fs::AccessMask>> AdaptedFileSystem::Access(const fs::RequestContext& context,
                                                             const fs::Handle& object, fs::AccessMask wanted) {
  const auto run = [&] { return tree_.Access(context, object, wanted); };
  co_return co_await Run(context, WorkKind::kMetadata, run);
}

Task<fs::Observed<std::string>> AdaptedFileSystem::ReadLink(const fs::RequestContext& context,
                                                            const fs::Handle& symlink) {
  const auto run = [&] { return tree_.ReadLink(context, symlink); };
  co_return co_await Run(context, WorkKind::kMetadata, run);
}

Task<fs::Changed<fs::WriteReply>> AdaptedFileSystem::Write(const fs::RequestContext& context, const fs::Handle& file,
                                                           uint64_t offset, const Data& given,
                                                           fs::Stability stability) {
  (void)co_await given.AllArrived();
  const Data data = given.Sub(0, given.arrived());
  const auto run = [&] { return tree_.Write(context, file, offset, data, stability); };
  co_return co_await Run(context, WorkKind::kData, run);
}

Task<fs::Changed<fs::WriteVerifier>> AdaptedFileSystem::Commit(const fs::RequestContext& context,
                                                               const fs::Handle& file) {
  const auto run = [&] { return tree_.Commit(context, file); };
  co_return co_await Run(context, WorkKind::kData, run);
}

Task<fs::Changed<fs::Node>> AdaptedFileSystem::Create(const fs::RequestContext& context, const fs::Handle& directory,
                                                      std::string_view name, const fs::CreateHow& how) {
  const auto run = [&] { return tree_.Create(context, directory, name, how); };
  co_return co_await Run(context, WorkKind::kMetadata, run);
}

Task<fs::Changed<fs::Node>> AdaptedFileSystem::MakeDirectory(const fs::RequestContext& context,
                                                             const fs::Handle& directory, std::string_view name,
                                                             const fs::NewAttributes& attributes) {
  const auto run = [&] { return tree_.MakeDirectory(context, directory, name, attributes); };
  co_return co_await Run(context, WorkKind::kMetadata, run);
}

Task<fs::Changed<fs::Node>> AdaptedFileSystem::MakeSymlink(const fs::RequestContext& context,
                                                           const fs::Handle& directory, std::string_view name,
                                                           std::string_view target,
                                                           const fs::NewAttributes& attributes) {
  const auto run = [&] { return tree_.MakeSymlink(context, directory, name, target, attributes); };
  co_return co_await Run(context, WorkKind::kMetadata, run);
}

Task<fs::Changed<fs::Node>> AdaptedFileSystem::MakeNode(const fs::RequestContext& context, const fs::Handle& directory,
                                                        std::string_view name, const fs::NodeType& type,
                                                        const fs::NewAttributes& attributes) {
  const auto run = [&] { return tree_.MakeNode(context, directory, name, type, attributes); };
  co_return co_await Run(context, WorkKind::kMetadata, run);
}

Task<fs::Changed<void>> AdaptedFileSystem::Remove(const fs::RequestContext& context, const fs::Handle& directory,
                                                  std::string_view name) {
  const auto run = [&] { return tree_.Remove(context, directory, name); };
  co_return co_await Run(context, WorkKind::kMetadata, run);
}

Task<fs::Changed<void>> AdaptedFileSystem::RemoveDirectory(const fs::RequestContext& context,
                                                           const fs::Handle& directory, std::string_view name) {
  const auto run = [&] { return tree_.RemoveDirectory(context, directory, name); };
  co_return co_await Run(context, WorkKind::kMetadata, run);
}

Task<fs::Renamed> AdaptedFileSystem::Rename(const fs::RequestContext& context, const fs::Handle& from_directory,
                                            std::string_view from_name, const fs::Handle& to_directory,
                                            std::string_view to_name) {
  const auto run = [&] { return tree_.Rename(context, from_directory, from_name, to_directory, to_name); };
  co_return co_await Run(context, WorkKind::kMetadata, run);
}

Task<fs::Linked> AdaptedFileSystem::Link(const fs::RequestContext& context, const fs::Handle& file,
                                         const fs::Handle& directory, std::string_view name) {
  const auto run = [&] { return tree_.Link(context, file, directory, name); };
  co_return co_await Run(context, WorkKind::kMetadata, run);
}

Task<fs::Observed<fs::ReadDirectoryReply>> AdaptedFileSystem::ReadDirectory(const fs::RequestContext& context,
                                                                            const fs::Handle& directory,
                                                                            const fs::ReadDirectoryArguments& arguments,
                                                                            fs::EntrySink& sink) {
  const auto run = [&] { return tree_.ReadDirectory(context, directory, arguments, sink); };
  co_return co_await Run(context, WorkKind::kMetadata, run);
}

Task<fs::Observed<fs::Space>> AdaptedFileSystem::GetSpace(const fs::RequestContext& context, const fs::Handle& object) {
  const auto run = [&] { return tree_.GetSpace(context, object); };
  co_return co_await Run(context, WorkKind::kMetadata, run);
}

Task<fs::Observed<fs::SeekReply>> AdaptedFileSystem::Seek(const fs::RequestContext& context, const fs::Handle& file,
                                                          uint64_t offset, fs::SeekWhat what) {
  const auto run = [&] { return tree_.Seek(context, file, offset, what); };
  co_return co_await Run(context, WorkKind::kData, run);
}

Task<fs::Changed<void>> AdaptedFileSystem::Allocate(const fs::RequestContext& context, const fs::Handle& file,
                                                    uint64_t offset, uint64_t length) {
  const auto run = [&] { return tree_.Allocate(context, file, offset, length); };
  co_return co_await Run(context, WorkKind::kData, run);
}

Task<fs::Changed<void>> AdaptedFileSystem::Deallocate(const fs::RequestContext& context, const fs::Handle& file,
                                                      uint64_t offset, uint64_t length) {
  const auto run = [&] { return tree_.Deallocate(context, file, offset, length); };
  co_return co_await Run(context, WorkKind::kData, run);
}

Task<fs::Changed<fs::CopyReply>> AdaptedFileSystem::Copy(const fs::RequestContext& context, const fs::Handle& from,
                                                         uint64_t from_offset, const fs::Handle& to, uint64_t to_offset,
                                                         uint64_t count) {
  const auto run = [&] { return tree_.Copy(context, from, from_offset, to, to_offset, count); };
  co_return co_await Run(context, WorkKind::kData, run);
}

Task<fs::Changed<void>> AdaptedFileSystem::Clone(const fs::RequestContext& context, const fs::Handle& from,
                                                 uint64_t /*from_offset*/, const fs::Handle& to, uint64_t /*to_offset*/,
                                                 uint64_t /*count*/) {
  const auto run = [&] { return tree_.Clone(context, from, to); };
  co_return co_await Run(context, WorkKind::kMetadata, run);
}

Task<fs::Result<void>> AdaptedFileSystem::Advise(const fs::RequestContext& context, const fs::Handle& file,
                                                 uint64_t /*offset*/, uint64_t /*count*/, fs::Advice /*advice*/) {
  const auto run = [&] { return tree_.Advise(context, file); };
  co_return co_await Run(context, WorkKind::kMetadata, run);
}

Task<fs::Observed<std::vector<std::byte>>> AdaptedFileSystem::GetXattr(const fs::RequestContext& context,
                                                                       const fs::Handle& object,
                                                                       std::string_view name) {
  const auto run = [&] { return tree_.GetXattr(context, object, name); };
  co_return co_await Run(context, WorkKind::kMetadata, run);
}

Task<fs::Changed<void>> AdaptedFileSystem::SetXattr(const fs::RequestContext& context, const fs::Handle& object,
                                                    std::string_view name, ConstBytes value, fs::XattrMode mode) {
  const auto run = [&] { return tree_.SetXattr(context, object, name, value, mode); };
  co_return co_await Run(context, WorkKind::kMetadata, run);
}

Task<fs::Changed<void>> AdaptedFileSystem::RemoveXattr(const fs::RequestContext& context, const fs::Handle& object,
                                                       std::string_view name) {
  const auto run = [&] { return tree_.RemoveXattr(context, object, name); };
  co_return co_await Run(context, WorkKind::kMetadata, run);
}

Task<fs::Observed<std::vector<std::string>>> AdaptedFileSystem::ListXattrs(const fs::RequestContext& context,
                                                                           const fs::Handle& object) {
  const auto run = [&] { return tree_.ListXattrs(context, object); };
  co_return co_await Run(context, WorkKind::kMetadata, run);
}

Task<fs::Observed<fs::Acls>> AdaptedFileSystem::GetAcls(const fs::RequestContext& context, const fs::Handle& object) {
  const auto run = [&] { return tree_.GetAcls(context, object); };
  co_return co_await Run(context, WorkKind::kMetadata, run);
}

Task<fs::Changed<void>> AdaptedFileSystem::SetAcls(const fs::RequestContext& context, const fs::Handle& object,
                                                   const fs::NewAcls& acls) {
  const auto run = [&] { return tree_.SetAcls(context, object, acls); };
  co_return co_await Run(context, WorkKind::kMetadata, run);
}

}  // namespace penstock::library
