// The protection by TLS that an export asks of connections: "xprtsec=" of exports(5) (RFC 9289).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "rpc/transport.h"

namespace penstock::nfs {

// A set of the protections none, tls and mtls. The default has all three. Unlike Linux, a set with "tls" also admits
// connections with mutual authentication, which are protected better.
class Protections {
 public:
  constexpr Protections() = default;
  // Parses names that are separated by colons. Fails if there is none, or if one is repeated or unknown.
  static SetupResult<Protections> Parse(std::string_view text);

  bool Admits(rpc::Protection protection) const { return (admitted_ & BitOf(protection)) != 0; }
  // Whether the set is not the default one, and names TLS.
  bool AsksForTls() const { return admitted_ != kAll && named_ != BitOf(rpc::Protection::kNone); }
  // Whether the set names mutual authentication, and is not the default one.
  bool AsksForMutualTls() const { return admitted_ != kAll && (named_ & BitOf(rpc::Protection::kMutualTls)) != 0; }
  // Whether it admits nothing but mutual authentication.
  bool IsOnlyMutualTls() const { return admitted_ == BitOf(rpc::Protection::kMutualTls); }
  void Add(const Protections& others) {
    named_ |= others.named_;
    admitted_ |= others.admitted_;
  }
  // As in "xprtsec=".
  std::string ToString() const;
  bool operator==(const Protections&) const = default;

 private:
  static constexpr uint8_t kAll = 7;
  static constexpr uint8_t BitOf(rpc::Protection protection) {
    return static_cast<uint8_t>(1u << static_cast<unsigned>(protection));
  }
  explicit constexpr Protections(uint8_t named) : named_(named), admitted_(named) {}

  uint8_t named_ = kAll;
  uint8_t admitted_ = kAll;
};

}  // namespace penstock::nfs
