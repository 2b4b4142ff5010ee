// A network in CIDR notation, IPv4 or IPv6, for the permitted clients of an export.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/address.h"

namespace penstock::nfs {

class Network {
 public:
  // Parses "10.0.0.0/8", "10.0.0.0/255.0.0.0", "fd00::/8", or a single address, which is a network of one host. Ignores
  // bits beyond the prefix.
  static std::optional<Network> Parse(std::string_view text);

  bool Contains(const IpAddress& address) const;
  // Whether the network contains all addresses of its family.
  bool HasAllHosts() const { return prefix_ == 0; }
  // Whether it is a single address.
  bool IsHost() const { return prefix_ == (base_.is_v4() ? 32 : 128); }
  // "10.0.0.0/8", and "10.0.0.1/32" for a single address.
  std::string ToString() const;
  bool operator==(const Network&) const = default;

 private:
  Network(IpAddress base, unsigned prefix) : base_(std::move(base)), prefix_(prefix) {}

  IpAddress base_;
  unsigned prefix_ = 0;
};

}  // namespace penstock::nfs
