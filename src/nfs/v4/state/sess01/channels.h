// The channels of a session of 2004 (draft-talpey-nfsv4-rdma-sess-01 §2.1.2): which connections carry them, and which
// ones have closed.
//
// A client binds a connection to the session with SESSION_BIND, once for an operations channel and once for a back
// channel. Each binding makes a channel with a new number. A channel closes with its connection.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "base/result.h"
#include "nfs/v4/state/sess01/ids.h"
#include "protocol/nfs4_sess01.h"
#include "protocol/nfs4_types.h"

namespace penstock::nfs::v4::sess01 {

// The streamids on which a client has sent requests again that it had sent over a channel before the channel closed.
class Retries {
 public:
  bool Has(StreamId stream) const { return stream.value() < streams_.size() && streams_[stream.value()]; }
  void Add(StreamId stream) {
    if (stream.value() >= streams_.size()) streams_.resize(stream.value() + 1);
    streams_[stream.value()] = true;
  }
  bool operator==(const Retries&) const = default;

 private:
  std::vector<bool> streams_;
};

// The facts that a session knows of the channel that a request names.
struct ChannelState {
  enum class Standing : uint8_t {
    kUnknown,    // the session has no operations channel with this number
    kLive,       // its connection is bound
    kClosed,     // its connection is closed
    kForgotten,  // its connection was closed so long ago that its retries are forgotten
  };
  Standing standing = Standing::kUnknown;
  // kClosed: the retries of the channel. Valid until the next call of CloseConnection() or Named().
  Retries* retries = nullptr;
};

// A value without locks. The owner of the session protects it.
class Channels {
 public:
  // The most connections that a session has at a time.
  static constexpr size_t kMaxConnections = 64;
  // The closed channels that a session remembers. It forgets the channel that closed first.
  static constexpr size_t kRemembered = 1024;
  // A session that survives a restart reserves this many numbers at a time.
  static constexpr uint32_t kBlock = 1024;

  // The channels of a session that ends with the server.
  Channels() : reserved_until_(kEnd) {}
  // The channels of a session that survives a restart of the server. `first` is the first number that the session may
  // give: 1 if the session is new, else the reserved_until() that the caller has stored last. Lower numbers then belong
  // to channels that closed with the restart. `had_back_channel`: a back channel was bound before the restart.
  Channels(ChannelId first, bool had_back_channel)
      : first_(first.value()), next_(first.value()), reserved_until_(first.value()), had_back_(had_back_channel) {}

  // Whether the next number is not yet reserved. The caller must then store EndOfNextBlock(), so that no run of the
  // server gives a number twice, and call ReserveBlock() before it calls Bind(). Always false if the session ends with
  // the server.
  bool NeedsBlock() const { return next_ == reserved_until_ && next_ != kEnd; }
  ChannelId EndOfNextBlock() const {
    return ChannelId(kEnd - reserved_until_ < kBlock ? kEnd : reserved_until_ + kBlock);
  }
  void ReserveBlock() { reserved_until_ = EndOfNextBlock().value(); }
  // The first number that is not reserved.
  ChannelId reserved_until() const { return ChannelId(reserved_until_); }

  // Binds a connection to the session for a new channel. Requires !NeedsBlock(). NFS4ERR_SESS01_BADBIND if
  //   - the connection has an operations channel, and asks for another one (§2.1.2);
  //   - the session has a back channel, and the connection asks for another one (§6.2);
  //   - the first back channel would follow an operations channel (§2.6);
  //   - the session has kMaxConnections other connections;
  //   - the session has used all numbers.
  Result<ChannelId, nfs4::nfsstat4> Bind(uint64_t connection, nfs4::ChannelType type);

  // Closes the channels of a connection, if it has any, and returns them.
  std::vector<ChannelId> CloseConnection(uint64_t connection);

  // The operations channel of a connection; nothing if the connection has none.
  std::optional<ChannelId> OperationsChannelOf(uint64_t connection) const;
  // The back channel of the session, if one is live.
  std::optional<ChannelId> BackChannel() const;
  // The connection of a live channel; nothing if the channel is not live.
  std::optional<uint64_t> ConnectionOf(ChannelId channel) const;

  // Returns the state of a channel that a request names. A back channel counts as unknown, since no request is sent
  // over it, unless the session has forgotten its type.
  ChannelState Named(ChannelId channel);

  struct Connection {
    uint64_t number = 0;
    std::optional<ChannelId> operations{};
    std::optional<ChannelId> back{};
    bool operator==(const Connection&) const = default;
  };
  struct Closed {
    ChannelId channel;
    nfs4::ChannelType type{};
    Retries retries{};
    bool operator==(const Closed&) const = default;
  };
  const std::vector<Connection>& connections() const { return connections_; }
  // The closed channels that the session remembers. Of the channels of earlier runs of the server, those that a request
  // has named.
  const std::deque<Closed>& closed() const { return closed_; }

  bool operator==(const Channels&) const = default;

 private:
  // No channel has this number.
  static constexpr uint32_t kEnd = UINT32_MAX;

  const Connection* Find(uint64_t connection) const;
  Closed& Remember(ChannelId channel, nfs4::ChannelType type);

  uint32_t first_ = 1;              // lower numbers are those of earlier runs of the server
  bool forgot_an_earlier_ = false;  // a channel of an earlier run of the server is forgotten
  uint32_t next_ = 1;
  uint32_t reserved_until_;
  bool had_operations_ = false;
  bool had_back_ = false;
  std::vector<Connection> connections_;
  std::deque<Closed> closed_;
};

}  // namespace penstock::nfs::v4::sess01
