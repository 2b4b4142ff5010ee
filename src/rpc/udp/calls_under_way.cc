#include "rpc/udp/calls_under_way.h"

#include <cassert>

#include "base/host.h"

namespace penstock::rpc::udp {

CallsUnderWay::Verdict CallsUnderWay::Begin(const SocketAddress& from, Xid xid) {
  const Key key{from, xid.value()};
  if (calls_.contains(key)) return Verdict::kDuplicate;
  const auto host = by_host_.find(HostOf(from.address()));
  const size_t held = host == by_host_.end() ? 0 : host->second;
  if (calls_.size() >= limits_.calls) return Verdict::kTooMany;
  if (held >= limits_.per_host || limits_.calls - calls_.size() <= kFreeForOne * held) return Verdict::kTooMany;
  calls_.insert(key);
  if (host == by_host_.end()) {
    by_host_.emplace(HostOf(from.address()), 1);
  } else {
    ++host->second;
  }
  return Verdict::kStart;
}

void CallsUnderWay::End(const SocketAddress& from, Xid xid) {
  const size_t erased = calls_.erase(Key{from, xid.value()});
  assert(erased == 1);
  (void)erased;
  const auto host = by_host_.find(HostOf(from.address()));
  if (--host->second == 0) by_host_.erase(host);
}

}  // namespace penstock::rpc::udp
