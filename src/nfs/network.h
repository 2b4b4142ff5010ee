// A network in CIDR notation, IPv4 or IPv6, for the permitted clients of an export.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/address.h"

namespace penstock::nfs {

class Network {
 public:
  // Parses "10.0.0.0/8", "fd00::/8", or a single address, which is a network of one host. Ignores bits beyond the
  // prefix.
  static std::optional<Network> Parse(std::string_view text);

  bool Contains(const IpAddress& address) const;
  // Whether the network contains all addresses of its family.
  bool HasAllHosts() const { return prefix_ == 0; }
  std::string ToString() const;

 private:
  Network(IpAddress base, unsigned prefix) : base_(std::move(base)), prefix_(prefix) {}

  IpAddress base_;
  unsigned prefix_ = 0;
};

}  // namespace penstock::nfs
