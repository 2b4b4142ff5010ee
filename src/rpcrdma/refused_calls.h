// Calls that came with memory which then could not be reached: RFC 8166 §4.5.3. Each has cost its connection. One that is
// going to cost the next connection too is answered with ERR_CHUNK instead.
//
// That a call has failed does not mean that it fails again: a client that gave it up has fenced its memory while we were
// about to reach it, and sends the call again with other memory. So a call is refused
//
//   - when it comes again with the very segments that could not be reached, or
//   - when it has failed kChances times, each time within kAge of the time before. What failed later than kSoon after it
//     came is not counted: its client may have given it up.
//
// A few of the last, and for a short time: clients reconnect at once, and XIDs come round again.
#pragma once

#include <algorithm>
#include <array>

#include "base/address.h"
#include "base/mix.h"
#include "base/timer.h"
#include "rpc/transport.h"
#include "rpcrdma/chunks.h"

namespace penstock::rpcrdma {

class RefusedCalls {
 public:
  static constexpr size_t kMost = 64;
  static constexpr unsigned kChances = 3;
  static constexpr Duration kAge = std::chrono::minutes(1);
  static constexpr Duration kSoon = std::chrono::seconds(5);

  // A call, and the memory that it came with.
  struct Key {
    rpc::Xid xid{};
    uint64_t memory = 0;  // DigestOf()
    TimePoint received{};
  };

  // Of the steering tags and offsets of all segments; of accidents only need it be without collisions.
  static uint64_t DigestOf(const ChunkLists& chunks) {
    uint64_t digest = 1;
    const auto add = [&digest](const Segment& segment) {
      digest = Mix(Mix(digest, segment.stag.value()), segment.offset);
    };
    for (const ReadSegment& read : chunks.reads) add(read.target);
    for (size_t n = 0; n < chunks.writes.size(); ++n) std::ranges::for_each(chunks.writes.chunk(n), add);
    std::ranges::for_each(chunks.reply, add);
    return digest;
  }

  // The memory of this call could not be reached. A client is known by its address: its port changes with its connection.
  void Add(const IpAddress& client, const Key& key, TimePoint now) {
    Call* call = std::ranges::find_if(calls_, [&](const Call& each) { return each.Is(client, key.xid, now); });
    if (call == calls_.end()) {
      call = &calls_[next_];
      next_ = (next_ + 1) % kMost;
      *call = {.client = client, .key = key};
    }
    call->key = key;
    if (now - key.received < kSoon) ++call->failures;
    call->until = latest_ = now + kAge;
  }
  // Whether to answer the call with ERR_CHUNK.
  bool Refuses(const IpAddress& client, const Key& key, TimePoint now) const {
    if (now >= latest_) return false;
    return std::ranges::any_of(calls_, [&](const Call& call) {
      return call.Is(client, key.xid, now) && (call.failures >= kChances || call.key.memory == key.memory);
    });
  }
  // True until the first Add(). Costs nothing.
  bool empty() const { return latest_ == TimePoint(); }

 private:
  struct Call {
    IpAddress client;
    Key key;
    unsigned failures = 0;
    TimePoint until{};

    bool Is(const IpAddress& whose, rpc::Xid xid, TimePoint now) const {
      return key.xid == xid && now < until && client == whose;
    }
  };
  std::array<Call, kMost> calls_{};  // in a ring
  size_t next_ = 0;
  TimePoint latest_{};
};

}  // namespace penstock::rpcrdma
