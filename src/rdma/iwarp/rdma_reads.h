// The RDMA Reads of one RDMAP Stream that are not complete yet, in both directions. A Read concerns both halves of the
// stream: one sends the Read Request and the other places the response. Inbound and Outbound share only these queues,
// so that neither half depends on the other.
#pragma once

#include <cstdint>

#include "base/buffer.h"
#include "rdma/endpoint.h"
#include "rdma/fifo.h"
#include "rdma/iwarp/ddp_header.h"

namespace penstock::rdma::iwarp {

// A Read of this side whose Read Request is sent and whose response is not complete.
struct OutstandingRead {
  Context context = 0;
  bool internal = false;  // the readiness indication: has no completion
  Stag sink_stag;
  Bytes sink;
  BufferRef owner;  // keeps `sink` alive
  uint32_t size = 0;
  uint32_t received = 0;
};

struct RdmaReads {
  // The peer's Read Requests in the order of their responses. Inbound checks and adds them, Outbound removes a request
  // when the whole response is in segments.
  Fifo<ReadRequestHeader> requested;
  // Reads of this side in the order of their requests. Outbound adds a Read when it sends the request, Inbound removes
  // it when the response is complete.
  Fifo<OutstandingRead> outstanding;
};

}  // namespace penstock::rdma::iwarp
