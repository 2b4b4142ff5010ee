// Decides how many delegations each client may have when all clients together have too many (RFC 8881 §20.6).
//
// Pressure begins when the number of delegations reaches a high mark, and ends when it is down to a low mark. Meanwhile
// each client may have as many as the level: the largest number that, as the most of each client, keeps the sum within
// the low mark. So a client that holds many pays for its own, and a client that holds few keeps them all. The high mark
// lies below the limit: while clients return delegations, the others still get new ones.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

namespace penstock::nfs::v4 {

// Returns the largest number L for which the sum of min(each, L) over `held` is at most `room`: the level of water that
// fills vessels of these heights. Returns the largest of `held` if the sum is at most `room` anyway. At least one: a
// client with one delegation keeps it.
size_t FairLevel(std::vector<size_t> held, size_t room);

class DelegationPressure {
 public:
  // `limit`: the most delegations that are given.
  explicit DelegationPressure(size_t limit) : limit_(limit) {}

  size_t high() const { return limit_ - limit_ / 8; }
  size_t low() const { return limit_ - limit_ / 4; }
  bool on() const { return level_.has_value(); }
  // The most delegations that a client may have. Call it under pressure only.
  size_t level() const { return *level_; }

  // Whether a client that has `held` of the `count` delegations may get one more.
  bool Admits(size_t held, size_t count) const { return count < limit_ && (!level_ || held < *level_); }
  // A delegation was given. `holders` clients have `count` delegations now. Until Adapt() is called, the level is an
  // equal share, which is never higher than the fair level.
  void HandleGiven(size_t count, size_t holders);
  // Ends the pressure, or sets the level. `held`: the number of delegations of each client.
  void Adapt(std::vector<size_t> held);

 private:
  const size_t limit_;
  std::optional<size_t> level_;  // none without pressure
};

}  // namespace penstock::nfs::v4
