#include "nfs/v4/state/files/delegation_policy.h"

namespace penstock::nfs::v4 {
namespace {

using nfs4::why_no_delegation4;

DelegationDecision None(why_no_delegation4 why) { return {nfs4::OPEN_DELEGATE_NONE, why}; }

// RFC 8881 §18.16.3: a stated preference decides, whatever the access of the OPEN. Without a preference, the access
// decides.
bool PrefersWrite(const DelegationFacts& facts) {
  switch (facts.want) {
    case Want::kWrite:
      return true;
    case Want::kAny:
    case Want::kNoPreference:
      return facts.share.writes() && facts.writable;
    default:
      return false;
  }
}

// The answer for a client that already holds a delegation of the file. It gets no second one, and the server does not
// upgrade or downgrade the first one (RFC 8881 §18.16.3 makes this optional).
DelegationDecision AlreadyHeld(const DelegationFacts& facts) {
  if (facts.want == Want::kWrite && !*facts.own_is_write) return None(nfs4::WND4_NOT_SUPP_UPGRADE);
  if (facts.want == Want::kRead && *facts.own_is_write) return None(nfs4::WND4_NOT_SUPP_DOWNGRADE);
  return None(nfs4::WND4_RESOURCE);
}

}  // namespace

DelegationDecision Decide(const DelegationFacts& facts) {
  if (facts.want == Want::kNone) return None(nfs4::WND4_NOT_WANTED);
  if (facts.want == Want::kCancel) return None(nfs4::WND4_CANCELLED);
  if (facts.own_is_write) return AlreadyHeld(facts);
  if (!facts.offered || !facts.can_call_back || !facts.room) return None(nfs4::WND4_RESOURCE);
  if (facts.recent_conflict || facts.changing) return None(nfs4::WND4_CONTENTION);
  if (facts.others_write || facts.others_hold_write) return None(nfs4::WND4_CONTENTION);

  if (PrefersWrite(facts)) {
    if (!facts.writable) return None(nfs4::WND4_RESOURCE);
    if (!facts.others_open && !facts.others_hold) return {nfs4::OPEN_DELEGATE_WRITE, {}};
    if (facts.want != Want::kAny) return None(nfs4::WND4_CONTENTION);
  }
  return {nfs4::OPEN_DELEGATE_READ, {}};
}

}  // namespace penstock::nfs::v4
