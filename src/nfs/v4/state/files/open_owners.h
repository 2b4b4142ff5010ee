// The table of open-owners (RFC 8881 §9.4, RFC 7530 §9.1.5). It finds them by name and decides when to forget them.
//
// The invariants: an owner with an open is never idle. An owner without opens is idle only if it has sent a request in
// version 4.0, whose sequence the server must remember for a while. At most one closed open of an owner is remembered,
// for a CLOSE that is repeated.
#pragma once

#include <list>

#include "base/timer.h"
#include "nfs/v4/state/files/state_records.h"
#include "nfs/v4/state/ids.h"
#include "protocol/nfs4_types.h"

namespace penstock::nfs::v4 {

class OpenOwners {
 public:
  // The records outlive this table.
  explicit OpenOwners(StateRecords& records) : records_(records) {}

  OpenOwner* FindOpenOwner(ClientId client, ConstBytes name);
  // Adds the owner if it is unknown. Returns null if the client, or all clients together, have too many owners: see
  // IsFull().
  OpenOwner* GetOpenOwner(ClientId client, ConstBytes name, TimePoint now);
  // Undoes GetOpenOwner() if the owner has no open: the owner becomes idle or is forgotten.
  void ReleaseOwner(OpenOwner& owner, TimePoint now);
  // In version 4.0: finds the owner whose last request closed the open of this stateid, for a CLOSE that is repeated.
  OpenOwner* FindOwnerOfClosed(const nfs4::stateid4& id) const;
  // Adds a principal that has opened a file as this owner.
  void AddMaker(OpenOwner& owner, const Principal& principal);
  // Whether the principal has a file of the client open (RENEW).
  bool HasOpenBy(ClientId client, const Principal& principal) const;

  // ---- for Opens

  // The owner is about to get an open: it must not be forgotten as idle.
  void KeepBusy(OpenOwner& owner);
  void AddOpen(OpenState& open);
  void RemoveOpen(OpenState& open);
  // Remembers the open that was just closed, in place of the one before.
  void KeepClosed(OpenState& open);
  void ForgetClosed(OpenOwner& owner, Ending ending = Ending::kReleased);

  // ---- room

  // Forgets the owner that has been idle longest, of one client or of all. Returns false if no owner is idle, or if a
  // request of that owner is under way.
  bool ForgetIdle(ClientFiles& client, TimePoint now) { return SweepIdleOwner(client.idle, true, now); }
  bool ForgetIdle(TimePoint now) { return SweepIdleOwner(idle_, true, now); }
  // Forgets all owners of a client that has no records left.
  void ForgetClient(ClientFiles& client);
  bool IsFull() const { return count_ >= records_.limits().owners; }

  // Describes the first inconsistency; returns null if there is none (consistency.cc).
  const char* FindInconsistency() const;

 private:
  // Forgets the first owner of `idle` if it has been idle for a lease time, or if room is short (`crowded`).
  bool SweepIdleOwner(std::list<OpenOwner*>& idle, bool crowded, TimePoint now);
  // Adds `by` to the counts of the owner's makers in ClientFiles::openers, if the owner has opens.
  static void CountOpeners(OpenOwner& owner, int by);

  StateRecords& records_;
  size_t count_ = 0;
  std::list<OpenOwner*> idle_;  // of all clients; the owner that has been idle longest comes first
};

}  // namespace penstock::nfs::v4
