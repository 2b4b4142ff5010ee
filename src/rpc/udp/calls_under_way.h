// The calls of a UDP server that are being executed. The table shares their number fairly between hosts, and recognizes
// a call that its client has sent again meanwhile.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <set>

#include "base/address.h"
#include "base/host_shares.h"
#include "rpc/xid.h"

namespace penstock::rpc::udp {

// Without I/O. Belongs to one loop.
class CallsUnderWay {
 public:
  struct Limits {
    size_t calls = 512;    // of all hosts
    size_t per_host = 16;  // of one IPv4 address or IPv6 /64
  };

  enum class Verdict : uint8_t {
    kStart,
    kDuplicate,  // the same sender's call with this XID is under way: its reply will answer this one as well
    kTooMany,    // the client will send the call again
  };

  explicit CallsUnderWay(Limits limits) : shares_({.all = limits.calls, .per_host = limits.per_host}) {}

  // After kStart the call is under way until End() with the same arguments.
  Verdict Begin(const SocketAddress& from, Xid xid);
  void End(const SocketAddress& from, Xid xid);

  size_t size() const { return calls_.size(); }

 private:
  struct Key {
    SocketAddress from;
    uint32_t xid;
    bool operator<(const Key& other) const { return from == other.from ? xid < other.xid : from < other.from; }
  };

  HostShares shares_;
  std::set<Key> calls_;
};

}  // namespace penstock::rpc::udp
