// Calls to the lock managers and status monitors of hosts, over the network: see nfs/nlm/host_calls.h.
#pragma once

#include <cstdint>
#include <map>
#include <memory>

#include "base/address.h"
#include "base/loop.h"
#include "nfs/nlm/host_calls.h"
#include "rpc/transport.h"

namespace penstock::server {

// Belongs to its loop.
class NetworkHostCalls final : public nfs::nlm::HostCalls {
 public:
  struct Settings {
    size_t most = 64;
    size_t most_to_a_host = 4;                 // a host that does not answer must not take the calls of others
    Duration limit = std::chrono::seconds(4);  // of each step: the port mapper, the connection, the call
    uint16_t port_mapper_port = 111;
  };

  // The loop outlives the instance, and all calls. No call is under way when the instance is destroyed.
  NetworkHostCalls(Loop& loop, const Settings& settings) : loop_(loop), settings_(settings) {}

  // A call beyond the limits is kBusy at once.
  Task<Outcome> Call(nfs::nlm::HostCall call, std::function<void(xdr::Encoder&)> write,
                     std::function<bool(xdr::Decoder&)> read) override;

  // From now on, every call is kBusy. Calls under way end soon: at once, or with their connection's set-up.
  void Abort();

 private:
  Task<Outcome> CallNow(const nfs::nlm::HostCall& call, const std::function<void(xdr::Encoder&)>& write,
                        const std::function<bool(xdr::Decoder&)>& read);

  Loop& loop_;
  const Settings settings_;
  bool aborted_ = false;
  size_t under_way_ = 0;
  uint64_t last_channel_ = 0;
  std::map<uint64_t, std::unique_ptr<rpc::Channel>> channels_;
  std::map<IpAddress, size_t> to_host_;
};

}  // namespace penstock::server
