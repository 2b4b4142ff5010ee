// GETXATTR, SETXATTR, LISTXATTRS, REMOVEXATTR (RFC 8276 §8.4).
#include <algorithm>
#include <vector>

#include "base/utf8.h"
#include "nfs/v4/attributes/convert.h"
#include "nfs/v4/operations/io_state.h"
#include "nfs/v4/operations/operations.h"
#include "xdr/encode.h"

namespace penstock::nfs::v4 {

using namespace nfs4;  // NOLINT: the protocol's own names, RFC 8276

namespace {

// The checks before an attribute is looked up. Names are UTF-8 and may contain slashes; the file system limits their
// length.
nfsstat4 CheckCall(const Object& object, std::string_view name) {
  if (!object.file_system().GetProperties().xattrs) return NFS4ERR_NOTSUPP;
  return IsUtf8(name) ? NFS4_OK : NFS4ERR_INVAL;
}

Task<nfsstat4> CheckChange(Compound& compound, std::string_view name) {
  const Object& object = *compound.current;
  if (object.read_only()) co_return NFS4ERR_ROFS;
  if (const nfsstat4 status = CheckCall(object, name); status != NFS4_OK) co_return status;
  co_return co_await RecallBeforeChange(compound, object.name());
}

// Returns an error for objects without extended attributes.
nfsstat4 ChangeStatus(const fs::Changed<void>& changed) {
  if (changed.result) return NFS4_OK;
  const auto& after = changed.object.after;
  const bool has_xattrs = !after || after->type == fs::FileType::kRegular || after->type == fs::FileType::kDirectory;
  if (changed.result.error() == fs::Error::kPerm && !has_xattrs) return NFS4ERR_WRONG_TYPE;
  return ToStatus(changed.result.error());
}

fs::XattrMode ModeOf(setxattr_option4 option) {
  switch (option) {
    case SETXATTR4_CREATE:
      return fs::XattrMode::kCreate;
    case SETXATTR4_REPLACE:
      return fs::XattrMode::kReplace;
    case SETXATTR4_EITHER:
      break;
  }
  return fs::XattrMode::kEither;
}

// The cookie of a name: its hash (FNV-1a), so that it does not depend on other names. Zero is the beginning.
nfs_cookie4 CookieOf(std::string_view name) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char octet : name) hash = (hash ^ static_cast<uint8_t>(octet)) * 0x100000001b3;
  return std::max<uint64_t>(hash, 1);
}

struct Place {
  nfs_cookie4 cookie;
  std::string_view name;
  auto operator<=>(const Place&) const = default;
};

std::vector<Place> PlacesAfter(nfs_cookie4 cookie, const std::vector<std::string>& names) {
  std::vector<Place> places;
  for (const std::string& name : names) {
    if (const Place place{CookieOf(name), name}; place.cookie > cookie) places.push_back(place);
  }
  std::ranges::sort(places);
  return places;
}

nfsstat4 Fail(xdr::Encoder& results, nfsstat4 status) {
  xdr::Encode(results, status);
  return status;
}

// Adds as many names as there is room for. Names with the same hash, which occur only on purpose, stay together.
nfsstat4 EncodeNames(xdr::Encoder& results, const std::vector<Place>& places, nfs_cookie4 cookie, size_t room) {
  constexpr size_t kOverhead = 8 + 4 + 4;
  if (room < kOverhead) return Fail(results, NFS4ERR_TOOSMALL);
  room -= kOverhead;
  size_t count = 0;
  for (; count < places.size(); ++count) {
    const size_t size = 4 + RoundUp(places[count].name.size(), 4);
    if (size > room) break;
    room -= size;
  }
  if (count != places.size()) {
    while (count != 0 && places[count - 1].cookie == places[count].cookie) --count;
  }
  if (count == 0 && !places.empty()) return Fail(results, NFS4ERR_TOOSMALL);
  xdr::Encode(results, NFS4_OK);
  results.U64(count == 0 ? cookie : places[count - 1].cookie);
  results.Length(count);
  for (size_t i = 0; i < count; ++i) results.String(places[i].name);
  results.Bool(count == places.size());
  return NFS4_OK;
}

}  // namespace

// RFC 8276 §8.4.1
Task<nfsstat4> GetExtendedAttribute(Compound& compound, const GETXATTR4args& arguments, xdr::Encoder& results) {
  const Object& object = *compound.current;
  const nfsstat4 status = CheckCall(object, arguments.gxa_name);
  if (status != NFS4_OK) co_return Fail(results, status);
  const auto value = co_await object.file_system().GetXattr(object.context(), object.object(), arguments.gxa_name);
  if (!value.result) co_return Fail(results, ToStatus(value.result.error()));
  constexpr size_t kOverhead = 4 + 4;
  if (kOverhead + RoundUp(value.result->size(), 4) > compound.room) co_return Fail(results, NFS4ERR_REP_TOO_BIG);
  xdr::Encode(results, NFS4_OK);
  results.Opaque(*value.result);
  co_return NFS4_OK;
}

// RFC 8276 §8.4.2
Task<SETXATTR4res> SetExtendedAttribute(Compound& compound, const SETXATTR4args& arguments) {
  if (const nfsstat4 status = co_await CheckChange(compound, arguments.sxa_key); status != NFS4_OK) {
    co_return SETXATTR4res(status);
  }
  const Object& object = *compound.current;
  const auto changed = co_await object.file_system().SetXattr(
      object.context(), object.object(), arguments.sxa_key, arguments.sxa_value.bytes(), ModeOf(arguments.sxa_option));
  if (!changed.result) co_return SETXATTR4res(ChangeStatus(changed));
  co_return SETXATTR4res(NFS4_OK, ToChangeInfo(changed.object));
}

// RFC 8276 §8.4.3
Task<nfsstat4> ListExtendedAttributes(Compound& compound, const LISTXATTRS4args& arguments, xdr::Encoder& results) {
  const Object& object = *compound.current;
  if (!object.file_system().GetProperties().xattrs) co_return Fail(results, NFS4ERR_NOTSUPP);
  const auto names = co_await object.file_system().ListXattrs(object.context(), object.object());
  if (!names.result) co_return Fail(results, ToStatus(names.result.error()));
  // maxcount does not count the status.
  const size_t room = std::min<size_t>(arguments.lxa_maxcount, compound.room - std::min(compound.room, size_t{4}));
  co_return EncodeNames(results, PlacesAfter(arguments.lxa_cookie, *names.result), arguments.lxa_cookie, room);
}

// RFC 8276 §8.4.4
Task<REMOVEXATTR4res> RemoveExtendedAttribute(Compound& compound, const REMOVEXATTR4args& arguments) {
  if (const nfsstat4 status = co_await CheckChange(compound, arguments.rxa_name); status != NFS4_OK) {
    co_return REMOVEXATTR4res(status);
  }
  const Object& object = *compound.current;
  const auto changed = co_await object.file_system().RemoveXattr(object.context(), object.object(), arguments.rxa_name);
  if (!changed.result) co_return REMOVEXATTR4res(ChangeStatus(changed));
  co_return REMOVEXATTR4res(NFS4_OK, ToChangeInfo(changed.object));
}

}  // namespace penstock::nfs::v4
