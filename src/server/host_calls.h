// Calls to the lock managers and status monitors of hosts, over the network: see nfs/nlm/host_calls.h.
#pragma once

#include <cstdint>
#include <functional>

#include "base/cancellation.h"
#include "base/loop.h"
#include "nfs/nlm/host_calls.h"
#include "server/call_places.h"

namespace penstock::server {

// Belongs to its loop.
class NetworkHostCalls final : public nfs::nlm::HostCalls {
 public:
  struct Settings {
    CallPlaces::Limits places{};
    Duration limit = std::chrono::seconds(4);  // of each step: the port mapper, the connection, the call
    uint16_t port_mapper_port = 111;
  };

  // The loop outlives the instance, and all calls. No call is under way when the instance is destroyed.
  NetworkHostCalls(Loop& loop, const Settings& settings) : loop_(loop), settings_(settings), places_(settings.places) {}

  Task<Outcome> Call(nfs::nlm::HostCall call, std::function<void(xdr::Encoder&)> write,
                     std::function<bool(xdr::Decoder&)> read) override;

  // From now on, every call ends at once. Calls under way end soon, without waiting for any host.
  void Abort() { cancellation_.Cancel(); }

 private:
  Task<Outcome> CallNow(nfs::nlm::HostCall call, const std::function<void(xdr::Encoder&)>& write,
                        const std::function<bool(xdr::Decoder&)>& read);

  Loop& loop_;
  const Settings settings_;
  CallPlaces places_;
  Cancellation cancellation_;
};

}  // namespace penstock::server
