// Everything about a simulation that is decided before it begins, drawn from its seed.
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
  bool probes = false;
  unsigned workers = 1;
  unsigned slots = 64;   // asked for, where there are sessions
  unsigned lockers = 0;  // the same
};

struct Schedule {
  explicit Schedule(uint64_t seed);
  std::string ToString() const;
  unsigned workers() const;  // of all clients
  // Of a call whose files take their time.
  Duration longest_execution() const {
    return max_file_time > Duration::zero() ? 2 * max_service + 24 * max_file_time : Duration::zero();
  }

  // Delays of the server's operations on files, and errors of the operations that read, change or name files.
  std::vector<fs::faulty::Fault> FileFaults() const;

  rdma::sim::Options network;
  rpcrdma::ServerOptions server;
  std::vector<ClientPlan> clients;
  client::RetryPolicy retry{.first_delay = std::chrono::milliseconds(1),
                            .longest_delay = std::chrono::milliseconds(50),
                            .give_up_after = std::chrono::hours(24)};

  bool sessions = false;  // version 4.1, or else version 3
  unsigned calls = 0;     // at least, of all workers together, and of each locker
  size_t max_payload = 0;
  Duration max_service{};    // before and after a call is executed
  Duration max_file_time{};  // before and after each of its operations on files

  double disk_fails = 0;  // the probability that an operation on files fails

  // Faults of the network and of machines. They end when there were enough of them, so that every run comes to an end.
  double lose = 0;            // a connection, at each step
  uint64_t refuse_after = 0;  // about so many accesses to memory one is refused; 0: never
  bool loses_all = false;     // connections, now and then
  bool hangs = false;         // the server, now and then
  bool refuses_connections = false;
  bool changes_credits = false;
  // Where there are sessions.
  unsigned restarts = 0;    // of the server, at most
  bool persistent = false;  // sessions outlive it
  bool silences = false;    // a client is not heard of for a while, now and then
  unsigned meddlings = 0;
};

}  // namespace penstock::simulation
