// How clients find the ports of the server's programs: by the rpcbind of this host, where the server registers them, or
// by a port mapper of the server's own.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/loop.h"
#include "base/result.h"
#include "base/workers.h"
#include "rpc/dispatch.h"
#include "rpc/tcp/server.h"
#include "rpcbind/port_mapper.h"
#include "rpcbind/registrar.h"
#include "rpcbind/service.h"
#include "server/options.h"
#include "server/serving_loop.h"

namespace penstock::server {

// Lists all services: a program of NFS has the addresses for TCP and RDMA, a small program those for MOUNT. Without an
// address for MOUNT, clients reach the small programs at the addresses for NFS over TCP.
class ServiceTable {
 public:
  // `reachable`: where clients reach the server. It has IPv4 addresses for sockets of IPv6 that accept IPv4.
  explicit ServiceTable(Addresses reachable) : reachable_(std::move(reachable)) {}
  void AddNfs(const rpc::Program& program);
  void AddBeside(const rpc::Program& program);
  // Several services may have the same program, version and network, with other addresses.
  std::vector<rpcbind::Service> Take() { return std::move(services_); }

 private:
  void Add(const rpc::Program& program, rpc::TransportKind transport, const std::vector<SocketAddress>& addresses);

  const Addresses reachable_;
  std::vector<rpcbind::Service> services_;
};

// Reduces the services to one for each program, version and network, since rpcbind has no more. If all addresses have
// the same port, rpcbind gets the unspecified address: it then tells each client the address to which the client has
// sent its question. Otherwise it gets the first address that other hosts can reach, or the first one.
std::vector<rpcbind::Service> OnePerNetwork(const std::vector<rpcbind::Service>& services);

// The thread that owns the server calls all functions, unless they say otherwise.
class Discovery {
 public:
  // `options` must outlive this.
  explicit Discovery(const Options& options) : options_(options) {}

  // Registers the services, or listens on the port of the port mapper. `services` may have several addresses for one
  // network. `addresses`: where the server listens. The services are not served yet. Blocks for some
  // seconds if rpcbind hangs. The error is for the operator.
  SetupResult<void> Start(std::vector<rpcbind::Service> services, const Addresses& addresses, ServingLoop& loop);
  // On the loop: from now on looks now and then whether rpcbind was started again, on the pool.
  void KeepRegistered(Loop& loop, Workers& pool);
  // On the loop: no longer looks.
  void StopLooking() { timer_.reset(); }
  // Whether clients can find the ports: the server has a port mapper, or has registered all services.
  bool ports_can_be_found() const { return port_mapper2_ || (registrar_ && registrar_->has_all()); }
  // Whether another program is the status monitor (NSM) of this host, and can tell the server's lock manager of
  // restarts. Any thread.
  bool has_other_monitor() const { return has_other_monitor_; }
  // Removes the registrations. Blocks like Start(). Clients that know a port are not affected.
  void Withdraw();

 private:
  SetupResult<void> ServePortMapper(std::vector<rpcbind::Service> services, const Addresses& addresses,
                                    ServingLoop& loop);
  void LookForOtherMonitor();

  const Options& options_;
  std::unique_ptr<rpcbind::Registrar> registrar_;  // null if the server does not register
  std::unique_ptr<Timer> timer_;
  std::atomic<bool> is_looking_ = false;
  std::atomic<bool> has_other_monitor_ = false;
  bool hears_loopback_ = false;    // the lock manager, over UDP at 127.0.0.1
  std::string heard_at_;           // where the lock manager hears UDP instead
  bool told_unreachable_ = false;  // that the other monitor cannot reach it
  // These are set if the server has a port mapper.
  std::vector<rpcbind::Service> services_;
  std::unique_ptr<rpcbind::PortMapper2> port_mapper2_;
  std::unique_ptr<rpcbind::PortMapper4> port_mapper4_;
  rpc::Dispatcher port_mappers_;
};

}  // namespace penstock::server
