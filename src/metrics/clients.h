// The counters of clients, which are addresses: a bounded number of them by name, all others together.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "base/address.h"
#include "base/timer.h"
#include "metrics/counter.h"

namespace penstock::metrics {

// One client on one loop.
struct alignas(64) ClientShare {
  Counter operations;
  Counter nanoseconds;  // of its calls; a COMPOUND's time is that of its operations
  Counter read_octets;
  Counter written_octets;

  // A call has ended. `duration` is that of the whole call.
  void Record(uint64_t operation_count, Duration duration, uint64_t read, uint64_t written) {
    operations.Add(operation_count);
    nanoseconds.Add(NanosecondsOf(duration));
    if (read > 0) read_octets.Add(read);
    if (written > 0) written_octets.Add(written);
  }
};

struct ClientSums {
  uint64_t operations = 0;
  uint64_t nanoseconds = 0;
  uint64_t read_octets = 0;
  uint64_t written_octets = 0;
  size_t connections = 0;

  void Add(const ClientShare& share) {
    operations += share.operations.value();
    nanoseconds += share.nanoseconds.value();
    read_octets += share.read_octets.value();
    written_octets += share.written_octets.value();
  }
  // Adds the counts of a client that has no connections.
  void Add(const ClientSums& sums) {
    operations += sums.operations;
    nanoseconds += sums.nanoseconds;
    read_octets += sums.read_octets;
    written_octets += sums.written_octets;
  }
};

// Thread-safe. Only connections that make their first call or end, and scrapes, take its lock.
class ClientTable {
 public:
  static constexpr size_t kMost = 64;

  class Client {
   public:
    explicit Client(size_t loops) : shares_(loops) {}
    ClientShare& share(size_t loop) { return shares_[loop]; }

   private:
    friend class ClientTable;
    ClientSums Sum() const;

    std::vector<ClientShare> shares_;  // one for each loop
    std::optional<IpAddress> address_;
    size_t connections_ = 0;
    uint64_t left_ = 0;  // when the last connection ended, as a number that grows
  };

  explicit ClientTable(size_t loops) : loops_(loops), others_(std::make_shared<Client>(loops)) {}

  // A connection of this client makes its first call. A client without a connection makes room for a new one, the one
  // that left first; its counts then belong to the others. Without room the result is the entry of all others. Counts
  // are never lost, and the sum of the others never becomes less.
  std::shared_ptr<Client> Enter(const IpAddress& address);
  // The connection ends.
  void Leave(Client& client);
  // The entry of all others.
  const std::shared_ptr<Client>& others() const { return others_; }

  // Calls look(address, sums) for each client, and look(nothing, sums) for the others.
  template <class Look>
  void ForEach(Look look) const {
    const std::lock_guard lock(mutex_);
    for (const auto& each : clients_) look(each->address_, each->Sum());
    ClientSums others = others_->Sum();
    others.Add(gone_);
    look(std::optional<IpAddress>(), others);
  }

 private:
  const size_t loops_;
  mutable std::mutex mutex_;
  std::list<std::shared_ptr<Client>> clients_;
  const std::shared_ptr<Client> others_;
  ClientSums gone_;  // of clients that have made room
  uint64_t clock_ = 0;
};

}  // namespace penstock::metrics
