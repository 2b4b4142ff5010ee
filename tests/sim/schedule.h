// Schedule holds the parameters of one simulation: version, clients, sizes, times and faults. The constructor draws
// them from the seed, before the simulation begins.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "client/reconnecting_channel.h"
#include "client/url.h"
#include "fs/faulty/fault.h"
#include "rdma/sim/network.h"
#include "rpcrdma/client.h"
#include "rpcrdma/server.h"

namespace penstock::simulation {

struct ClientPlan {
  rpcrdma::ClientOptions options;  // without a probe
  bool probes = false;             // adds a probe to the options
  unsigned workers = 1;
  unsigned slots = 64;   // the number of slots to request; version 4.1 only
  unsigned lockers = 0;  // version 4.1 only
  // With a session of 2004 only:
  client::Protocol protocol = client::Protocol::kTcp;
  client::BoundSessionOptions session;
  uint32_t max_message = 0;  // the largest messages to ask for
  unsigned sharers = 0;
};

// The parameters of a server of sessions of 2004 (docs/sessions-2004.md).
struct BoundPlan {
  bool one_receive_first = false;  // RDMA connections begin with one receive
  bool steps_up = false;
  bool delegations = false;
  // The most that all kept replies may take together; above it the server recalls credits. Empty: the server's default.
  std::optional<size_t> kept_octets;
  // Faults.
  double dies = 0;         // the probability that the server is killed when it keeps a name or a reply
  double lose_set_up = 0;  // the probability that a new connection is lost at one of its first steps
};

struct Schedule {
  // The versions that a schedule may draw: 3 and 4.1, or the sessions of 2004 alone.
  enum class Family : uint8_t { kRfc, kSess01 };
  explicit Schedule(uint64_t seed, Family family = Family::kRfc);
  std::string ToString() const;
  unsigned workers() const;  // the workers of all clients
  // Returns the longest execution time of a call with slow file operations; zero if they take no time.
  Duration longest_execution() const {
    return max_file_time > Duration::zero() ? 2 * max_service + 24 * max_file_time : Duration::zero();
  }

  // Whether the server may forget what became of a request: it restarts, or memory is short and a client is not heard
  // of for a lease time.
  bool fate_may_be_unknown() const { return bound && (restarts > 0 || (bound->kept_octets && (silences || hangs))); }

  // Returns the faults of the server's file system: delays of all operations, and errors of operations that read,
  // change or name files.
  std::vector<fs::faulty::Fault> FileFaults() const;

  rdma::sim::Options network;
  rpcrdma::ServerOptions server;
  std::vector<ClientPlan> clients;
  client::RetryPolicy retry{.first_delay = std::chrono::milliseconds(1),
                            .longest_delay = std::chrono::milliseconds(50),
                            .give_up_after = std::chrono::hours(24)};

  bool sessions = false;           // true: version 4.1 or the sessions of 2004; false: version 3
  std::optional<BoundPlan> bound;  // with the sessions of 2004
  unsigned calls = 0;              // the least number of calls of all workers together, and of each locker
  size_t max_payload = 0;
  Duration max_service{};    // the longest delay before and after a call is executed
  Duration max_file_time{};  // the longest delay before and after each operation on files

  double disk_fails = 0;  // the probability that an operation on files fails

  // Faults of the network and of hosts. Their number is limited, so that every run ends.
  double lose = 0;            // the probability that a step loses a connection
  uint64_t refuse_after = 0;  // the mean number of memory accesses between two refused ones; 0: no access is refused
  bool loses_all = false;     // meddling may lose one or all connections
  bool hangs = false;         // meddling may make the server hang
  bool refuses_connections = false;
  bool changes_credits = false;
  bool has_faults = false;  // false: nothing of the above but slow and failing operations on files
  // The next three are for version 4.1 only.
  unsigned restarts = 0;    // the greatest number of restarts of the server
  bool persistent = false;  // sessions survive a restart
  bool silences = false;    // meddling may silence a client, for up to 200 seconds
  unsigned meddlings = 0;   // the number of random faults, see Simulation::Meddle

 private:
  void DrawBound(rdma::sim::Random& random);
  void DrawBoundFaults(rdma::sim::Random& random);
};

}  // namespace penstock::simulation
