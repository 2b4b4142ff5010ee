// Identifies the client for which work is done. Fairness between clients is measured by this key.
#pragma once

#include <compare>
#include <cstdint>

namespace penstock {

// Numbers for a client's host and its connection: equal for the same host and the same connection. Both are zero for
// work that the process does for itself.
struct ClientKey {
  uint64_t host = 0;
  uint64_t connection = 0;

  auto operator<=>(const ClientKey&) const = default;
};

}  // namespace penstock
