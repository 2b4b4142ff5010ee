// What a program notes about a call while it executes it, for the counters.
#pragma once

#include <cstdint>
#include <optional>

#include "metrics/clock.h"

namespace penstock::metrics {

struct CallNotes {
  uint16_t variant = 0;                 // InterfaceKey::variant
  std::optional<uint32_t> export_id{};  // the export of the call, unless the program counts by operation itself
  uint64_t read_octets = 0;             // of files, in the reply
  uint64_t written_octets = 0;          // to files
  uint32_t operations = 1;              // for the client's count
  Ticks began = 0;                      // when the dispatcher took the call
  // When the program was done, if it has just read the clock; zero: the dispatcher reads it.
  Ticks ended = 0;
};

}  // namespace penstock::metrics
