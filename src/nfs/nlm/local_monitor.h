// The status monitor of the server's own host, where it is another program than the server: rpc.statd. It has the place
// in rpcbind, so hosts tell it that they have started again. The server asks it, by SM_MON for the address of each host
// that locks files, to pass that on. It does so by the procedure SM_NOTIFY of the lock manager (X/Open XNFS).
//
// rpc.statd believes every message, and finds the address for it by the names of the host's name service or by the
// sender's address. So everybody who can send it datagrams can end locks: the server cannot know better.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

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
// meanwhile, and does nothing else. Hosts take turns.
class LocalMonitor {
 public:
  // The arguments outlive the instance.
  LocalMonitor(HostCalls& calls, TimerService& timers);

  // Whether there is such a monitor. Before the first call there is none. While there is none, nothing is asked.
  void Use(bool exists);
  // An earlier run of the server may have asked for these: the monitor, if there is one now or later, is to watch them
  // no more, unless they are asked for again.
  void EndEarlier(const std::set<IpAddress>& addresses);
  // A host with this address has got a lock, a share or a place in a queue.
  void Watch(const IpAddress& address);
  // Only hosts with these addresses may have locks or shares: the monitor is to watch them, and no others. Asks again
  // for those that it does not watch yet. Call it periodically.
  void Keep(const std::set<IpAddress>& addresses);
  // The address that the monitor names by this cookie.
  std::optional<IpAddress> Find(ConstBytes cookie) const;
  // The monitor is to watch nothing any more, so that it does not tell hosts of a restart in the server's place. Gives
  // up after a second. From then on nothing is asked.
  Task<> Stop();

 private:
  // Tells this run from earlier ones, and one address from another.
  using Cookie = std::array<std::byte, nsm::SM_PRIV_SIZE>;
  struct Watched {
    Cookie cookie{};
    bool is_wanted = true;
    bool is_watched = false;    // the monitor has agreed
    bool may_be_known = false;  // the monitor may watch the address
  };
  using Addresses = std::map<IpAddress, Watched>;
  enum class Answer : uint8_t { kYes, kNo, kNone };

  Watched& Get(const IpAddress& address);
  Addresses::iterator Forget(Addresses::iterator address);
  void AskLater(const IpAddress& address);
  // Asks for each address that waits, unless this happens already.
  void Start();
  Task<> AskForAll();
  Task<Answer> AskFor(IpAddress address);
  // `before` is the address's entry.
  Task<Answer> Begin(IpAddress address, Watched& before);
  Task<Answer> End(IpAddress address, Watched& before);
  // Returns the entry if it is still there after a call, and null otherwise.
  Watched* StillThere(const IpAddress& address, const Cookie& cookie);
  // Calls the monitor. The answer is yes if the results do not say anything else.
  template <class Procedure>
  Task<Answer> Call(const typename Procedure::Arguments& arguments);
  void Warn(const IpAddress& address, Answer answer);

  HostCalls& calls_;
  TimerService& timers_;
  bool exists_ = false;
  bool stops_ = false;
  std::set<IpAddress> earlier_;  // to be ended when there is a monitor
  Addresses watched_;
  std::map<Cookie, IpAddress> by_cookie_;
  std::map<IpAddress, std::set<IpAddress>> waiting_;  // the addresses of each host
  IpAddress last_;                                    // the host that was asked for last
  Cancellation cancellation_;
  UnderWay asking_;
  LogLimit told_;  // that a host is not watched
};

}  // namespace penstock::nfs::nlm
