// The identifiers of a session of 2004 (draft-talpey-nfsv4-rdma-sess-01), and the order of its events.
#pragma once

#include <cstdint>

#include "base/strong.h"

namespace penstock::nfs::v4::sess01 {

// Identifies a channel in its session (§2.1.1). The first one is 1. A session never gives one out twice.
using ChannelId = Strong<struct ChannelIdTag, uint32_t>;
// Identifies a request among those that a client has under way in a session (§3.2).
using StreamId = Strong<struct StreamIdTag, uint32_t>;

// A session counts its events: a request starts, a connection closes, the number of streamids goes down. The Moment of
// an event is its number. No two events have the same Moment, so Moments say which event came first.
using Moment = Strong<struct MomentTag, uint64_t>;
// Moment(0) precedes every event. Moment(1) is the first event: the creation of the session, or its restoration after a
// restart of the server.
inline constexpr Moment kBeginning(1);

// The part that a session's tables know of a channel that a request names.
struct ChannelState {
  enum class Standing : uint8_t {
    kUnknown,    // the session has no operations channel with this number
    kLive,       // its connection is bound
    kClosed,     // its connection closed at the Moment `closed`
    kForgotten,  // its connection closed so long ago that the Moment is forgotten
  };
  Standing standing = Standing::kUnknown;
  Moment closed{};
  bool operator==(const ChannelState&) const = default;
};

}  // namespace penstock::nfs::v4::sess01
