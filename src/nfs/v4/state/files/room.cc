#include "nfs/v4/state/files/room.h"

namespace penstock::nfs::v4 {
namespace {

// Delegations are recalled once a table with this limit has this many records.
size_t NearlyAll(size_t limit) { return limit - limit / 16; }

}  // namespace

bool Room::MakeRoom(ClientFiles& client, TimePoint now) {
  const StateLimits& limits = records_.limits();
  if (client.states.size() >= NearlyAll(limits.states_per_client)) delegations_.RecallOldest(client, now);
  if (records_.size() >= NearlyAll(limits.states)) delegations_.RecallOldest(now);
  if (records_.HasRoom(client)) return true;
  delegations_.RemoveOverdue(now);
  // RFC 7530 §9.1.10: the server may forget closed opens and their owners if room is short.
  while (client.states.size() >= limits.states_per_client && owners_.ForgetIdle(client, now)) {
  }
  while (records_.size() >= limits.states && owners_.ForgetIdle(now)) {
  }
  return records_.HasRoom(client);
}

}  // namespace penstock::nfs::v4
