// Makes room for one more open or lock. It removes records that are worth less: overdue delegations and closed opens.
#pragma once

#include "base/timer.h"
#include "nfs/v4/state/files/delegations.h"
#include "nfs/v4/state/files/open_owners.h"
#include "nfs/v4/state/files/state_records.h"

namespace penstock::nfs::v4 {

class Room {
 public:
  // All outlive this.
  Room(StateRecords& records, Delegations& delegations, OpenOwners& owners)
      : records_(records), delegations_(delegations), owners_(owners) {}

  // Forgets records that no client needs, if necessary, and returns whether there is room for one more record of this
  // client. If the tables are nearly full, it recalls delegations.
  bool MakeRoom(ClientFiles& client, TimePoint now);

 private:
  StateRecords& records_;
  Delegations& delegations_;
  OpenOwners& owners_;
};

}  // namespace penstock::nfs::v4
