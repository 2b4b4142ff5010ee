// The settings of a server.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/address.h"
#include "base/timer.h"
#include "nfs/host_names.h"
#include "nfs/network.h"
#include "nfs/v4/state/settings.h"
#include "rdma/choice/choice.h"
#include "rdma/iwarp/options.h"
#include "rpc/connection_control.h"
#include "rpc/connection_table.h"
#include "rpc/tls/context.h"

namespace penstock::server {

// The smallest Options::memory: one host gets a quarter of it, and needs that much for the largest call.
inline constexpr size_t kLeastMemory = 32 << 20;
// A quarter of the memory that the process may use, and at least 256 MiB.
size_t DefaultMemory();
// Whether Options::padding may have this value.
inline bool IsPadding(uint32_t octets) { return octets == rpc::PaddingWithin(octets); }

// Whether the server registers its programs with the rpcbind of this host, see rpcbind/registrar.h.
enum class Registration : uint8_t {
  kOff,
  kAuto,      // if one runs, and unless the server listens on loopback addresses only
  kRequired,  // Server::Make() fails without it
};

// Where a server listens, for each transport. If a list is empty, the server does not offer the transport.
//
// The address :: beside an IPv4 address of the same list means IPv6 only. Without one, it means IPv4 as well, but for
// an RDMA adapter, which always has a listener for each version of IP.
struct Addresses {
  std::vector<SocketAddress> tcp;    // NFS over TCP
  std::vector<SocketAddress> rdma;   // NFS over RDMA
  std::vector<SocketAddress> mount;  // MOUNT and the other small programs, over TCP and UDP

  static Addresses At(const IpAddress& address, uint16_t tcp_port = 2049, uint16_t rdma_port = 20049,
                      uint16_t mount_port = 20048) {
    return {.tcp = {{address, tcp_port}}, .rdma = {{address, rdma_port}}, .mount = {{address, mount_port}}};
  }
};

struct Options {
  // With port 0 the system chooses a free port, one for all addresses of a list that have port 0; Server::addresses()
  // tells which. Parts::sockets may replace the lists. At least one of `tcp` and `rdma` has an address.
  Addresses listen = Addresses::At(asio::ip::address_v4::loopback());
  Registration rpcbind = Registration::kOff;
  // The server answers as a port mapper itself, at all its addresses, and does not register. For hosts where no rpcbind
  // runs.
  bool port_mapper = false;
  uint16_t port_mapper_port = 111;
  // How many event loops the server runs, each on a thread of its own; at least one.
  unsigned threads = 1;
  // The server offers RPCSEC_GSS with the keys of the service nfs in this keytab. If empty: with the keys in the host's
  // keytab (KRB5_KTNAME), if the host has one.
  std::string keytab;
  // The networks whose connections are protected by other means than RPCSEC_GSS, as by IPsec. Only clients there may
  // make contexts of the Channel Conjunction Mechanism (rpc/gss/conjunction.h).
  std::vector<nfs::Network> ccm_from;
  // The server's certificate and key, and the authorities of clients' certificates: clients may ask for TLS over TCP
  // (RFC 9289). Without a certificate the server has no TLS.
  rpc::tls::Files tls{};
  // Take users' groups from this host instead of from their credentials, which carry at most sixteen.
  bool manage_gids = false;
  // Tells the names of clients' hosts, for exports by host name, pattern or netgroup. Null: the databases of this host.
  // It outlives the server.
  nfs::HostDatabase* host_database = nullptr;
  // Serve NFS version 2 as well, with versions 1 and 2 of MOUNT.
  bool nfs2 = false;
  nfs::v4::Settings nfs4;
  rdma::Choice rdma;
  rdma::iwarp::Options iwarp;
  // A client may turn its TCP connection to the NFS port into an RDMA connection (RFC 8881 §18.36.3,
  // CREATE_SESSION4_FLAG_CONN_RDMA). Software iWARP then serves it, whatever `rdma` says.
  bool step_up = false;
  // RDMA connections begin with one receive, so that a client may ask for longer messages before it uses more
  // (draft-talpey-nfsv4-rdma-sess-01 §2.3.3). Clients of RFC 8166 do not notice. Clients may read no memory of the
  // server by RDMA.
  bool one_receive_first = false;
  // Over RDMA: data of up to this many octets may be part of a message, if the client agrees. Each call that may be
  // under way can take a buffer for this and 4 KiB: over an adapter always, over software iWARP from its arrival on. An
  // eighth of `memory`, besides it, is the limit for all connections; others take 4 KiB. From 1 to
  // rdma::kMostInlineData; absent: what suits the provider. Not with one_receive_first.
  std::optional<uint32_t> inline_data{};
  // The longest Send over RDMA, in octets, that the server agrees on with such a client, or with one that steps up. The
  // server keeps a receive of the agreed size for each call that may be under way.
  uint32_t max_agreed_size = 16 << 10;
  // The longest one for a client that asks for fewer calls at once, so that the receives take no more octets.
  uint32_t longest_agreed_call = 128 << 10;
  // The largest boundary to which the clients of the sessions of 2004 may pad the data of their calls over RDMA: 0 or a
  // power of two from 64 to 4096 (rpc::ConnectionLimits::padding).
  uint32_t padding = 0;
  // The file systems check the rights of each caller. False if the process lacks the rights to act as its callers: then
  // the log blames no option of an export for a missing permission.
  bool acts_as_callers = true;
  // Where the server answers monitors and people over HTTP, without authentication (docs/metrics.md). Port 0: a port
  // that the system chooses. Nothing: nowhere.
  std::optional<SocketAddress> metrics{};
  // Write all RDMA connections to this capture file, see rdma/trace/provider.h. If empty: write none.
  std::filesystem::path trace;
  // The limits of connections, for all ports together and for one address.
  rpc::ConnectionTable::Limits connections;
  // Bytes for the calls and replies of all clients, see rpc/memory_budget.h; at least kLeastMemory. 0: DefaultMemory().
  size_t memory = 0;
  // The server disconnects a peer that leaves a message, a reply or an RDMA Read unfinished for longer than this.
  Duration stall_limit = std::chrono::seconds(60);
  // Stop() returns within this time, except for calls that wait for a disk. Peers have four fifths of it to take their
  // replies.
  Duration drain_limit = std::chrono::seconds(5);
};

}  // namespace penstock::server
