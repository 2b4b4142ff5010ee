#include "rpc/udp/calls_under_way.h"

#include <cassert>

namespace penstock::rpc::udp {

CallsUnderWay::Verdict CallsUnderWay::Begin(const SocketAddress& from, Xid xid) {
  const Key key{from, xid.value()};
  if (calls_.contains(key)) return Verdict::kDuplicate;
  if (!shares_.Take(from.address())) return Verdict::kTooMany;
  calls_.insert(key);
  return Verdict::kStart;
}

void CallsUnderWay::End(const SocketAddress& from, Xid xid) {
  const size_t erased = calls_.erase(Key{from, xid.value()});
  assert(erased == 1);
  (void)erased;
  shares_.Return(from.address());
}

}  // namespace penstock::rpc::udp
