// Remembers calls whose memory the responder could not access: RFC 8166 §4.5.3. A failed access ends the connection. If
// the client sends such a call again, the responder replies with ERR_CHUNK, so that the call does not end the next
// connection too.
//
// A failed call may succeed when it is repeated: perhaps the client had given the call up, and had fenced its memory
// before the responder accessed it. It then sends the call again with other memory. The responder therefore refuses a
// call only
//
//   - if it arrives again with the same segments, or
//   - if it has failed kChances times, each time within kAge of the previous failure. A failure later than kSoon after
//     the arrival of the call does not count, because the client may have given the call up.
//
// The responder remembers only the last kMost calls, and only for kAge: clients reconnect at once, and they use XIDs
// again.
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

  // Identifies a call and the memory that it offers.
  struct Key {
    rpc::Xid xid{};
    uint64_t memory = 0;  // DigestOf()
    TimePoint received{};
  };

  // A digest of the steering tags and offsets of all segments. It need not resist deliberate collisions.
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

  // Remembers that the memory of this call was not accessible. The address identifies a client, because its port
  // changes with each connection.
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
  // Returns true if the reply to the call must be ERR_CHUNK.
  bool Refuses(const IpAddress& client, const Key& key, TimePoint now) const {
    if (now >= latest_) return false;
    return std::ranges::any_of(calls_, [&](const Call& call) {
      return call.Is(client, key.xid, now) && (call.failures >= kChances || call.key.memory == key.memory);
    });
  }
  // True until the first Add(). Cheap, for the usual case.
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
  std::array<Call, kMost> calls_{};  // a ring
  size_t next_ = 0;
  TimePoint latest_{};
};

}  // namespace penstock::rpcrdma
