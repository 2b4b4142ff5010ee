// The connections of a whole process: how many there may be, and which makes room for a new one.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string_view>

#include "base/address.h"
#include "base/log_limit.h"
#include "base/timer.h"

namespace penstock::rpc {

// Shared by all servers of a process, on all loops. Any thread. A connection is idle while no call of it is under way and
// no octet of a reply is left to be sent.
class ConnectionTable {
 public:
  struct Limits {
    size_t connections = 1024;
    // With one address, or one IPv6 network of 64 bits, which one host may have to itself. 0: a quarter of `connections`.
    size_t per_address = 0;
    // Where either limit is reached, the connection that has been idle the longest makes room, if it has been idle for so
    // long: with the same address where that is full, with any where the server is.
    Duration idle_limit = std::chrono::seconds(10);
  };
  enum class Refusal : uint8_t { kNone, kServerFull, kAddressFull };

  // One connection's place. Busy until told otherwise. Outlived by its table.
  class Place {
   public:
    ~Place();
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;

    // Called once at most, on any thread, when the connection must make room. May be called while the place is destroyed
    // on another thread, or soon after. To be set before the connection is idle for the first time.
    void set_on_evicted(std::function<void()> on_evicted);
    void HandleBusy();
    void HandleIdle(TimePoint now);

   private:
    friend class ConnectionTable;
    Place(ConnectionTable& table, IpAddress key) : table_(table), key_(std::move(key)) {}

    ConnectionTable& table_;
    const IpAddress key_;
    // Guarded by the table's mutex.
    bool counted_ = true;  // false once it has made room
    std::function<void()> on_evicted_;
    // When it became idle; kBusy while it is not. Written without the mutex, for each call.
    static constexpr Duration::rep kBusy = Duration::max().count();
    std::atomic<Duration::rep> idle_since_ = kBusy;
  };
  struct Admission {
    std::unique_ptr<Place> place;  // null where there is none
    Refusal refusal = Refusal::kNone;
  };

  ConnectionTable() : ConnectionTable(Limits()) {}
  explicit ConnectionTable(Limits limits);
  ~ConnectionTable();

  // A place for a connection with `peer`. Where there is none the operator is told, now and then.
  Admission Admit(const IpAddress& peer, TimePoint now);
  size_t connections() const;

 private:
  Place* FindIdle(TimePoint now, const IpAddress* key) const;
  void Uncount(Place& place);
  void LogRefusal(const IpAddress& peer, Refusal refusal, TimePoint now);

  const Limits limits_;
  mutable std::mutex mutex_;
  std::set<Place*> places_;  // those that count
  std::map<IpAddress, size_t> by_address_;
  LogLimit told_{std::chrono::seconds(10)};
  size_t untold_ = 0;
};

// For people, and for the peer: one line.
std::string_view ToString(ConnectionTable::Refusal refusal);

}  // namespace penstock::rpc
