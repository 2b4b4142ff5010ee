#include "client/nfs4/extended.h"

#include <fmt/core.h>
#include <limits.h>

#include <cerrno>
#include <tuple>

#include "client/nfs4/attributes.h"
#include "client/nfs4/names.h"
#include "client/set_up.h"

namespace penstock::client::v4 {
namespace {

// The names of one reply to LISTXATTRS, in octets.
constexpr uint32_t kMostNames = 64 << 10;

bool HasXattrs(const CompoundCaller& caller) { return caller.dialect().has_files_of_version_42; }

std::unexpected<Error> NotSupported(std::string_view what) {
  return std::unexpected(client::ErrorOf(Status::kNotSupported, what));
}

nfs4::setxattr_option4 OptionOf(XattrMode mode) {
  switch (mode) {
    case XattrMode::kCreate:
      return nfs4::setxattr_option4::SETXATTR4_CREATE;
    case XattrMode::kReplace:
      return nfs4::setxattr_option4::SETXATTR4_REPLACE;
    default:
      return nfs4::setxattr_option4::SETXATTR4_EITHER;
  }
}

}  // namespace

Task<Result<std::vector<std::byte>>> GetXattr(CompoundCaller& caller, const Handle& object, std::string_view what,
                                              std::string_view name) {
  if (!HasXattrs(caller)) co_return NotSupported(what);
  auto reply =
      co_await caller.Call([&] { return std::tuple(nfs4::PUTFH4args{object}, nfs4::GETXATTR4args{name}); }, what);
  if (!reply) co_return std::unexpected(std::move(reply).error());
  const ConstBytes value = std::get<1>(reply->results).gxr_value().bytes();
  co_return std::vector<std::byte>(value.begin(), value.end());
}

Task<Result<void>> SetXattr(CompoundCaller& caller, const Handle& object, std::string_view what, std::string_view name,
                            ConstBytes value, XattrMode mode) {
  if (!HasXattrs(caller)) co_return NotSupported(what);
  nfs4::SETXATTR4args set;
  set.sxa_option = OptionOf(mode);
  set.sxa_key = name;
  set.sxa_value = value;
  auto reply = co_await caller.Call([&] { return std::tuple(nfs4::PUTFH4args{object}, set); }, what);
  if (!reply) co_return std::unexpected(std::move(reply).error());
  co_return Result<void>();
}

Task<Result<std::vector<std::string>>> ListXattrs(CompoundCaller& caller, const Handle& object, std::string_view what) {
  if (!HasXattrs(caller)) co_return NotSupported(what);
  std::vector<std::string> names;
  size_t octets = 0;
  nfs4::LISTXATTRS4args list{.lxa_cookie = 0, .lxa_maxcount = kMostNames};
  for (;;) {
    auto reply = co_await caller.Call([&] { return std::tuple(nfs4::PUTFH4args{object}, list); }, what);
    if (!reply) co_return std::unexpected(std::move(reply).error());
    const nfs4::LISTXATTRS4resok& listed = std::get<1>(reply->results).lxr_value();
    for (const auto& name : listed.lxr_names) {
      names.emplace_back(std::string_view(name));
      octets += names.back().size() + 1;
    }
    if (listed.lxr_eof) co_return names;
    if (listed.lxr_cookie == list.lxa_cookie || listed.lxr_names.empty() || octets > XATTR_LIST_MAX) {
      co_return std::unexpected(
          Error{fmt::format("{}: the server never ends the list of extended attributes", what), std::nullopt, EPROTO});
    }
    list.lxa_cookie = listed.lxr_cookie;
  }
}

Task<Result<void>> RemoveXattr(CompoundCaller& caller, const Handle& object, std::string_view what,
                               std::string_view name) {
  if (!HasXattrs(caller)) co_return NotSupported(what);
  auto reply =
      co_await caller.Call([&] { return std::tuple(nfs4::PUTFH4args{object}, nfs4::REMOVEXATTR4args{name}); }, what);
  if (!reply) co_return std::unexpected(std::move(reply).error());
  co_return Result<void>();
}

Task<Result<std::vector<Ace>>> GetAcl(CompoundCaller& caller, const Handle& object, std::string_view what) {
  auto reply = co_await caller.Call(
      [&] { return std::tuple(nfs4::PUTFH4args{object}, nfs4::GETATTR4args{AclAttribute()}); }, what);
  if (!reply) co_return std::unexpected(std::move(reply).error());
  const nfs4::fattr4& attributes = std::get<1>(reply->results).resok4().obj_attributes;
  // A server leaves out attributes that it does not support (RFC 8881 §5.6).
  if (attributes.attr_vals.bytes().empty()) co_return NotSupported(what);
  auto acl = DecodeAcl(attributes);
  if (!acl) co_return std::unexpected(MalformedAttributes(what));
  co_return *std::move(acl);
}

Task<Result<void>> SetAcl(CompoundCaller& caller, const Handle& object, std::string_view what,
                          const std::vector<Ace>& acl) {
  std::vector<std::byte> octets;
  const nfs4::SETATTR4args set{nfs4::stateid4(), EncodeAcl(acl, octets)};
  auto reply = co_await caller.Call([&] { return std::tuple(nfs4::PUTFH4args{object}, set); }, what);
  if (!reply) co_return std::unexpected(std::move(reply).error());
  co_return Result<void>();
}

}  // namespace penstock::client::v4
