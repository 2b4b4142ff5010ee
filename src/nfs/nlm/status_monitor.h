// The Network Status Monitor (X/Open XNFS): tells hosts that the server has started again, so that they reclaim their
// locks, and learns from hosts that they have started again, so that their locks end.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/address.h"
#include "base/cancellation.h"
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
//
// Each address is called for the first time before any is called again: one address of each host (IPv4 address or IPv6
// /64) comes first, then a second one of each, and so on. Addresses that have not answered are called again behind
// them, after growing pauses.
class RestartNotices {
 public:
  struct Settings {
    std::string name;  // of this host
    int32_t state = 1;
    size_t at_once = 64;                             // addresses that are called at a time
    size_t again_at_once = 16;                       // those among them that have not answered before
    Duration first_pause = std::chrono::seconds(2);  // after a call without an answer; it doubles each time
    Duration longest_pause = std::chrono::seconds(60);
    Duration limit = std::chrono::minutes(15);
  };

  // The arguments outlive the instance.
  RestartNotices(HostCalls& calls, TimerService& timers, Settings settings);

  // A host is told twice: of this host's name, and of the address that it used. It knows the server by one of them, or
  // by a name that it can resolve to that address. Hosts at one address have one status monitor, and are told together.
  // Call it once.
  void Send(const std::vector<v4::RememberedHost>& hosts);
  // Ends all calls.
  Task<> Stop();

  // The number of addresses that have not been told yet.
  size_t left() const { return new_.size() + again_.size() + under_way_.count(); }

 private:
  // The messages that an address has not got yet.
  struct Notice {
    struct Message {
      IpAddress ours;  // the sender's address
      std::string name;
    };
    v4::LockHostName host;          // the first host at the address
    std::vector<Message> messages;  // the last one is sent first
    Duration pause{};               // zero before the first call
  };

  std::deque<Notice> NoticesFor(const std::vector<v4::RememberedHost>& hosts) const;
  // Begins the calls that may begin now.
  void Start();
  Task<> Tell(Notice notice);
  // Returns whether the host has answered.
  Task<bool> TellOnce(const IpAddress& host, const Notice::Message& message);
  void CallAgainLater(Notice notice);

  HostCalls& calls_;
  const TimerService& clock_;
  const Settings settings_;
  TimePoint end_{};
  std::deque<Notice> new_;
  std::multimap<TimePoint, Notice> again_;  // by the time of the next call
  const std::unique_ptr<Timer> timer_;      // expires at that time
  Cancellation cancellation_;
  UnderWay under_way_;
  size_t calling_again_ = 0;
  bool starting_ = false;
};

}  // namespace penstock::nfs::nlm
