#include "nfs/security_flavors.h"

#include <fmt/core.h>

namespace penstock::nfs {
namespace {

struct Row {
  SecurityFlavor flavor;
  std::string_view name;
  uint32_t number;
  std::optional<rpc::GssService> service;
};
constexpr std::array<Row, SecurityFlavors::kMax> kRows{{
    {SecurityFlavor::kNone, "none", static_cast<uint32_t>(rpc::AuthFlavor::AUTH_NONE), {}},
    {SecurityFlavor::kSys, "sys", static_cast<uint32_t>(rpc::AuthFlavor::AUTH_SYS), {}},
    {SecurityFlavor::kKrb5, "krb5", 390003, rpc::GssService::kNone},
    {SecurityFlavor::kKrb5i, "krb5i", 390004, rpc::GssService::kIntegrity},
    {SecurityFlavor::kKrb5p, "krb5p", 390005, rpc::GssService::kPrivacy},
}};

// One row for each flavor.
const Row& RowOf(SecurityFlavor flavor) { return *std::ranges::find(kRows, flavor, &Row::flavor); }

}  // namespace

SecurityFlavor FlavorOf(const rpc::Credential& credential) {
  switch (credential.flavor) {
    case rpc::AuthFlavor::AUTH_SYS:
      return SecurityFlavor::kSys;
    case rpc::AuthFlavor::RPCSEC_GSS:
      return std::ranges::find(kRows, std::optional(credential.service), &Row::service)->flavor;
    default:
      return SecurityFlavor::kNone;
  }
}

uint32_t NumberOf(SecurityFlavor flavor) { return RowOf(flavor).number; }

std::optional<rpc::GssService> ServiceOf(SecurityFlavor flavor) { return RowOf(flavor).service; }

std::string_view NameOf(SecurityFlavor flavor) { return RowOf(flavor).name; }

SetupResult<SecurityFlavors> SecurityFlavors::Parse(std::string_view text) {
  SecurityFlavors flavors;
  for (bool more = true; more;) {
    const size_t colon = text.find(':');
    const std::string_view name = text.substr(0, colon);
    const auto row = std::ranges::find(kRows, name, &Row::name);
    if (row == kRows.end()) {
      return std::unexpected(
          SetupError{fmt::format("\"{}\" is no security flavor: choose of sys, krb5, krb5i, krb5p, none", name)});
    }
    if (flavors.Has(row->flavor)) return std::unexpected(SetupError{fmt::format("\"{}\" is named twice", name)});
    flavors.Add(row->flavor);
    more = colon != std::string_view::npos;
    if (more) text.remove_prefix(colon + 1);
  }
  return flavors;
}

bool SecurityFlavors::UsesGss() const {
  return std::ranges::any_of(*this, [](SecurityFlavor flavor) { return ServiceOf(flavor).has_value(); });
}

std::string SecurityFlavors::ToString() const {
  std::string text;
  for (const SecurityFlavor flavor : *this) {
    if (!text.empty()) text += ':';
    text += NameOf(flavor);
  }
  return text;
}

}  // namespace penstock::nfs
