// The calls of a UDP server that are being executed. The table shares their number fairly between hosts, and recognizes
// a call that its client has sent again meanwhile.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>

#include "base/address.h"
#include "rpc/xid.h"

namespace penstock::rpc::udp {

// Without I/O. Belongs to one loop.
class CallsUnderWay {
 public:
  struct Limits {
    size_t calls = 512;    // of all hosts
    size_t per_host = 16;  // of one IPv4 address or IPv6 /64
  };
  // A host with n calls may have another one only if 3n more are free. So calls of one host always leave room for the
  // next host.
  static constexpr size_t kFreeForOne = 3;

  enum class Verdict : uint8_t {
    kStart,
    kDuplicate,  // the same sender's call with this XID is under way: its reply will answer this one as well
    kTooMany,    // the client will send the call again
  };

  explicit CallsUnderWay(Limits limits) : limits_(limits) {}

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

  const Limits limits_;
  std::set<Key> calls_;
  std::map<IpAddress, size_t> by_host_;
};

}  // namespace penstock::rpc::udp
