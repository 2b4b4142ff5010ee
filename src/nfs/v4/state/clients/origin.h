// The machine and the principal that a call comes from. They decide whether the call may change a client's state.
//
// Requests of minor version 0 name clients and stateids without a session, so any caller can name those of another
// client. Under AUTH_SYS all machines have the same users, so a client's machine is recognized by its address.
// RPCSEC_GSS authenticates principals at any address (RFC 7530 §9.1.1, §19).
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

// The principals whose requests made a state. There is usually one; if there are many, only the last few are kept.
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
