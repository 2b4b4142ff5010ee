#include "nfs_protocol/security_flavors.h"

#include <fmt/core.h>

#include <algorithm>
#include <vector>

namespace penstock::nfs_protocol {
namespace {

using rpc::GssMechanism;
using rpc::GssService;

// In this order, so that each Kerberos flavor has one of them.
constexpr std::array kServices{GssService::kNone, GssService::kIntegrity, GssService::kPrivacy};
constexpr std::span kAllServices(kServices);

struct Row {
  SecurityFlavor flavor;
  std::string_view name;
  uint32_t number;
  GssMechanism mechanism{};
  std::span<const GssService> services{};
};
constexpr std::array<Row, SecurityFlavors::kMax> kRows{{
    {SecurityFlavor::kNone, "none", static_cast<uint32_t>(rpc::AuthFlavor::AUTH_NONE)},
    {SecurityFlavor::kSys, "sys", static_cast<uint32_t>(rpc::AuthFlavor::AUTH_SYS)},
    {SecurityFlavor::kKrb5, "krb5", 390003, GssMechanism::kKerberos, kAllServices.subspan(0, 1)},
    {SecurityFlavor::kKrb5i, "krb5i", 390004, GssMechanism::kKerberos, kAllServices.subspan(1, 1)},
    {SecurityFlavor::kKrb5p, "krb5p", 390005, GssMechanism::kKerberos, kAllServices.subspan(2, 1)},
    {SecurityFlavor::kCcm, "ccm", 200420, GssMechanism::kConjunction, kAllServices},
}};

bool HasService(const Row& row, GssService service) {
  return std::ranges::find(row.services, service) != row.services.end();
}

// One row for each flavor.
const Row& RowOf(SecurityFlavor flavor) { return *std::ranges::find(kRows, flavor, &Row::flavor); }

}  // namespace

SecurityFlavor FlavorOf(const rpc::Credential& credential) {
  switch (credential.flavor) {
    case rpc::AuthFlavor::AUTH_SYS:
      return SecurityFlavor::kSys;
    case rpc::AuthFlavor::RPCSEC_GSS: {
      const auto is_of = [&](const Row& row) {
        return row.mechanism == credential.mechanism && HasService(row, credential.service);
      };
      return std::ranges::find_if(kRows, is_of)->flavor;
    }
    default:
      return SecurityFlavor::kNone;
  }
}

uint32_t NumberOf(SecurityFlavor flavor) { return RowOf(flavor).number; }

GssMechanism MechanismOf(SecurityFlavor flavor) { return RowOf(flavor).mechanism; }

std::span<const GssService> ServicesOf(SecurityFlavor flavor) { return RowOf(flavor).services; }

std::string_view NameOf(SecurityFlavor flavor) { return RowOf(flavor).name; }

std::optional<SecurityFlavor> FlavorNamed(std::string_view name) {
  const auto row = std::ranges::find(kRows, name, &Row::name);
  if (row == kRows.end()) return std::nullopt;
  return row->flavor;
}

std::optional<SecurityFlavor> FlavorNumbered(uint32_t number) {
  const auto row = std::ranges::find(kRows, number, &Row::number);
  if (row == kRows.end()) return std::nullopt;
  return row->flavor;
}

SetupResult<SecurityFlavors> SecurityFlavors::Parse(std::string_view text) {
  SecurityFlavors flavors;
  for (bool more = true; more;) {
    const size_t colon = text.find(':');
    const std::string_view name = text.substr(0, colon);
    const auto flavor = FlavorNamed(name);
    if (!flavor) {
      return std::unexpected(
          SetupError{fmt::format("\"{}\" is no security flavor: choose of sys, krb5, krb5i, krb5p, ccm, none", name)});
    }
    if (flavors.Has(*flavor)) return std::unexpected(SetupError{fmt::format("\"{}\" is named twice", name)});
    flavors.Add(*flavor);
    more = colon != std::string_view::npos;
    if (more) text.remove_prefix(colon + 1);
  }
  return flavors;
}

bool SecurityFlavors::UsesGss() const {
  return std::ranges::any_of(*this, [](SecurityFlavor flavor) { return !ServicesOf(flavor).empty(); });
}

std::string SecurityFlavors::ToString() const {
  std::string text;
  for (const SecurityFlavor flavor : *this) {
    if (!text.empty()) text += ':';
    text += NameOf(flavor);
  }
  return text;
}

std::vector<SecurityFlavor> PreferredOf(const SecurityFlavors& preferred, const std::vector<SecurityFlavor>& accepted) {
  if (preferred.empty()) return accepted;
  std::vector<SecurityFlavor> usable(preferred.begin(), preferred.end());
  const auto is_refused = [&](SecurityFlavor flavor) { return std::ranges::find(accepted, flavor) == accepted.end(); };
  if (!accepted.empty()) std::erase_if(usable, is_refused);
  return usable;
}

}  // namespace penstock::nfs_protocol
