// The port mapper as RPC programs (RFC 1833), for hosts where no rpcbind runs: clients ask it for the ports of this
// server's programs. It answers from a table that does not change, which may have several addresses of one program: a
// client learns the one at which it reaches this host. SET and UNSET are refused. There are no calls on
// behalf of others (CALLIT, BCAST, INDIRECT): they would let anybody call the server's programs in this host's name.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "rpc/dispatch.h"
#include "rpcbind/service.h"

namespace penstock::rpcbind {

// Version 2: the ports of TCP and UDP over IPv4. Thread-safe.
class PortMapper2 final : public rpc::Program {
 public:
  // `services` must outlive the program, and must not change.
  explicit PortMapper2(const std::vector<Service>& services) : services_(services) {}

  uint32_t number() const override;
  rpc::VersionRange versions() const override;
  // All procedures are idempotent.
  rpc::Classification Classify(rpc::CallContext& /*context*/, xdr::Decoder& /*arguments*/) const override { return {}; }
  Task<rpc::AcceptStatus> Call(rpc::CallContext& context, xdr::Decoder& arguments, xdr::Encoder& results) override;

 private:
  uint32_t GetPort(const rpc::Peer& peer, uint32_t program, uint32_t version, uint32_t protocol) const;

  const std::vector<Service>& services_;
};

// Versions 3 and 4: universal addresses of all networks. Thread-safe.
class PortMapper4 final : public rpc::Program {
 public:
  // `services` must outlive the program, and must not change. `owner` is the name of the user who offers them, see
  // Owner(). `time` returns the seconds since 1970 (RPCBPROC_GETTIME).
  PortMapper4(const std::vector<Service>& services, std::string owner, std::function<uint32_t()> time)
      : services_(services), owner_(std::move(owner)), time_(std::move(time)) {}

  uint32_t number() const override;
  rpc::VersionRange versions() const override;
  // All procedures are idempotent.
  rpc::Classification Classify(rpc::CallContext& /*context*/, xdr::Decoder& /*arguments*/) const override { return {}; }
  Task<rpc::AcceptStatus> Call(rpc::CallContext& context, xdr::Decoder& arguments, xdr::Encoder& results) override;

 private:
  // Returns an empty text if the program is not offered. If it is offered in other versions only, returns one of them
  // unless `exact`: the client then learns the versions from the program.
  std::string GetAddress(const rpc::Peer& peer, uint32_t program, uint32_t version, bool exact) const;
  Task<rpc::AcceptStatus> Look(const rpc::CallContext& context, xdr::Decoder& arguments, xdr::Encoder& results,
                               bool exact) const;
  Task<rpc::AcceptStatus> Dump(xdr::Decoder& arguments, xdr::Encoder& results) const;

  const std::vector<Service>& services_;
  const std::string owner_;
  const std::function<uint32_t()> time_;
};

// The owner of this process's registrations: "superuser" or a user id, as rpcbind writes it.
std::string Owner();

}  // namespace penstock::rpcbind
