// Schedule holds the parameters of one simulation: version, clients, sizes, times and faults. The constructor draws
// them from the seed, before the simulation begins.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "client/reconnecting_channel.h"
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
};

struct Schedule {
  explicit Schedule(uint64_t seed);
  std::string ToString() const;
  unsigned workers() const;  // the workers of all clients
  // Returns the longest execution time of a call with slow file operations; zero if they take no time.
  Duration longest_execution() const {
    return max_file_time > Duration::zero() ? 2 * max_service + 24 * max_file_time : Duration::zero();
  }

  // Returns the faults of the server's file system: delays of all operations, and errors of operations that read,
  // change or name files.
  std::vector<fs::faulty::Fault> FileFaults() const;

  rdma::sim::Options network;
  rpcrdma::ServerOptions server;
  std::vector<ClientPlan> clients;
  client::RetryPolicy retry{.first_delay = std::chrono::milliseconds(1),
                            .longest_delay = std::chrono::milliseconds(50),
                            .give_up_after = std::chrono::hours(24)};

  bool sessions = false;  // true: version 4.1; false: version 3
  unsigned calls = 0;     // the least number of calls of all workers together, and of each locker
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
  // The next three are for version 4.1 only.
  unsigned restarts = 0;    // the greatest number of restarts of the server
  bool persistent = false;  // sessions survive a restart
  bool silences = false;    // meddling may silence a client, for up to 200 seconds
  unsigned meddlings = 0;   // the number of random faults, see Simulation::Meddle
};

}  // namespace penstock::simulation
