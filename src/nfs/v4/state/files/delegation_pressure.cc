#include "nfs/v4/state/files/delegation_pressure.h"

#include <algorithm>
#include <numeric>

namespace penstock::nfs::v4 {

size_t FairLevel(std::vector<size_t> held, size_t room) {
  std::ranges::sort(held);
  size_t level = 1;
  for (size_t i = 0; i < held.size(); ++i) {
    // `room` is left for this client and those that hold no less. If it is enough for an equal share of this size, this
    // client keeps all and leaves more to the others.
    const size_t share = room / (held.size() - i);
    if (held[i] > share) return std::max<size_t>(share, 1);
    room -= held[i];
    level = std::max(level, held[i]);
  }
  return level;
}

void DelegationPressure::HandleGiven(size_t count, size_t holders) {
  // Below a limit of four, low() is the limit itself: no client could return enough.
  if (on() || count < high() || count <= low()) return;
  level_ = std::max<size_t>(low() / holders, 1);
}

void DelegationPressure::Adapt(std::vector<size_t> held) {
  if (!on()) return;
  if (std::reduce(held.begin(), held.end()) <= low()) {
    level_.reset();
    return;
  }
  level_ = FairLevel(std::move(held), low());
}

}  // namespace penstock::nfs::v4
