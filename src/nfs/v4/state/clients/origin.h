// Where a call comes from and from whom: what requests that change a client's state are judged by.
//
// Requests of minor version 0 name clients and stateids without any session, so anybody may name anybody's. A client's
// machine is told by its address, since under AUTH_SYS all machines have the same users; RPCSEC_GSS tells principals
// wherever they are (RFC 7530 §9.1.1, §19).
#pragma once

#include <algorithm>
#include <vector>

#include "base/address.h"
#include "nfs/v4/state/clients/principal.h"

namespace penstock::nfs::v4 {

struct Origin {
  Principal principal{};
  IpAddress address{};

  bool is_authentic() const { return principal.flavor == rpc::AuthFlavor::RPCSEC_GSS; }
};

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
