// The sim provider: a network in one process, with TCP connections besides (stream.h). Each delivery is an event of a
// World, so that the World's seed determines a run, and a run takes only virtual time.
//
// The network shows errors of its users, within the rules of endpoint.h. Octets move at delivery, not at posting, and
// in segments. Posted buffers are poisoned. Completions come late, and those of some Sends and Writes before the
// delivery. Later requests overtake Reads. Memory stays accessible until an invalidation has completed. Faults adds
// planned failures.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "rdma/provider.h"
#include "rdma/sim/world.h"

namespace penstock::rdma::sim {

struct Options {
  Duration latency = std::chrono::microseconds(5);            // minimum delay of each delivery
  Duration jitter = std::chrono::microseconds(20);            // maximum random addition to the latency
  Duration completion_delay = std::chrono::microseconds(20);  // maximum delay of a completion
  Duration connect_timeout = std::chrono::seconds(10);
  double early_completion = 0.3;  // fraction of Sends and Writes that complete before the peer has them
  uint32_t max_segment = 16384;   // maximum of octets that move in one event
  bool poison = true;             // fill the buffers of messages and the destinations of Reads with a pattern
  size_t max_private_data = 512;
  Limits limits{.max_message = 1 << 20, .max_transfer = 1 << 30, .file_data = true};
};

// The plan of failures. A step is one delivery: of a segment, a Read Request, a close or a message of connection
// set-up.
struct Faults {
  std::optional<uint64_t> lose_at;    // this step loses its connection; Network::steps() counts from 1
  double lose = 0;                    // the probability that a step loses its connection
  std::optional<uint64_t> refuse_at;  // this access (of a Write or Read to memory) is refused; accesses() counts from 1
  double refuse = 0;                  // the probability that an access is refused
  // From now on invalidations fail and end their connection. The memory stays accessible until the connection is lost.
  bool fail_invalidations = false;
  bool leave_reads = false;  // from now on Reads get no answer; other requests proceed
  // The errors of the next calls of Connect(). Later calls are not affected.
  std::deque<ConnectError::Kind> connects;
};

// The state of one endpoint, for tests.
struct EndpointState {
  size_t posted_receives = 0;
  size_t outstanding_requests = 0;  // Sends, Writes, Reads and invalidations that have not completed
  size_t valid_regions = 0;
};

struct Stats {
  uint64_t connections = 0;
  uint64_t sends = 0, writes = 0, reads = 0, invalidations = 0;  // delivered completely
  uint64_t octets = 0;
  uint64_t refused_accesses = 0;  // planned refusals and those of invalid accesses
  uint64_t unfenced_regions = 0;  // regions destroyed while the peer could still access them
};

class Side;
class ListenQueue;
class Stream;
class StreamListener;

class Network {
 public:
  // `world` must outlive the network and must run no events after the network's destruction.
  explicit Network(World& world, Options options = {});
  ~Network();
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;

  World& world() { return world_; }
  const Options& options() const { return options_; }
  Faults& faults() { return faults_; }

  // Makes a provider with a host address of its own.
  std::unique_ptr<Provider> MakeProvider();

  // Loses all connections now, streams included.
  void LoseAll();
  // Loses all connections of one host now, streams included.
  void LoseAllOf(const Provider& host);
  // Loses the connection of an endpoint of this network now.
  void Lose(const Endpoint& endpoint);
  EndpointState Inspect(const Endpoint& endpoint) const;

  uint64_t steps() const { return steps_; }
  uint64_t accesses() const { return accesses_; }
  const Stats& stats() const { return stats_; }
  // The violations of the rules in endpoint.h by the users of endpoints, one line each. Empty in a correct run.
  const std::vector<std::string>& violations() const { return violations_; }

 private:
  friend class Side;
  friend class SimProvider;
  friend class SimListener;
  friend class SimRequest;
  friend class Stream;
  friend class StreamListener;
  friend class StreamSocket;

  Duration Latency() { return options_.latency + world_.random().UpTo(options_.jitter); }
  // Counts a step. Returns true if the plan loses its connection.
  bool StepLoses();
  // Counts an access. Returns true if the plan refuses it.
  bool AccessRefused();
  // A random stag that was not used before.
  Stag NewStag();
  void Violation(std::string what);
  std::shared_ptr<ListenQueue> FindListener(const Address& address) const;

  World& world_;
  const Options options_;
  Faults faults_;
  uint64_t steps_ = 0;
  uint64_t accesses_ = 0;
  Stats stats_;
  std::vector<std::string> violations_;
  std::set<uint32_t> stags_;  // all stags that were used so far
  std::vector<std::weak_ptr<Side>> sides_;
  std::map<Address, std::shared_ptr<ListenQueue>> listeners_;
  std::vector<std::weak_ptr<Stream>> streams_;
  std::map<Address, StreamListener*> stream_listeners_;
  uint32_t next_host_ = 1;
  uint16_t next_port_ = 49152;
};

}  // namespace penstock::rdma::sim
