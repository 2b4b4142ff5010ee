#include "server/discovery.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <tuple>
#include <utility>

#include "base/log.h"
#include "protocol/nlm4.h"
#include "protocol/nsm.h"
#include "server/listeners.h"
#include "server/wall_clock.h"

namespace penstock::server {
namespace {

using rpc::TransportKind;

// How often the server looks whether rpcbind was started again.
constexpr Duration kLookInterval = std::chrono::seconds(10);

// Whether other hosts can reach the address.
bool IsPublic(const SocketAddress& address) { return !address.address().is_loopback(); }

}  // namespace

void ServiceTable::AddNfs(const rpc::Program& program) {
  Add(program, TransportKind::kTcp, reachable_.tcp);
  Add(program, TransportKind::kRdma, reachable_.rdma);
}

void ServiceTable::AddBeside(const rpc::Program& program) {
  Add(program, TransportKind::kUdp, reachable_.mount);
  Add(program, TransportKind::kTcp, reachable_.mount.empty() ? reachable_.tcp : reachable_.mount);
}

void ServiceTable::Add(const rpc::Program& program, TransportKind transport,
                       const std::vector<SocketAddress>& addresses) {
  const rpc::VersionRange versions = program.versions();
  for (uint32_t version = versions.low; version <= versions.high; ++version) {
    for (const SocketAddress& each : addresses) {
      services_.push_back({.program = program.number(),
                           .version = version,
                           .netid = {.transport = transport, .v6 = each.address().is_v6()},
                           .address = each});
    }
  }
}

std::vector<rpcbind::Service> OnePerNetwork(const std::vector<rpcbind::Service>& services) {
  std::vector<rpcbind::Service> reduced;
  for (const rpcbind::Service& each : services) {
    const auto same = std::ranges::find_if(reduced, [&](const rpcbind::Service& other) {
      return std::tie(other.program, other.version) == std::tie(each.program, each.version) &&
             other.netid == each.netid;
    });
    if (same == reduced.end()) {
      reduced.push_back(each);
    } else if (same->address.port() == each.address.port()) {
      const IpAddress any = each.netid.v6 ? IpAddress(asio::ip::address_v6::any()) : asio::ip::address_v4::any();
      // Loopback addresses alone stay loopback addresses.
      if (IsPublic(same->address) || IsPublic(each.address)) same->address.address(any);
    } else if (!IsPublic(same->address) && IsPublic(each.address)) {
      same->address = each.address;
    }
  }
  return reduced;
}

SetupResult<void> Discovery::Start(std::vector<rpcbind::Service> services, const Addresses& addresses,
                                   ServingLoop& loop) {
  if (options_.port_mapper) return ServePortMapper(std::move(services), addresses, loop);
  if (options_.rpcbind == Registration::kOff) return {};
  std::vector<rpcbind::Service> reduced = OnePerNetwork(services);
  if (options_.rpcbind == Registration::kAuto) {
    // rpcbind answers clients on other hosts, too, and they cannot reach the server at its loopback addresses.
    std::erase_if(reduced, [](const rpcbind::Service& each) { return !IsPublic(each.address); });
    if (reduced.empty()) {
      log::debug("not registered with rpcbind: the server listens on loopback addresses only");
      return {};
    }
  }
  for (const rpcbind::Service& each : services) {
    const IpAddress& address = each.address.address();
    if (each.program != nlm4::NLM4_PROGRAM || each.netid != rpc::Netid{.transport = TransportKind::kUdp}) continue;
    const bool is_registered = std::ranges::any_of(reduced, [&](const rpcbind::Service& other) {
      return other.program == each.program && other.netid == each.netid && other.address.port() == each.address.port();
    });
    if (address.is_unspecified() || address == asio::ip::address_v4::loopback()) hears_loopback_ |= is_registered;
    if (heard_at_.empty()) heard_at_ = address.to_string();
  }
  services = std::move(reduced);
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
        "{}: their locks of versions 2 and 3 stay. Listen on 127.0.0.1 as well, or stop rpc.statd",
        heard_at_.empty() ? "an address of IPv6" : heard_at_);
  }
  has_other_monitor_ = exists && hears_loopback_;
}

SetupResult<void> Discovery::ServePortMapper(std::vector<rpcbind::Service> services, const Addresses& addresses,
                                             ServingLoop& loop) {
  std::vector<SocketAddress> endpoints;
  for (const IpAddress& each : HostAddressesOf(addresses)) endpoints.emplace_back(each, options_.port_mapper_port);
  auto sockets = OpenServiceSockets(endpoints);
  if (!sockets) {
    return std::unexpected(SetupError{fmt::format(
        "--portmap: {}. If rpcbind runs on this host, leave out --portmap: the server registers with rpcbind",
        sockets.error().message)});
  }
  services_ = std::move(services);
  port_mapper2_ = std::make_unique<rpcbind::PortMapper2>(services_);
  port_mapper4_ = std::make_unique<rpcbind::PortMapper4>(services_, rpcbind::Owner(),
                                                         [] { return static_cast<uint32_t>(SecondsSince1970()); });
  port_mappers_.Add(*port_mapper2_);
  port_mappers_.Add(*port_mapper4_);
  Addresses reachable;
  for (const rpc::tcp::Listener& each : sockets->tcp) {
    std::ranges::copy(ReachableAt(each), std::back_inserter(reachable.mount));
  }
  ServiceTable own(std::move(reachable));
  own.AddBeside(*port_mapper2_);
  own.AddBeside(*port_mapper4_);
  for (const rpcbind::Service& each : own.Take()) services_.push_back(each);
  for (const rpc::tcp::Listener& each : sockets->tcp) PENSTOCK_CHECK(loop.ServeStreams(port_mappers_, each));
  for (rpc::udp::Listener& each : sockets->udp) PENSTOCK_CHECK(loop.ServeDatagrams(port_mappers_, std::move(each)));
  return {};
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
