// The state that the server has revoked, or keeps although the client cannot give it back (RFC 8881 §18.46.3, §18.48,
// §18.38). SEQUENCE reports revoked state until the client has acknowledged each loss. RevokedState finds out what is
// lost, and acknowledges it.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "client/nfs4/compound_caller.h"

namespace penstock::client::v4 {

// Who has the opens, locks and delegations of a mount.
class StateHolder {
 public:
  virtual std::vector<nfs4::stateid4> stateids() const = 0;
  // TEST_STATEID has given another status than NFS4_OK. The stateid may have ended meanwhile.
  virtual void HandleTested(const nfs4::stateid4& stateid, nfs4::nfsstat4 status) = 0;

 protected:
  ~StateHolder() = default;
};

// Belongs to the loop of `caller`.
class RevokedState {
 public:
  // Both outlive this object.
  RevokedState(CompoundCaller& caller, StateHolder& holder) : caller_(caller), holder_(holder) {}

  // A reply in a session says whether the server has revoked state that the client has not acknowledged.
  void HandleFlag(bool some);
  // The client uses an open, locks or a delegation no more, and cannot give them back: they are revoked, or their file
  // system has moved.
  // If the server still holds them, it may revoke them later, and is asked again then.
  void Free(const nfs4::stateid4& stateid);

 private:
  // Any status may be right: the server may have forgotten the stateid.
  Task<void> FreeNow(nfs4::stateid4 stateid);
  Task<void> Find();
  Task<Result<void>> TestSome(std::vector<nfs4::stateid4> some);

  CompoundCaller& caller_;
  StateHolder& holder_;
  std::vector<std::pair<nfs4::stateid4, uint64_t>> left_;  // held by the server, with their epochs
  bool finding_ = false;
  TimePoint find_again_{};
};

}  // namespace penstock::client::v4
