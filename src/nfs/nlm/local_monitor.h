// The status monitor (statd) of the server's own host, where it is another program than the server. It has the place in
// rpcbind, so hosts tell it that they have started again. The server asks it, by SM_MON for the address of each host
// that locks files, to pass that on. It does so by the procedure SM_NOTIFY of the lock manager (X/Open XNFS).
//
// Hosts are named by their addresses, as Linux's lock manager names them: hosts may give themselves any name, and two
// of them the same one. The monitor finds the address for the name in a host's message by the host's name service.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "base/address.h"
#include "base/bytes.h"
#include "base/cancellation.h"
#include "base/log_limit.h"
#include "base/task.h"
#include "base/timer.h"
#include "base/under_way.h"
#include "nfs/nlm/host_calls.h"
#include "protocol/nsm.h"

namespace penstock::nfs::nlm {

// All methods belong to the loop of `calls`. The monitor gets one call at a time: rpc.statd resolves addresses
// meanwhile, and does nothing else.
class LocalMonitor {
 public:
  // `own_name` is the name of this host. The other arguments outlive the instance.
  LocalMonitor(HostCalls& calls, const TimerService& clock, std::string own_name)
      : calls_(calls), clock_(clock), own_name_(std::move(own_name)) {}

  // Whether there is such a monitor. Before the first call there is none. While there is none, nothing is asked.
  void Use(bool exists);
  // A host with this address has got a lock or a share.
  void Watch(const IpAddress& address);
  // No other hosts may have locks or shares: the monitor is to watch these, and no others. Asks again for those that it
  // does not watch yet. Call it periodically.
  void Keep(const std::set<IpAddress>& addresses);
  // The address that the monitor names by this cookie.
  std::optional<IpAddress> Find(ConstBytes cookie) const;
  // Ends the call under way, and asks nothing more. The monitor goes on watching; the next run of the server ends that.
  Task<> Stop();

 private:
  // Random, so that no other program of this host can name a host.
  using Cookie = std::array<std::byte, nsm::SM_PRIV_SIZE>;
  struct Watched {
    Cookie cookie{};
    bool is_wanted = true;
    bool is_watched = false;    // the monitor has agreed
    bool may_be_known = false;  // the monitor may watch the address, though it has not answered
  };
  enum class Answer : uint8_t { kYes, kNo, kNone };

  void Add(const IpAddress& address);
  // Asks for each address that is waiting, unless this happens already.
  void Start();
  Task<> AskForAll();
  Task<Answer> AskFor(IpAddress address);
  // `before` is the address's entry.
  Task<Answer> Begin(IpAddress address, Watched& before);
  Task<Answer> End(IpAddress address, Watched& before);
  // Returns the entry if it is still there after a call, and null otherwise.
  Watched* StillThere(const IpAddress& address, const Cookie& cookie);
  // Ends what an earlier run of the server has asked for.
  Task<Answer> EndAll();
  nsm::my_id Id() const;
  // The answer is yes if the results do not say anything else.
  template <class Procedure>
  Task<Answer> Call(const typename Procedure::Arguments& arguments);
  void Warn(const IpAddress& address, Answer answer);

  HostCalls& calls_;
  const TimerService& clock_;
  const std::string own_name_;
  bool exists_ = false;
  bool has_ended_all_ = false;
  std::map<IpAddress, Watched> watched_;
  std::map<Cookie, IpAddress> by_cookie_;
  std::set<IpAddress> waiting_;
  IpAddress last_;  // that was asked for
  Cancellation cancellation_;
  UnderWay asking_;
  LogLimit told_;  // that a host is not watched
};

}  // namespace penstock::nfs::nlm
