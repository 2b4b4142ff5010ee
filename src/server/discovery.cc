#include "server/discovery.h"

#include <fmt/core.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/log.h"
#include "protocol/nlm4.h"
#include "protocol/nsm.h"
#include "rpc/udp/datagrams.h"
#include "server/wall_clock.h"

namespace penstock::server {
namespace {

using rpc::TransportKind;

// How often the server looks whether rpcbind was started again.
constexpr Duration kLookInterval = std::chrono::seconds(10);

// Whether a socket that listens on all IPv6 addresses accepts IPv4 as well.
bool AcceptsIpv4(int socket) {
  int only_v6 = 1;
  socklen_t size = sizeof only_v6;
  ::getsockopt(socket, IPPROTO_IPV6, IPV6_V6ONLY, &only_v6, &size);
  return only_v6 == 0;
}

}  // namespace

ServiceTable::ServiceTable(const Ports& ports) : ports_(ports) {
  const IpAddress listen = ports.tcp.local().address();
  addresses_.push_back(listen);
  if (listen.is_v6() && listen.is_unspecified() && AcceptsIpv4(ports.tcp.fd())) {
    addresses_.insert(addresses_.begin(), asio::ip::address_v4::any());
  }
}

void ServiceTable::AddNfs(const rpc::Program& program) {
  Add(program, TransportKind::kTcp, ports_.tcp.local().port());
  Add(program, TransportKind::kRdma, ports_.rdma);
}

void ServiceTable::AddBeside(const rpc::Program& program) {
  Add(program, TransportKind::kUdp, ports_.mount);
  Add(program, TransportKind::kTcp, ports_.mount);
}

void ServiceTable::Add(const rpc::Program& program, TransportKind transport, uint16_t port) {
  const rpc::VersionRange versions = program.versions();
  for (uint32_t version = versions.low; version <= versions.high; ++version) {
    for (const IpAddress& address : addresses_) {
      services_.push_back({.program = program.number(),
                           .version = version,
                           .netid = {.transport = transport, .v6 = address.is_v6()},
                           .address = SocketAddress(address, port)});
    }
  }
}

SetupResult<void> Discovery::Start(std::vector<rpcbind::Service> services, ServingLoop& loop) {
  if (options_.port_mapper) return ServePortMapper(std::move(services), loop);
  if (options_.rpcbind == Registration::kOff) return {};
  if (options_.rpcbind == Registration::kAuto && options_.listen.is_loopback()) {
    // rpcbind answers clients on other hosts, too, and they cannot reach the server.
    log::debug("not registered with rpcbind: the server listens on {} only", options_.listen.to_string());
    return {};
  }
  hears_loopback_ = std::ranges::any_of(services, [](const rpcbind::Service& each) {
    const IpAddress& address = each.address.address();
    return each.program == nlm4::NLM4_PROGRAM && each.netid.transport == TransportKind::kUdp && !each.netid.v6 &&
           (address.is_unspecified() || address == asio::ip::address_v4::loopback());
  });
  rpcbind::Registrar::Options with;
  with.may_be_elsewhere = {nsm::SM_PROG};  // see nfs::nlm::LocalMonitor
  registrar_ = std::make_unique<rpcbind::Registrar>(std::move(services), std::move(with));
  if (options_.rpcbind == Registration::kRequired) {
    auto registered = registrar_->Require();
    if (!registered) {
      registrar_->Withdraw();
      registered.error().message.insert(0, "--rpcbind required: ");
      return registered;
    }
  } else {
    registrar_->Refresh();
  }
  LookForOtherMonitor();
  return {};
}

void Discovery::LookForOtherMonitor() {
  using Place = rpcbind::Registrar::Place;
  const Place monitor = registrar_->PlaceOf(nsm::SM_PROG);
  if (monitor == Place::kUnknown) return;
  // It finds the lock manager by rpcbind.
  const bool exists = monitor == Place::kElsewhere && registrar_->PlaceOf(nlm4::NLM4_PROGRAM) == Place::kHere;
  if (exists && !hears_loopback_ && !std::exchange(told_unreachable_, true)) {
    log::warn(
        "hosts that start again tell the status monitor of this host (rpc.statd), which speaks to 127.0.0.1 and not to "
        "{}: their locks of versions 2 and 3 stay. Listen on all addresses, or stop rpc.statd",
        options_.listen.to_string());
  }
  has_other_monitor_ = exists && hears_loopback_;
}

SetupResult<void> Discovery::ServePortMapper(std::vector<rpcbind::Service> services, ServingLoop& loop) {
  const SocketAddress endpoint(options_.listen, options_.port_mapper_port);
  auto tcp = rpc::tcp::Listener::Open(endpoint);
  auto udp = tcp ? rpc::udp::Listener::Open(tcp->local()) : std::unexpected(tcp.error());
  if (!udp) {
    return std::unexpected(SetupError{fmt::format(
        "--portmap: {}. If rpcbind runs on this host, leave out --portmap: the server registers with rpcbind",
        udp.error().message)});
  }
  services_ = std::move(services);
  port_mapper2_ = std::make_unique<rpcbind::PortMapper2>(services_);
  port_mapper4_ = std::make_unique<rpcbind::PortMapper4>(services_, rpcbind::Owner(),
                                                         [] { return static_cast<uint32_t>(SecondsSince1970()); });
  port_mappers_.Add(*port_mapper2_);
  port_mappers_.Add(*port_mapper4_);
  ServiceTable own({.tcp = *tcp, .mount = tcp->local().port()});
  own.AddBeside(*port_mapper2_);
  own.AddBeside(*port_mapper4_);
  for (const rpcbind::Service& each : own.Take()) services_.push_back(each);
  PENSTOCK_CHECK(loop.ServeStreams(port_mappers_, *tcp));
  return loop.ServeDatagrams(port_mappers_, *std::move(udp));
}

void Discovery::KeepRegistered(Loop& loop, Workers& pool) {
  if (!registrar_) return;
  timer_ = loop.MakeTimer([this, &pool] {
    timer_->ExpireAfter(kLookInterval);
    if (is_looking_.exchange(true)) return;
    pool.Post([this] {
      registrar_->Refresh();
      LookForOtherMonitor();
      is_looking_ = false;
    });
  });
  timer_->ExpireAfter(kLookInterval);
}

void Discovery::Withdraw() {
  if (registrar_) registrar_->Withdraw();
}

}  // namespace penstock::server
