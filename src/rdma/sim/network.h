// A network in one process: the sim provider. Everything that happens on it is an event of a World, so a run is decided
// by the World's seed, and virtual time is all the time it takes.
//
// It is as unkind as endpoint.h allows. Bytes move when they are delivered, not when they are posted, in segments;
// posted buffers are poisoned; completions come late, those of Sends sometimes early; Reads are overtaken; memory stays
// reachable until an invalidation has completed. On top of that come the faults: see Faults.
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
  Duration latency = std::chrono::microseconds(5);            // of each delivery, at least
  Duration jitter = std::chrono::microseconds(20);            // and so much more at most
  Duration completion_delay = std::chrono::microseconds(20);  // at most
  Duration connect_timeout = std::chrono::seconds(10);
  double early_completion = 0.3;  // of Sends and Writes complete before the peer has them
  uint32_t max_segment = 16384;   // octets that move in one event
  bool poison = true;             // what is posted to be written to
  size_t max_private_data = 512;
  Limits limits{.max_message = 1 << 20, .max_transfer = 1 << 30, .file_data = true};
};

// What goes wrong. A step is a delivery: of a segment, of a Read Request, of a close, of a message of connection
// set-up.
struct Faults {
  std::optional<uint64_t> lose_at;    // at this step its connection is lost instead; Network::steps() counts from 1
  double lose = 0;                    // the same by chance, at each step
  std::optional<uint64_t> refuse_at;  // this access (of a Write or Read to memory) is refused; accesses() counts from 1
  double refuse = 0;
  // Invalidations fail from now on, each with its connection; the memory stays reachable until that is lost.
  bool fail_invalidations = false;
  bool leave_reads = false;  // no Read that arrives from now on is answered; all else goes on
  // What becomes of the next calls of Connect; the calls after them succeed where they can.
  std::deque<ConnectError::Kind> connects;
};

// What a test may want to know about one endpoint now.
struct EndpointState {
  size_t posted_receives = 0;
  size_t outstanding_requests = 0;  // Sends, Writes, Reads and invalidations that have not completed
  size_t valid_regions = 0;
};

struct Stats {
  uint64_t connections = 0;
  uint64_t sends = 0, writes = 0, reads = 0, invalidations = 0;  // delivered whole
  uint64_t octets = 0;
  uint64_t refused_accesses = 0;  // for whatever reason, planned or deserved
  uint64_t unfenced_regions = 0;  // destroyed while the peer could still reach them
};

class Side;
class ListenQueue;

class Network {
 public:
  // `world` outlives the network, and runs no events after it.
  explicit Network(World& world, Options options = {});
  ~Network();
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;

  World& world() { return world_; }
  const Options& options() const { return options_; }
  Faults& faults() { return faults_; }

  // A provider of its own host.
  std::unique_ptr<Provider> MakeProvider();

  // The network loses every connection now.
  void LoseAll();
  // An endpoint of this network, and its connection.
  void Lose(const Endpoint& endpoint);
  EndpointState Inspect(const Endpoint& endpoint) const;

  uint64_t steps() const { return steps_; }
  uint64_t accesses() const { return accesses_; }
  const Stats& stats() const { return stats_; }
  // What users of the interface did that endpoint.h forbids, one line each. Empty in a run that is right.
  const std::vector<std::string>& violations() const { return violations_; }

 private:
  friend class Side;
  friend class SimProvider;
  friend class SimListener;
  friend class SimRequest;

  Duration Latency() { return options_.latency + world_.random().UpTo(options_.jitter); }
  // Counts a step; true where the plan loses its connection.
  bool StepLoses();
  // Counts an access; true where the plan refuses it.
  bool AccessRefused();
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
  std::set<uint32_t> stags_;  // all that were ever given out
  std::vector<std::weak_ptr<Side>> sides_;
  std::map<Address, std::shared_ptr<ListenQueue>> listeners_;
  uint32_t next_host_ = 1;
  uint16_t next_port_ = 49152;
};

}  // namespace penstock::rdma::sim
