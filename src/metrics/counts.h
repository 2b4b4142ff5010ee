// All counters of a server: by loop, by client, and by transport. The server makes them; its loops count, and the
// server reads them for a scrape.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/address.h"
#include "metrics/clients.h"
#include "metrics/counter.h"
#include "metrics/interface.h"
#include "metrics/loop_counts.h"

namespace penstock::metrics {

enum class Transport : uint8_t { kTcp, kRdma };
inline constexpr size_t kTransports = 2;

// Why a server refuses a connection.
enum class ConnectionRefusal : uint8_t { kServerFull, kAddressFull, kDraining, kNotAllowed };
inline constexpr size_t kConnectionRefusals = 4;

// Why a connection ends.
enum class ConnectionEnd : uint8_t {
  kClient,     // the client has closed or lost it
  kStalled,    // the client left a message unfinished
  kMadeRoom,   // it was idle, and another one needed its place
  kNoReply,    // a call has no reply
  kStop,       // the server stops
  kSteppedUp,  // it goes on as an RDMA connection
  kTls,        // its TLS handshake has failed
  kServer,     // the server ended it for another reason, such as an error of the client
};
inline constexpr size_t kConnectionEnds = 8;

struct TransportCounts {
  SharedCounter accepted;
  std::array<SharedCounter, kConnectionRefusals> refused;
  std::array<SharedCounter, kConnectionEnds> closed;
};

class Counts;

// What the calls of one connection count into. The connection has it from its beginning to its end.
class ConnectionCounts {
 public:
  // `address`: of the client. Without one, as for datagrams, the calls count for the others.
  ConnectionCounts(std::shared_ptr<Counts> counts, size_t loop, const std::optional<IpAddress>& address,
                   TransportCounts* transport);
  ~ConnectionCounts();
  ConnectionCounts(const ConnectionCounts&) = delete;
  ConnectionCounts& operator=(const ConnectionCounts&) = delete;

  // On the connection's loop.
  LoopCounts& loop() { return loop_; }
  // The client gets its name when this is called first: a peer that connects and calls nothing must not take the place
  // of a client.
  ClientShare& client() {
    if (!share_) Name();
    return *share_;
  }
  // The reason that the end is counted with. The first call decides; without one it is kClient.
  void SetEnd(ConnectionEnd end) {
    if (!ended_) end_ = end;
    ended_ = true;
  }

 private:
  void Name();

  const std::shared_ptr<Counts> counts_;
  const size_t loop_index_;
  LoopCounts& loop_;
  const std::optional<IpAddress> address_;
  std::shared_ptr<ClientTable::Client> client_;  // null until the first call
  ClientShare* share_ = nullptr;                 // of client_
  TransportCounts* const transport_;             // null for datagrams
  ConnectionEnd end_ = ConnectionEnd::kClient;
  bool ended_ = false;
};

class Counts : public std::enable_shared_from_this<Counts> {
 public:
  // `loops`: how many loops count.
  Counts(std::vector<Interface> interfaces, size_t loops);

  const std::vector<Interface>& interfaces() const { return interfaces_; }
  LoopCounts& loop(size_t index) { return *loops_[index]; }
  const std::vector<std::unique_ptr<LoopCounts>>& loops() const { return loops_; }
  ClientTable& clients() { return clients_; }
  const ClientTable& clients() const { return clients_; }
  TransportCounts& transport(Transport which) { return transports_[static_cast<size_t>(which)]; }
  const TransportCounts& transport(Transport which) const { return transports_[static_cast<size_t>(which)]; }

 private:
  const std::vector<Interface> interfaces_;
  const Clock clock_;
  NamedExports exports_;
  std::vector<std::unique_ptr<LoopCounts>> loops_;
  ClientTable clients_;
  std::array<TransportCounts, kTransports> transports_;
};

// The counters of a server's loop, for the servers on it. Without counters it does nothing.
class Recorder {
 public:
  Recorder() = default;
  Recorder(std::shared_ptr<Counts> counts, size_t loop) : counts_(std::move(counts)), loop_(loop) {}

  // A connection begins. Null without counters.
  std::shared_ptr<ConnectionCounts> Connect(Transport transport, const IpAddress& client) const;
  // For calls by datagrams, which no client is named for. Null without counters.
  std::shared_ptr<ConnectionCounts> ForDatagrams() const;
  void Refuse(Transport transport, ConnectionRefusal why) const;
  // Null without counters.
  LoopCounts* loop() const { return counts_ ? &counts_->loop(loop_) : nullptr; }

 private:
  std::shared_ptr<Counts> counts_;
  size_t loop_ = 0;
};

}  // namespace penstock::metrics
