// How clients find the ports of the server's programs: by the rpcbind of this host, where the server registers them, or
// by a port mapper of the server's own.
#pragma once

#include <atomic>
#include <memory>
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

// The ports on which the server listens.
struct Ports {
  const rpc::tcp::Listener& tcp;
  uint16_t rdma = 0;
  uint16_t mount = 0;  // for TCP and UDP
};

// Lists all services: a program of NFS has the ports for TCP and RDMA, a small program that for MOUNT.
class ServiceTable {
 public:
  explicit ServiceTable(const Ports& ports);
  void AddNfs(const rpc::Program& program);
  void AddBeside(const rpc::Program& program);
  std::vector<rpcbind::Service> Take() { return std::move(services_); }

 private:
  void Add(const rpc::Program& program, rpc::TransportKind transport, uint16_t port);

  // One address for each version of IP that clients may use.
  std::vector<IpAddress> addresses_;
  const Ports ports_;
  std::vector<rpcbind::Service> services_;
};

// The thread that owns the server calls all functions, unless they say otherwise.
class Discovery {
 public:
  // `options` must outlive this.
  explicit Discovery(const Options& options) : options_(options) {}

  // Registers the services, or listens on the port of the port mapper. The services are not served yet. Blocks for some
  // seconds if rpcbind hangs. The error is for the operator.
  SetupResult<void> Start(std::vector<rpcbind::Service> services, ServingLoop& loop);
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
  SetupResult<void> ServePortMapper(std::vector<rpcbind::Service> services, ServingLoop& loop);
  void LookForOtherMonitor();

  const Options& options_;
  std::unique_ptr<rpcbind::Registrar> registrar_;  // null if the server does not register
  std::unique_ptr<Timer> timer_;
  std::atomic<bool> is_looking_ = false;
  std::atomic<bool> has_other_monitor_ = false;
  bool hears_loopback_ = false;    // the lock manager, over UDP at 127.0.0.1
  bool told_unreachable_ = false;  // that the other monitor cannot reach it
  // These are set if the server has a port mapper.
  std::vector<rpcbind::Service> services_;
  std::unique_ptr<rpcbind::PortMapper2> port_mapper2_;
  std::unique_ptr<rpcbind::PortMapper4> port_mapper4_;
  rpc::Dispatcher port_mappers_;
};

}  // namespace penstock::server
