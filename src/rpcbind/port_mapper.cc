#include "rpcbind/port_mapper.h"

#include <unistd.h>

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include "base/host.h"
#include "protocol/rpcb.h"
#include "rpc/handle.h"

namespace penstock::rpcbind {

using namespace pmap;  // NOLINT: the protocol's own names, RFC 1833
using rpc::TransportKind;

namespace {

// Version 2 knows the transports by their protocol numbers. Returns 0 for the networks that it does not have.
uint32_t ProtocolOf(const rpc::Netid& netid) {
  if (netid.v6) return 0;
  if (netid.transport == TransportKind::kTcp) return IPPROTO_TCP_NUMBER;
  return netid.transport == TransportKind::kUdp ? IPPROTO_UDP_NUMBER : 0;
}

// Finds the service for which `has_network` is true. Prefers the version; without it, any version serves, unless
// `exact`. Among several addresses it prefers `local`, by which the client has reached this host, and then the
// unspecified one.
template <class HasNetwork>
const Service* Find(const std::vector<Service>& services, const IpAddress& local, uint32_t program, uint32_t version,
                    bool exact, HasNetwork has_network) {
  const Service* found = nullptr;
  auto best = std::pair(false, 0);
  for (const Service& each : services) {
    if (each.program != program || !has_network(each.netid)) continue;
    const bool has_version = each.version == version;
    if (!has_version && exact) continue;
    const IpAddress address = each.address.address();
    const auto rank = std::pair(has_version, address == local ? 2 : address.is_unspecified() ? 1 : 0);
    if (found && rank <= best) continue;
    found = &each;
    best = rank;
  }
  return found;
}

}  // namespace

std::string Owner() { return ::geteuid() == 0 ? "superuser" : std::to_string(::geteuid()); }

// ---- version 2 ----

uint32_t PortMapper2::number() const { return PMAP_PROG; }
rpc::VersionRange PortMapper2::versions() const { return {.low = PMAP_VERS, .high = PMAP_VERS}; }

// RFC 1833 §3.2. If the program is offered in other versions only, returns the port of one of them, as rpcbind does:
// the client then learns the versions from the program.
uint32_t PortMapper2::GetPort(const rpc::Peer& peer, uint32_t program, uint32_t version, uint32_t protocol) const {
  const IpAddress local = Unmapped(peer.local.address());
  const Service* const found = Find(services_, local, program, version, false, [&](const rpc::Netid& netid) {
    return protocol != 0 && ProtocolOf(netid) == protocol;
  });
  return found ? found->address.port() : 0;
}

Task<rpc::AcceptStatus> PortMapper2::Call(rpc::CallContext& context, xdr::Decoder& arguments, xdr::Encoder& results) {
  const auto refuse = [](rpc::CallContext&, const mapping&) { return false; };
  switch (context.procedure) {
    case PMAPPROC_NULL::kNumber:
      return rpc::Handle<PMAPPROC_NULL>(context, arguments, results,
                                        [](rpc::CallContext&, const xdr::Void&) { return xdr::Void(); });
    case PMAPPROC_SET::kNumber:
      return rpc::Handle<PMAPPROC_SET>(context, arguments, results, refuse);
    case PMAPPROC_UNSET::kNumber:
      return rpc::Handle<PMAPPROC_UNSET>(context, arguments, results, refuse);
    case PMAPPROC_GETPORT::kNumber:
      return rpc::Handle<PMAPPROC_GETPORT>(context, arguments, results,
                                           [this](rpc::CallContext& call, const mapping& asked) {
                                             return GetPort(call.peer, asked.prog, asked.vers, asked.prot);
                                           });
    case PMAPPROC_DUMP::kNumber:
      return rpc::Handle<PMAPPROC_DUMP>(context, arguments, results, [this](rpc::CallContext&, const xdr::Void&) {
        pmaplist list;
        std::set<std::tuple<uint32_t, uint32_t, uint32_t, uint16_t>> seen;  // this version knows no addresses
        for (const Service& each : services_) {
          const uint32_t protocol = ProtocolOf(each.netid);
          if (protocol == 0) continue;
          if (!seen.emplace(each.program, each.version, protocol, each.address.port()).second) continue;
          list.push_back({.map = {each.program, each.version, protocol, each.address.port()}});
        }
        return list;
      });
    default:
      return rpc::Refuse(rpc::AcceptStatus::PROC_UNAVAIL);
  }
}

// ---- versions 3 and 4 ----

uint32_t PortMapper4::number() const { return PMAP_PROG; }
rpc::VersionRange PortMapper4::versions() const { return {.low = RPCBVERS, .high = RPCBVERS4}; }

// RFC 1833 §2.2.1: the network is that of the call, whatever the call names.
std::string PortMapper4::GetAddress(const rpc::Peer& peer, uint32_t program, uint32_t version, bool exact) const {
  const IpAddress local = Unmapped(peer.local.address());
  const rpc::Netid asked{.transport = peer.transport, .v6 = local.is_v6()};
  const Service* const found =
      Find(services_, local, program, version, exact, [&](const rpc::Netid& netid) { return netid == asked; });
  if (!found) return {};
  // A service at all addresses of this host is also at the one that the client has reached.
  SocketAddress address = found->address;
  if (address.address().is_unspecified()) address.address(local);
  return rpc::UniversalAddress(address);
}

Task<rpc::AcceptStatus> PortMapper4::Look(const rpc::CallContext& context, xdr::Decoder& arguments,
                                          xdr::Encoder& results, bool exact) const {
  pmap::rpcb asked;
  if (!xdr::Decode(arguments, asked) || !arguments.Finish()) co_return rpc::AcceptStatus::GARBAGE_ARGS;
  xdr::Encode(results, uaddr(GetAddress(context.peer, asked.r_prog, asked.r_vers, exact)));
  co_return rpc::AcceptStatus::SUCCESS;
}

Task<rpc::AcceptStatus> PortMapper4::Dump(xdr::Decoder& arguments, xdr::Encoder& results) const {
  if (!arguments.Finish()) co_return rpc::AcceptStatus::GARBAGE_ARGS;
  for (const Service& each : services_) {
    const std::string address = rpc::UniversalAddress(each.address);
    const pmap::rpcb entry{.r_prog = each.program,
                           .r_vers = each.version,
                           .r_netid = rpc::ToString(each.netid),
                           .r_addr = address,
                           .r_owner = owner_};
    results.Bool(true);
    xdr::Encode(results, entry);
  }
  results.Bool(false);
  co_return rpc::AcceptStatus::SUCCESS;
}

Task<rpc::AcceptStatus> PortMapper4::Call(rpc::CallContext& context, xdr::Decoder& arguments, xdr::Encoder& results) {
  // The procedures of version 4 have the numbers, arguments and results of version 3.
  const auto refuse = [](rpc::CallContext&, const pmap::rpcb&) { return false; };
  switch (context.procedure) {
    case RPCBPROC_NULL::kNumber:
      return rpc::Handle<RPCBPROC_NULL>(context, arguments, results,
                                        [](rpc::CallContext&, const xdr::Void&) { return xdr::Void(); });
    case RPCBPROC_SET::kNumber:
      return rpc::Handle<RPCBPROC_SET>(context, arguments, results, refuse);
    case RPCBPROC_UNSET::kNumber:
      return rpc::Handle<RPCBPROC_UNSET>(context, arguments, results, refuse);
    case RPCBPROC_GETADDR::kNumber:
      return Look(context, arguments, results, false);
    case RPCBPROC_DUMP::kNumber:
      return Dump(arguments, results);
    case RPCBPROC_GETTIME::kNumber:
      return rpc::Handle<RPCBPROC_GETTIME>(context, arguments, results,
                                           [this](rpc::CallContext&, const xdr::Void&) { return time_(); });
    case RPCB4PROC_GETVERSADDR::kNumber:
      if (context.version < RPCBVERS4) return rpc::Refuse(rpc::AcceptStatus::PROC_UNAVAIL);
      return Look(context, arguments, results, true);
    default:
      return rpc::Refuse(rpc::AcceptStatus::PROC_UNAVAIL);
  }
}

}  // namespace penstock::rpcbind
