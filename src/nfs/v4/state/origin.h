// Where a call comes from and from whom: what requests that change a client's state are judged by.
//
// Requests of minor version 0 name clients and stateids without any session, so anybody may name anybody's. A client's
// machine is told by its address, since under AUTH_SYS all machines have the same users; RPCSEC_GSS tells principals
// wherever they are (RFC 7530 §9.1.1, §19).
#pragma once

#include <algorithm>
#include <vector>

#include "base/address.h"
#include "nfs/network.h"
#include "nfs/v4/state/principal.h"

namespace penstock::nfs::v4 {

struct Origin {
  Principal principal{};
  IpAddress address{};

  bool is_authentic() const { return principal.flavor == rpc::AuthFlavor::RPCSEC_GSS; }
};

// Of IPv6 the network alone counts: hosts change the rest of their addresses now and then (RFC 8981).
inline bool IsSameHost(const IpAddress& a, const IpAddress& b) {
  const IpAddress one = Unmapped(a), other = Unmapped(b);
  if (one.is_v4() || other.is_v4()) return one == other;
  constexpr size_t kNetwork = 8;
  const auto octets = one.to_v6().to_bytes(), others = other.to_v6().to_bytes();
  return std::equal(octets.begin(), octets.begin() + kNetwork, others.begin());
}

// Principals by whom some state was made: mostly one, and of many the last few.
class Makers {
 public:
  void Add(const Principal& principal) {
    if (Has(principal)) return;
    if (principals_.size() == kMost) principals_.erase(principals_.begin());
    principals_.push_back(principal);
  }
  const std::vector<Principal>& principals() const { return principals_; }
  bool Has(const Principal& principal) const { return std::ranges::find(principals_, principal) != principals_.end(); }

 private:
  static constexpr size_t kMost = 8;
  std::vector<Principal> principals_;
};

}  // namespace penstock::nfs::v4
