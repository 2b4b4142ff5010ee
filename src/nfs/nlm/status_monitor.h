// The Network Status Monitor (X/Open XNFS): tells hosts that the server has started again, so that they reclaim their
// locks, and learns from hosts that they have started again, so that their locks end.
#pragma once

#include <string>
#include <vector>

#include "base/pauses.h"
#include "base/task.h"
#include "base/timer.h"
#include "base/under_way.h"
#include "nfs/nlm/host_calls.h"
#include "nfs/nlm/lock_manager.h"
#include "nfs/v4/state/clients/lock_hosts.h"
#include "rpc/dispatch.h"

namespace penstock::nfs::nlm {

// The number of this run of the server for its hosts: odd, because the server is up, and greater than that of each
// earlier run. `instance` is that of v4::RecoveryStore::Restart.
inline int32_t StateOf(uint32_t instance) { return static_cast<int32_t>((instance << 1 | 1) & 0x7fffffff); }

// The program. See LockManager::EndHost for SM_NOTIFY.
class StatusMonitor final : public rpc::Program {
 public:
  StatusMonitor(LockManager& manager, int32_t state) : manager_(manager), state_(state) {}

  uint32_t number() const override;
  rpc::VersionRange versions() const override;
  // A late copy of SM_NOTIFY would end the locks that the host has got since it started.
  rpc::Classification Classify(rpc::CallContext& context, xdr::Decoder& arguments) const override;
  Task<rpc::AcceptStatus> Call(rpc::CallContext& context, xdr::Decoder& arguments, xdr::Encoder& results) override;

 private:
  LockManager& manager_;
  const int32_t state_;
};

// Sends SM_NOTIFY to the hosts that had locks before the server's restart, until they answer or the time is over. All
// methods belong to the loop of `timers`.
class RestartNotices {
 public:
  struct Settings {
    std::string name;  // of this host
    int32_t state = 1;
    size_t at_once = 16;                             // hosts that are called at a time
    Duration first_pause = std::chrono::seconds(2);  // after a call without an answer; it doubles each time
    Duration longest_pause = std::chrono::seconds(60);
    Duration limit = std::chrono::minutes(15);
  };

  // The arguments outlive the instance.
  RestartNotices(HostCalls& calls, TimerService& timers, Settings settings);

  // A host is told twice: of this host's name, and of the address that it used. It knows the server by one of them, or
  // by a name that it can resolve to that address.
  void Send(std::vector<v4::RememberedHost> hosts);
  // Ends all calls.
  Task<> Stop();

  size_t under_way() const { return under_way_.count(); }

 private:
  Task<> Tell(v4::RememberedHost host);
  // Returns whether the host has answered.
  Task<bool> TellOnce(const v4::RememberedHost& host, std::string name);

  HostCalls& calls_;
  const TimerService& clock_;
  const Settings settings_;
  Pauses pauses_;
  UnderWay under_way_;
  size_t calling_ = 0;
};

}  // namespace penstock::nfs::nlm
