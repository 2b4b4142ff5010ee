// What the operator may set about a server.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/address.h"
#include "base/timer.h"
#include "nfs/export_options.h"
#include "nfs/v4/state/settings.h"
#include "rdma/choice/choice.h"
#include "rdma/iwarp/options.h"
#include "rpc/connection_table.h"

namespace penstock::server {

// One host gets a quarter, and needs that for the largest call.
inline constexpr size_t kLeastMemory = 32 << 20;
// A quarter of what there is for the process, and at least 256 MiB.
size_t DefaultMemory();

struct Options {
  std::vector<nfs::ExportSpec> exports;
  IpAddress listen = asio::ip::address_v4::loopback();
  // Port 0: one that the system chooses.
  uint16_t tcp_port = 2049;
  uint16_t rdma_port = 20049;
  uint16_t mount_port = 20048;
  // Event loops, each on a thread of its own; at least one.
  unsigned threads = 1;
  // Threads for calls that block, on a disk mostly; at least one. They are started when they are needed. See Workers.
  unsigned workers = 64;
  // What must survive a restart; DefaultStateDirectory() where empty. No other server's.
  std::filesystem::path state_directory;
  // RPCSEC_GSS is offered with the keys of the service nfs in this keytab. Empty: with those in the host's (KRB5_KTNAME), if it has any.
  std::string keytab;
  // Users' groups are those that this host knows, not those of their credentials, which are sixteen at most.
  bool manage_gids = false;
  nfs::v4::Settings nfs4;
  // Programs of this host that open a file for writing wait until clients have returned their delegations for reading on it. The kernel
  // sends the process SIGIO then, which ends it by default. So this is for programs that call Server::LookAtLocalLeases() on each SIGIO,
  // and handle or ignore it until the server is gone.
  bool local_leases = false;
  rdma::Choice rdma;
  rdma::iwarp::Options iwarp;
  // Faults of the exports' files, for tests (fs/faulty/fault.h has the syntax). Empty: none.
  std::string faults{};
  // A capture file of all RDMA connections, see rdma/trace/provider.h. Empty: none.
  std::filesystem::path trace;
  // On all ports together, and from one address.
  rpc::ConnectionTable::Limits connections;
  // Octets for the calls and replies of all clients, see rpc/memory_budget.h; at least kLeastMemory. 0: DefaultMemory().
  size_t memory = 0;
  // How long a peer may leave a message, a reply or an RDMA Read half done; then its connection is ended.
  Duration stall_limit = std::chrono::seconds(60);
  // Within this time Stop() ends, but for calls that a disk holds up. Peers have most of it to take their replies.
  Duration drain_limit = std::chrono::seconds(5);
};

}  // namespace penstock::server
