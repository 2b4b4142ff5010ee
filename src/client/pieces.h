// Moves a range of octets in pieces, several at the same time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "base/task.h"
#include "client/error.h"

namespace penstock::client {

namespace internal {

// What the lanes share. Each lane takes the next piece until none is left or a lane has failed.
struct Lanes {
  uint64_t next = 0;
  uint64_t end = 0;
  unsigned running = 0;
  std::optional<Error> error;
  OneShot<> finished;
};

template <class Transfer>
Task<void> RunLane(Lanes& lanes, uint32_t piece, Transfer& transfer) {
  while (lanes.next < lanes.end) {
    const uint64_t at = lanes.next;
    const auto count = static_cast<uint32_t>(std::min<uint64_t>(piece, lanes.end - at));
    lanes.next += count;
    Result<void> moved = co_await transfer(at, count);
    if (moved) continue;
    if (!lanes.error) lanes.error = std::move(moved).error();
    lanes.end = lanes.next;
  }
  if (--lanes.running == 0) lanes.finished.Set();
}

}  // namespace internal

// Moves the octets [0, size) in pieces of at most `piece` octets, `at_once` pieces at the same time.
// `transfer(offset, count)` moves one piece completely and returns a Task<Result<void>>. After an error no further
// piece begins. Returns the first error, when all pieces that have begun have ended.
template <class Transfer>
Task<Result<void>> MovePieces(uint64_t size, uint32_t piece, unsigned at_once, Transfer transfer) {
  internal::Lanes lanes;
  lanes.end = size;
  const uint64_t pieces = size / piece + (size % piece == 0 ? 0 : 1);
  lanes.running = static_cast<unsigned>(std::clamp<uint64_t>(pieces, 1, std::max(at_once, 1u)));
  for (unsigned left = lanes.running; left > 0; --left) Spawn(internal::RunLane(lanes, piece, transfer));
  co_await lanes.finished;
  if (lanes.error) co_return std::unexpected(*std::move(lanes.error));
  co_return Result<void>();
}

}  // namespace penstock::client
