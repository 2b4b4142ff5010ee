// The security flavors of NFS: "sec=" of exports(5) and nfs(5).
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "rpc/auth.h"

namespace penstock::nfs_protocol {

// The flavors of Kerberos 5 are RPCSEC_GSS with a service (RFC 8881 §2.2.1.1.1.2.1). kCcm is the Channel Conjunction
// Mechanism with any service, because the channel gives the same protection under every service.
enum class SecurityFlavor : uint8_t { kNone, kSys, kKrb5, kKrb5i, kKrb5p, kCcm };

SecurityFlavor FlavorOf(const rpc::Credential& credential);
// Returns the number for MOUNT: the flavor, or the pseudo flavor of a mechanism and service (RFC 8881 §2.2.1.1.1.2.1).
// The one of CCM is private to Penstock.
uint32_t NumberOf(SecurityFlavor flavor);
// Return the mechanism and the services of a flavor of RPCSEC_GSS. Other flavors have no services.
rpc::GssMechanism MechanismOf(SecurityFlavor flavor);
std::span<const rpc::GssService> ServicesOf(SecurityFlavor flavor);
// Returns the name in "sec=".
std::string_view NameOf(SecurityFlavor flavor);
// Return the flavor with this name or number, or nothing.
std::optional<SecurityFlavor> FlavorNamed(std::string_view name);
std::optional<SecurityFlavor> FlavorNumbered(uint32_t number);

// A list of flavors without duplicates, in the operator's order of preference.
class SecurityFlavors {
 public:
  using value_type = SecurityFlavor;
  using const_iterator = const SecurityFlavor*;

  static constexpr size_t kMax = 6;

  constexpr SecurityFlavors() = default;
  constexpr SecurityFlavors(std::initializer_list<SecurityFlavor> flavors) {
    for (const SecurityFlavor flavor : flavors) Add(flavor);
  }
  // Parses names that are separated by colons. Fails if there is none, or if one is repeated or unknown.
  static SetupResult<SecurityFlavors> Parse(std::string_view text);

  // Appends the flavor unless the list has it.
  constexpr void Add(SecurityFlavor flavor) {
    if (!Has(flavor)) flavors_[count_++] = flavor;
  }
  void Add(const SecurityFlavors& others) {
    for (const SecurityFlavor flavor : others) Add(flavor);
  }

  constexpr bool Has(SecurityFlavor flavor) const {
    for (size_t i = 0; i < count_; ++i) {
      if (flavors_[i] == flavor) return true;
    }
    return false;
  }
  bool Admits(const rpc::Credential& credential) const { return Has(FlavorOf(credential)); }
  bool UsesGss() const;
  bool empty() const { return count_ == 0; }
  std::string ToString() const;

  const SecurityFlavor* begin() const { return flavors_.data(); }
  const SecurityFlavor* end() const { return flavors_.data() + count_; }

  bool operator==(const SecurityFlavors& other) const {
    return std::ranges::equal(std::span(begin(), count_), std::span(other.begin(), other.count_));
  }

 private:
  std::array<SecurityFlavor, kMax> flavors_{};
  uint8_t count_ = 0;
};

// Returns the flavors that a client may use at a server that accepts `accepted`: those that `preferred` has as well, in
// the client's order. An empty list of one side stands for all flavors; two empty lists have no flavor in common.
std::vector<SecurityFlavor> PreferredOf(const SecurityFlavors& preferred, const std::vector<SecurityFlavor>& accepted);

}  // namespace penstock::nfs_protocol
