// Whose work something is: what fairness between clients is measured by.
#pragma once

#include <compare>
#include <cstdint>

namespace penstock {

// A client's host, and its connection. Numbers that are equal for the same host and the same connection; zero for work
// that the process does for itself.
struct ClientKey {
  uint64_t host = 0;
  uint64_t connection = 0;

  auto operator<=>(const ClientKey&) const = default;
};

}  // namespace penstock
