// The calls of a link that have left over a connection which was lost before their reply. The server may have executed
// such a call. The link sends it again, and if the server has forgotten the session meanwhile, the answer to the second
// one says nothing about the first one (draft-talpey-nfsv4-rdma-sess-01 §3.2, §4).
#pragma once

#include <cstdint>
#include <optional>
#include <set>

#include "base/bytes.h"
#include "rpc/transport.h"
#include "rpc/xid.h"

namespace penstock::client::v4::sess01 {

// Belongs to its loop.
class LostCalls {
 public:
  // Returns the XID with which the message begins.
  static std::optional<rpc::Xid> XidOf(const rpc::Message& message) {
    if (message.stream.size() < 4) return std::nullopt;
    return rpc::Xid(LoadBig<uint32_t>(message.stream.data()));
  }

  void Add(std::optional<rpc::Xid> call) {
    if (call) xids_.insert(call->value());
  }
  // Whether the call with this reply was lost at least once.
  bool Has(const rpc::Message& reply) const {
    const auto xid = XidOf(reply);
    return xid && xids_.contains(xid->value());
  }
  // No call is under way.
  void Clear() { xids_.clear(); }

 private:
  std::set<uint32_t> xids_;
};

}  // namespace penstock::client::v4::sess01
