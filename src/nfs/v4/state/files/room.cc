#include "nfs/v4/state/files/room.h"

namespace penstock::nfs::v4 {
namespace {

// From here on, delegations are recalled.
size_t NearlyAll(size_t limit) { return limit - limit / 16; }

}  // namespace

bool Room::MakeRoom(ClientFiles& client, TimePoint now) {
  const StateLimits& limits = records_.limits();
  if (client.states.size() >= NearlyAll(limits.states_per_client)) delegations_.RecallOldest(client, now);
  if (records_.size() >= NearlyAll(limits.states)) delegations_.RecallOldest(now);
  if (records_.HasRoom(client)) return true;
  delegations_.RemoveOverdue(now);
  // RFC 7530 §9.1.10: what is closed may go whenever room is short.
  while (client.states.size() >= limits.states_per_client && owners_.ForgetIdle(client, now)) {
  }
  while (records_.size() >= limits.states && owners_.ForgetIdle(now)) {
  }
  return records_.HasRoom(client);
}

}  // namespace penstock::nfs::v4
