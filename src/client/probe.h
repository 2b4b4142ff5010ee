// What a client can find out about a host without rights: which programs answer at which ports, and what they can do.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/loop.h"
#include "base/result.h"
#include "base/workers.h"
#include "client/mount_lists.h"
#include "client/url.h"
#include "rdma/provider.h"

namespace penstock::client {

// An entry of the host's rpcbind.
struct RegisteredProgram {
  uint32_t program = 0;
  uint32_t version = 0;
  std::string netid{};  // "tcp", "udp6", ...
  uint16_t port = 0;
  auto operator<=>(const RegisteredProgram&) const = default;
};

// A program that answers NULL calls, with the versions that do: "3", "4.1".
struct AnsweringProgram {
  uint32_t program = 0;
  std::string name{};
  std::vector<std::string> versions{};
};

// What the private data of RPC-over-RDMA says (RFC 8797).
struct RdmaFacts {
  uint32_t server_receives = 0;  // octets of the longest Send that the server takes
  uint32_t server_sends = 0;
  bool remote_invalidation = false;
};

struct PortReport {
  uint16_t port = 0;
  bool is_rdma = false;
  std::string error{};               // why there is no connection; empty: there is one
  std::optional<std::string> tls{};  // over TCP: what TLS offers, or why it fails; absent: the server has no TLS
  std::optional<RdmaFacts> rdma{};
  std::vector<AnsweringProgram> programs{};
};

struct ExportReport {
  ExportEntry entry;
  std::vector<std::string> flavors{};  // names
  std::string error{};                 // why the flavors are not known
};

struct HostReport {
  std::string host{};
  std::vector<std::string> addresses{};
  std::string rpcbind_error{};
  std::vector<RegisteredProgram> registered{};
  std::vector<PortReport> ports{};
  std::string exports_error{};
  std::vector<ExportReport> exports{};

  // The ports that have NFS over this transport.
  const PortReport* NfsPort(bool is_rdma) const;
};

struct ProbeOptions {
  uint16_t rdma_port = 20049;
  // The client does not ask rpcbind.
  bool skip_rpcbind = false;
};

// Examines the host of `url`: its rpcbind, the usual ports and those that rpcbind and the URL name, and the exports.
// The error says that the host has no address. `loop`, `workers` and `provider` outlive the call.
Task<SetupResult<HostReport>> ProbeHost(Loop& loop, Workers& workers, const Url& url, rdma::Provider& provider,
                                        ProbeOptions options = {});

// For people: "NFS", or "program 4711" for a program without a known name.
std::string DescribeProgram(uint32_t program);

// Returns the command lines that would mount an export of the host, of the kernel's client and of Penstock.
std::vector<std::string> MountLines(const HostReport& report);

}  // namespace penstock::client
