// Limits the connections of a process, and chooses an idle one to make room for a new one.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string_view>
#include <vector>

#include "base/address.h"
#include "base/refusal_log.h"
#include "base/timer.h"
#include "metrics/counts.h"
#include "rpc/transport.h"

namespace penstock::rpc {

// Shared by all servers of a process, on all loops. Thread-safe. A connection is idle while none of its calls is under
// way and all its replies are sent.
class ConnectionTable {
 public:
  struct Limits {
    size_t connections = 1024;
    // The limit for one IPv4 address or one IPv6 /64, which one host may use alone. 0 means a quarter of `connections`.
    size_t per_address = 0;
    // If a limit is reached, the connection that has been idle longest makes room, provided that it has been idle for
    // this time. It is one of the same address if the address is full, and any if the server is full.
    Duration idle_limit = std::chrono::seconds(10);
  };
  enum class Refusal : uint8_t { kNone, kServerFull, kAddressFull, kDraining };

  // A connection as operators see it.
  struct Shown {
    uint64_t number = 0;  // Peer::connection
    SocketAddress peer{};
    TransportKind transport = TransportKind::kTcp;
    Protection protection = Protection::kNone;
    bool stepped_up = false;
    std::optional<Duration> idle{};  // since when no call has been under way; nothing while one is
  };

  // The entry of one connection. It is busy until HandleIdle(). The table must outlive it.
  class Place {
   public:
    ~Place();
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;

    // Sets the function that the table calls, at most once and on any thread, when the connection must make room. The
    // call may come while another thread destroys the place, or soon after. Set it before the connection is first idle.
    void set_on_evicted(std::function<void()> on_evicted);
    void HandleBusy();
    void HandleIdle(TimePoint now);
    // Tells the table what List() shows of the connection: now, and again when it changes.
    void Describe(const Peer& peer);

   private:
    friend class ConnectionTable;
    Place(ConnectionTable& table, IpAddress key) : table_(table), key_(std::move(key)) {}

    ConnectionTable& table_;
    const IpAddress key_;
    // Guarded by the table's mutex.
    bool counted_ = true;  // false once it has made room
    std::function<void()> on_evicted_;
    Shown shown_{};
    // The time when it became idle, or kBusy. Written without the mutex, for each call.
    static constexpr Duration::rep kBusy = Duration::max().count();
    std::atomic<Duration::rep> idle_since_ = kBusy;
  };
  struct Admission {
    std::unique_ptr<Place> place;  // null if refused
    Refusal refusal = Refusal::kNone;
  };

  ConnectionTable() : ConnectionTable(Limits()) {}
  explicit ConnectionTable(Limits limits, std::shared_ptr<RefusalLog> refusals = std::make_shared<RefusalLog>());
  ~ConnectionTable();

  // Returns a place for a connection with `peer`, or the reason to refuse it, which is logged.
  Admission Admit(const IpAddress& peer, TimePoint now);
  size_t connections() const;
  // The limits that hold now, with the one for an address.
  Limits limits() const;
  // Changes the limits for new connections. Those that exist stay, even if there are more than allowed now.
  void SetLimits(Limits limits);

  // The connections that are described, in the order of their numbers.
  std::vector<Shown> List(TimePoint now) const;
  // From now on, admits only addresses that have a connection now, so that no new client comes; or all again.
  void SetDraining(bool draining);
  bool is_draining() const;

 private:
  Place* FindIdle(TimePoint now, const IpAddress* key) const;
  void Uncount(Place& place);
  void LogRefusal(const IpAddress& peer, Refusal refusal) const;

  mutable std::mutex mutex_;
  Limits limits_;
  std::set<Place*> places_;  // the counted ones
  std::map<IpAddress, size_t> by_address_;
  std::optional<std::set<IpAddress>> admitted_;  // while draining
  const std::shared_ptr<RefusalLog> refusals_;
};

// Returns one line for the log and for the peer.
std::string_view ToString(ConnectionTable::Refusal refusal);
// Returns the name under which a refusal is counted. Not for kNone.
metrics::ConnectionRefusal CountedAs(ConnectionTable::Refusal refusal);

}  // namespace penstock::rpc
