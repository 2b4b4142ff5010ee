#include "fs/read_only_file_system.h"

#include <memory>

#include "fs/permission.h"

namespace penstock::fs {
namespace {

constexpr AccessMask kChanging = kAccessModify | kAccessExtend | kAccessDelete | kAccessXattrWrite;

Result<void> MayReadFile(const Attributes& file, const Credentials& caller) {
  PENSTOCK_CHECK(CheckRegular(file.type));
  if (MayReadData(file, caller, RightsOf(file, caller))) return {};
  return std::unexpected(Error::kAccess);
}

Result<SeekReply> SeekIn(const Attributes& file, const Credentials& caller, uint64_t offset, SeekWhat what) {
  PENSTOCK_CHECK(MayReadFile(file, caller));
  if (offset > file.size) return std::unexpected(Error::kNxIo);
  if (what == SeekWhat::kHole) return SeekReply{true, file.size};
  return SeekReply{offset < file.size, offset};
}

}  // namespace

ReadOnlyFileSystem::ReadOnlyFileSystem(Properties properties) : properties_(properties) {
  properties_.read_only = true;
}

Task<Observed<AccessMask>> ReadOnlyFileSystem::Access(const RequestContext& context, const Handle& object,
                                                      AccessMask wanted) {
  const Result<Attributes> found = co_await GetAttributes(context, object);
  if (!found) co_return Observed<AccessMask>{std::unexpected(found.error()), {}};
  const AccessMask granted = AccessOf(found->type, RightsOf(*found, context.credentials)) & ~kChanging;
  co_return Observed<AccessMask>{granted & wanted, *found};
}

Task<Observed<Space>> ReadOnlyFileSystem::GetSpace(const RequestContext& context, const Handle& object) {
  const Result<Attributes> found = co_await GetAttributes(context, object);
  if (!found) co_return Observed<Space>{std::unexpected(found.error()), {}};
  co_return Observed<Space>{Space{}, *found};
}

Task<Result<Pinned>> ReadOnlyFileSystem::Pin(const RequestContext& context, const Handle& file) {
  PENSTOCK_CO_TRY(const Attributes found, co_await GetAttributes(context, file));
  PENSTOCK_CO_CHECK(CheckRegular(found.type));
  Pinned pinned = std::make_shared<char>();
  co_return pinned;
}

Task<Observed<SeekReply>> ReadOnlyFileSystem::Seek(const RequestContext& context, const Handle& file, uint64_t offset,
                                                   SeekWhat what) {
  const Result<Attributes> found = co_await GetAttributes(context, file);
  if (!found) co_return Observed<SeekReply>{std::unexpected(found.error()), {}};
  co_return Observed<SeekReply>{SeekIn(*found, context.credentials, offset, what), *found};
}

Task<Result<void>> ReadOnlyFileSystem::Advise(const RequestContext& context, const Handle& file, uint64_t /*offset*/,
                                              uint64_t /*count*/, Advice /*advice*/) {
  PENSTOCK_CO_TRY(const Attributes found, co_await GetAttributes(context, file));
  co_return MayReadFile(found, context.credentials);
}

template <class T>
Task<Observed<T>> ReadOnlyFileSystem::RefuseXattrs(const RequestContext& context, const Handle& object) {
  const Result<Attributes> found = co_await GetAttributes(context, object);
  if (!found) co_return Observed<T>{std::unexpected(found.error()), {}};
  co_return Observed<T>{std::unexpected(Error::kNotSupported), *found};
}

Task<Observed<std::vector<std::byte>>> ReadOnlyFileSystem::GetXattr(const RequestContext& context, const Handle& object,
                                                                    std::string_view /*name*/) {
  return RefuseXattrs<std::vector<std::byte>>(context, object);
}

Task<Observed<std::vector<std::string>>> ReadOnlyFileSystem::ListXattrs(const RequestContext& context,
                                                                        const Handle& object) {
  return RefuseXattrs<std::vector<std::string>>(context, object);
}

Task<Observed<Acls>> ReadOnlyFileSystem::GetAcls(const RequestContext& context, const Handle& object) {
  const Result<Attributes> found = co_await GetAttributes(context, object);
  if (!found) co_return Observed<Acls>{std::unexpected(found.error()), {}};
  Acls acls;
  acls.access = AclOfMode(found->mode);
  co_return Observed<Acls>{std::move(acls), *found};
}

template <class T>
Task<Changed<T>> ReadOnlyFileSystem::Refuse(const RequestContext& context, const Handle& object) {
  const Result<Attributes> found = co_await GetAttributes(context, object);
  if (!found) co_return Changed<T>{std::unexpected(found.error()), {}};
  const WeakCacheData unchanged{BeforeOf(*found), *found};
  co_return Changed<T>{std::unexpected(Error::kReadOnly), unchanged};
}

Task<Changed<void>> ReadOnlyFileSystem::SetAttributes(const RequestContext& context, const Handle& object,
                                                      const NewAttributes& /*values*/,
                                                      std::optional<Timestamp> /*guard*/) {
  return Refuse<void>(context, object);
}

Task<Changed<WriteReply>> ReadOnlyFileSystem::Write(const RequestContext& context, const Handle& file,
                                                    uint64_t /*offset*/, const Data& /*data*/,
                                                    Stability /*stability*/) {
  return Refuse<WriteReply>(context, file);
}

Task<Changed<WriteVerifier>> ReadOnlyFileSystem::Commit(const RequestContext& context, const Handle& file) {
  return Refuse<WriteVerifier>(context, file);
}

Task<Changed<Node>> ReadOnlyFileSystem::Create(const RequestContext& context, const Handle& directory,
                                               std::string_view /*name*/, const CreateHow& /*how*/) {
  return Refuse<Node>(context, directory);
}

Task<Changed<Node>> ReadOnlyFileSystem::MakeDirectory(const RequestContext& context, const Handle& directory,
                                                      std::string_view /*name*/, const NewAttributes& /*attributes*/) {
  return Refuse<Node>(context, directory);
}

Task<Changed<Node>> ReadOnlyFileSystem::MakeSymlink(const RequestContext& context, const Handle& directory,
                                                    std::string_view /*name*/, std::string_view /*target*/,
                                                    const NewAttributes& /*attributes*/) {
  return Refuse<Node>(context, directory);
}

Task<Changed<Node>> ReadOnlyFileSystem::MakeNode(const RequestContext& context, const Handle& directory,
                                                 std::string_view /*name*/, const NodeType& /*type*/,
                                                 const NewAttributes& /*attributes*/) {
  return Refuse<Node>(context, directory);
}

Task<Changed<void>> ReadOnlyFileSystem::Remove(const RequestContext& context, const Handle& directory,
                                               std::string_view /*name*/) {
  return Refuse<void>(context, directory);
}

Task<Changed<void>> ReadOnlyFileSystem::RemoveDirectory(const RequestContext& context, const Handle& directory,
                                                        std::string_view /*name*/) {
  return Refuse<void>(context, directory);
}

Task<Renamed> ReadOnlyFileSystem::Rename(const RequestContext& context, const Handle& from_directory,
                                         std::string_view /*from_name*/, const Handle& to_directory,
                                         std::string_view /*to_name*/) {
  Changed<void> from = co_await Refuse<void>(context, from_directory);
  Changed<void> to = co_await Refuse<void>(context, to_directory);
  co_return Renamed{std::move(from.result), from.object, to.object};
}

Task<Linked> ReadOnlyFileSystem::Link(const RequestContext& context, const Handle& file, const Handle& directory,
                                      std::string_view /*name*/) {
  Changed<void> linked = co_await Refuse<void>(context, file);
  Changed<void> changed = co_await Refuse<void>(context, directory);
  co_return Linked{std::move(linked.result), linked.object.after, changed.object};
}

Task<Changed<void>> ReadOnlyFileSystem::Allocate(const RequestContext& context, const Handle& file, uint64_t /*offset*/,
                                                 uint64_t /*length*/) {
  return Refuse<void>(context, file);
}

Task<Changed<void>> ReadOnlyFileSystem::Deallocate(const RequestContext& context, const Handle& file,
                                                   uint64_t /*offset*/, uint64_t /*length*/) {
  return Refuse<void>(context, file);
}

Task<Changed<CopyReply>> ReadOnlyFileSystem::Copy(const RequestContext& context, const Handle& /*from*/,
                                                  uint64_t /*from_offset*/, const Handle& to, uint64_t /*to_offset*/,
                                                  uint64_t /*count*/) {
  return Refuse<CopyReply>(context, to);
}

Task<Changed<void>> ReadOnlyFileSystem::Clone(const RequestContext& context, const Handle& /*from*/,
                                              uint64_t /*from_offset*/, const Handle& to, uint64_t /*to_offset*/,
                                              uint64_t /*count*/) {
  return Refuse<void>(context, to);
}

Task<Changed<void>> ReadOnlyFileSystem::SetXattr(const RequestContext& context, const Handle& object,
                                                 std::string_view /*name*/, ConstBytes /*value*/, XattrMode /*mode*/) {
  return Refuse<void>(context, object);
}

Task<Changed<void>> ReadOnlyFileSystem::RemoveXattr(const RequestContext& context, const Handle& object,
                                                    std::string_view /*name*/) {
  return Refuse<void>(context, object);
}

Task<Changed<void>> ReadOnlyFileSystem::SetAcls(const RequestContext& context, const Handle& object,
                                                const NewAcls& /*acls*/) {
  return Refuse<void>(context, object);
}

}  // namespace penstock::fs
