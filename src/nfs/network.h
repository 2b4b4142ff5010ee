// Which hosts may come: a network in CIDR notation, of either version of IP.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/address.h"

namespace penstock::nfs {

class Network {
 public:
  // "10.0.0.0/8", "fd00::/8", or an address alone, which is a network of one host. Bits beyond the prefix are ignored.
  static std::optional<Network> Parse(std::string_view text);

  bool Contains(const IpAddress& address) const;
  std::string ToString() const;

 private:
  Network(IpAddress base, unsigned prefix) : base_(std::move(base)), prefix_(prefix) {}

  IpAddress base_;
  unsigned prefix_ = 0;
};

}  // namespace penstock::nfs
