// Explores all states of a world, breadth first, and checks each of them.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "world.h"

namespace penstock::explorer {

struct Report {
  size_t states = 0;
  size_t steps = 0;
  size_t servers = 0;
  // Describes the error that was found, and the shortest way to it; empty if there is none.
  std::string wrong{};
  std::vector<Event> way{};
  // The exploration ended before it had seen all states.
  bool is_cut = false;
};

// Checks in each state that nothing wrong happens, and that a live client can still get all its answers without the
// loss of another connection. Stops at the first error, or when it has reached `most` states.
Report Explore(World& world, size_t most = SIZE_MAX);

// Tells the way to an error, one line for each event.
std::string Story(World& world, const Report& report);

}  // namespace penstock::explorer
