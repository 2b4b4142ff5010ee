#include "client/nfs4/sess01/stream_table.h"

#include <algorithm>
#include <cassert>

namespace penstock::client::v4::sess01 {

StreamTable::StreamTable(uint32_t limit)
    : streams_(std::max(limit, 1u), State::kFree), limit_(static_cast<uint32_t>(streams_.size())) {}

std::optional<uint32_t> StreamTable::Find(State state) const {
  const auto end = streams_.begin() + limit_;
  const auto found = std::find(streams_.begin(), end, state);
  return found == end ? std::nullopt : std::optional(static_cast<uint32_t>(found - streams_.begin()));
}

std::optional<uint32_t> StreamTable::Take() {
  auto stream = Find(State::kFree);
  if (!stream) stream = Find(State::kDoubtful);
  if (!stream) return std::nullopt;
  streams_[*stream] = State::kInUse;
  ++in_use_;
  return stream;
}

void StreamTable::Give(uint32_t stream, State state) {
  assert(streams_[stream] == State::kInUse);
  streams_[stream] = state;
  --in_use_;
}

void StreamTable::HandleAnswered(uint32_t stream) { Give(stream, State::kFree); }
void StreamTable::HandleDoubtful(uint32_t stream) { Give(stream, State::kDoubtful); }

void StreamTable::Lower(uint32_t target) {
  assert(target > 0);
  limit_ = std::min(limit_, target);
}

bool StreamTable::IsQuietFrom(uint32_t target) const {
  if (target >= streams_.size()) return true;
  return std::find(streams_.begin() + target, streams_.end(), State::kInUse) == streams_.end();
}

}  // namespace penstock::client::v4::sess01
