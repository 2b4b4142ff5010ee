// The requests that concern extended attributes and access control lists.
#include <sys/xattr.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "client/acl_values.h"
#include "fuse/file_system.h"

namespace penstock::fuse {

using client::Result;
using client::Status;

namespace {

using client::kAccessAcl;
using client::kDefaultAcl;
using client::kNfs4Acl;
constexpr std::string_view kUser = client::kUserPrefix;

bool IsPosixAcl(std::string_view name) { return name == kAccessAcl || name == kDefaultAcl; }

std::unexpected<client::Error> NotSupported() {
  return std::unexpected(client::ErrorOf(Status::kNotSupported, "extended attribute"));
}

// The value in a request for `size` octets; zero asks for the size alone.
void Reply(Request& request, size_t size, ConstBytes value) {
  if (size == 0) {
    request.XattrSize(value.size());
  } else if (value.size() > size) {
    request.Status(ERANGE);
  } else {
    request.Octets(value);
  }
}

Task<Result<std::vector<std::byte>>> ValueOf(client::Mount& mount, client::Handle object, std::string path,
                                             std::string name) {
  if (name.starts_with(kUser)) co_return co_await mount.GetXattr(object, path, name.substr(kUser.size()));
  if (name == kNfs4Acl) {
    PENSTOCK_CO_TRY(const std::vector<client::Ace> acl, co_await mount.GetAcl(object, path));
    co_return client::EncodeNfs4Acl(acl);
  }
  if (!IsPosixAcl(name)) co_return NotSupported();
  PENSTOCK_CO_TRY(const client::PosixAcl acl, co_await mount.GetPosixAcl(object, path));
  const std::vector<client::PosixAce>& entries = name == kAccessAcl ? acl.access : acl.defaults;
  // A list that says no more than the mode is none.
  const bool says_more = name == kAccessAcl ? client::HasNamedEntries(entries) : !entries.empty();
  if (!says_more) {
    co_return std::unexpected(client::Error{path + ": no access control list", std::nullopt, ENODATA});
  }
  co_return client::EncodePosixAcl(entries);
}

Task<Result<void>> SetPosixAcl(client::Mount& mount, client::Handle object, std::string path, bool is_default,
                               std::vector<client::PosixAce> entries) {
  PENSTOCK_CO_TRY(client::PosixAcl acl, co_await mount.GetPosixAcl(object, path));
  (is_default ? acl.defaults : acl.access) = std::move(entries);
  co_return co_await mount.SetPosixAcl(object, path, acl);
}

Task<Result<void>> Store(client::Mount& mount, client::Handle object, std::string path, std::string name,
                         std::vector<std::byte> value, int flags) {
  if (name.starts_with(kUser)) {
    const auto mode = flags == XATTR_CREATE    ? client::XattrMode::kCreate
                      : flags == XATTR_REPLACE ? client::XattrMode::kReplace
                                               : client::XattrMode::kEither;
    co_return co_await mount.SetXattr(object, path, name.substr(kUser.size()), value, mode);
  }
  const client::Error malformed{path + ": malformed access control list", std::nullopt, EINVAL};
  if (name == kNfs4Acl) {
    const auto acl = client::DecodeNfs4Acl(value);
    if (!acl) co_return std::unexpected(malformed);
    co_return co_await mount.SetAcl(object, path, *acl);
  }
  if (!IsPosixAcl(name)) co_return NotSupported();
  auto entries = client::DecodePosixAcl(value);
  if (!entries) co_return std::unexpected(malformed);
  co_return co_await SetPosixAcl(mount, object, path, name == kDefaultAcl, *std::move(entries));
}

}  // namespace

Task<void> FileSystem::GetXattr(RequestPointer request, uint64_t inode, std::string name, size_t size) {
  auto target = co_await Find(*request, inode);
  if (!target) co_return;
  auto value = co_await ValueOf(target->mount, target->inode->handle, PathOf(*target->inode), std::move(name));
  if (Failed(*request, value)) co_return;
  Reply(*request, size, *value);
}

Task<void> FileSystem::SetXattr(RequestPointer request, uint64_t inode, std::string name, std::vector<std::byte> value,
                                int flags) {
  auto target = co_await Find(*request, inode);
  if (!target) co_return;
  Inode& at = *target->inode;
  Result<void> stored = co_await Store(target->mount, at.handle, PathOf(at), std::move(name), std::move(value), flags);
  if (Failed(*request, stored)) co_return;
  (void)co_await RefreshAll(target->mount, at);
  request->Status(0);
}

Task<void> FileSystem::ListXattrs(RequestPointer request, uint64_t inode, size_t size) {
  auto target = co_await Find(*request, inode);
  if (!target) co_return;
  const client::Handle object = target->inode->handle;
  const std::string path = PathOf(*target->inode);
  std::string names;
  auto listed = co_await target->mount.ListXattrs(object, path);
  if (!listed && listed.error().status != Status::kNotSupported) {
    request->Fail(listed.error());
    co_return;
  }
  if (listed) {
    for (const std::string& name : *listed) names += std::string(kUser) + name + '\0';
  }
  if (target->mount.version() != "3") names += std::string(kNfs4Acl) + '\0';
  for (const std::string_view acl : {kAccessAcl, kDefaultAcl}) {
    if (target->mount.version() != "3") break;
    auto value = co_await ValueOf(target->mount, object, path, std::string(acl));
    if (value) names += std::string(acl) + '\0';
    if (value || value.error().number == ENODATA || value.error().status == Status::kNotSupported) continue;
    request->Fail(value.error());
    co_return;
  }
  Reply(*request, size, AsBytes(names));
}

Task<void> FileSystem::RemoveXattr(RequestPointer request, uint64_t inode, std::string name) {
  auto target = co_await Find(*request, inode);
  if (!target) co_return;
  Inode& at = *target->inode;
  Result<void> removed = NotSupported();
  if (name.starts_with(kUser)) {
    removed = co_await target->mount.RemoveXattr(at.handle, PathOf(at), name.substr(kUser.size()));
  } else if (name == kDefaultAcl) {
    removed = co_await SetPosixAcl(target->mount, at.handle, PathOf(at), true, {});
  }
  if (Failed(*request, removed)) co_return;
  (void)co_await RefreshAll(target->mount, at);
  request->Status(0);
}

}  // namespace penstock::fuse
