// A program that the server offers, as clients find it: by program number, version and network.
#pragma once

#include <cstdint>
#include <string>

#include "base/address.h"
#include "rpc/universal_address.h"

namespace penstock::rpcbind {

struct Service {
  uint32_t program = 0;
  uint32_t version = 0;
  rpc::Netid netid;
  // The address is unspecified if the service listens on all addresses.
  SocketAddress address;

  bool operator==(const Service&) const = default;
};

// For people: "NFS (program 100003)", or "program 4711" for a program without a known name.
std::string DescribeProgram(uint32_t program);

}  // namespace penstock::rpcbind
