// What a host tells about its RDMA connections (include/penstock/provider.h), on its way from a thread of the host to
// the loop of the connection.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/address.h"
#include "penstock/provider.h"
#include "rdma/endpoint.h"

namespace penstock::library {

// The other side of a connection: penstock_rdma_peer.
struct PeerFacts {
  SocketAddress local;
  SocketAddress peer;
  std::vector<std::byte> private_data;
  std::optional<rdma::ReadDepths> depths;
};

// The end of a connection: penstock_rdma_end.
struct EndFacts {
  penstock_rdma_reason reason = PENSTOCK_RDMA_RESET;
  std::string detail;  // printable
  uint64_t request = 0;
  std::vector<std::byte> private_data;
};

struct Event {
  // A peer asks for this connection, which the host names `endpoint`.
  struct Requested {
    uint64_t listener = 0;  // the listener of the loop
    void* endpoint = nullptr;
    std::unique_ptr<PeerFacts> peer;
    std::shared_ptr<void> place;  // counts as a waiting peer while it lives
  };
  struct Connected {
    std::unique_ptr<PeerFacts> peer;  // null after an Accept()
  };
  struct Received {
    uint64_t request = 0;
    size_t length = 0;
    std::optional<rdma::Stag> invalidated;
    bool solicited = false;
  };
  struct Completed {
    uint64_t request = 0;
  };
  struct Ended {
    std::unique_ptr<EndFacts> end;
  };

  uint64_t connection = 0;
  std::variant<Requested, Connected, Received, Completed, Ended> what;
};

}  // namespace penstock::library
