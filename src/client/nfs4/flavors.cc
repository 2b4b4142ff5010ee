#include "client/nfs4/flavors.h"

#include <algorithm>
#include <optional>
#include <tuple>

namespace penstock::client::v4 {
namespace {

using nfs_protocol::SecurityFlavor;

std::optional<SecurityFlavor> FlavorOf(const nfs4::secinfo4& entry) {
  if (!entry.is_flavor_info()) {
    // Numbers of pseudo flavors have no place here (RFC 8881 §18.29.3).
    if (entry.flavor() == rpc::AuthFlavor::AUTH_SYS) return SecurityFlavor::kSys;
    return entry.flavor() == rpc::AuthFlavor::AUTH_NONE ? std::optional(SecurityFlavor::kNone) : std::nullopt;
  }
  const nfs4::rpcsec_gss_info& info = entry.flavor_info();
  for (const SecurityFlavor flavor : {SecurityFlavor::kKrb5, SecurityFlavor::kKrb5i, SecurityFlavor::kKrb5p}) {
    const bool has_service = static_cast<uint32_t>(ServicesOf(flavor).front()) == static_cast<uint32_t>(info.service);
    if (has_service && Equal(info.oid.bytes(), rpc::OidOf(MechanismOf(flavor)))) return flavor;
  }
  return std::nullopt;
}

}  // namespace

Flavors FlavorsIn(const nfs4::SECINFO4resok& list) {
  Flavors flavors;
  for (const nfs4::secinfo4& entry : list) {
    const auto flavor = FlavorOf(entry);
    if (flavor && std::ranges::find(flavors, *flavor) == flavors.end()) flavors.push_back(*flavor);
  }
  return flavors;
}

std::string TextOf(const Flavors& flavors) {
  std::string text;
  for (const SecurityFlavor flavor : flavors) {
    if (!text.empty()) text += ", ";
    text += NameOf(flavor);
  }
  return text;
}

Task<Result<Flavors>> GetFlavors(CompoundCaller& caller, const Handle& directory, std::string_view name) {
  const auto build = [&] { return std::tuple(nfs4::PUTFH4args{directory}, nfs4::SECINFO4args{name}); };
  auto reply = co_await caller.Call(build, name);
  if (!reply) co_return std::unexpected(std::move(reply).error());
  co_return FlavorsIn(std::get<1>(reply->results).resok4());
}

Task<Result<Flavors>> GetRootFlavors(CompoundCaller& caller, std::string_view what) {
  if (caller.dialect().sessions != SessionKind::kSlots) co_return Flavors();
  const auto build = [] { return std::tuple(PutRootHandle(), nfs4::secinfo_style4::SECINFO_STYLE4_CURRENT_FH); };
  auto reply = co_await caller.Call(build, what);
  if (!reply) co_return std::unexpected(std::move(reply).error());
  co_return FlavorsIn(std::get<1>(reply->results).resok4());
}

}  // namespace penstock::client::v4
