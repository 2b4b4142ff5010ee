// A work request of a send queue, from the call that posts it until its completion. A Send, Write, Read or Invalidate
// of an endpoint becomes a WorkRequest, and RequestBuilder makes the adapter's own structure from it.
#pragma once

#include <infiniband/verbs.h>

#include <memory>
#include <vector>

#include "rdma/endpoint.h"

namespace penstock::rdma::verbs {

struct ExposedRegion;

struct WorkRequest {
  Operation operation = Operation::kSend;
  Context context = 0;
  bool silent = false;  // gives no completion: the driver's own request, or a part of a posted one that is not the last
  ibv_wr_opcode opcode = IBV_WR_SEND;
  bool solicited = false;
  Gather gather;                          // Send and Write: the message
  RemoteSegment remote;                   // Send with Invalidate: has only the steering tag
  Bytes local;                            // Read: the sink; window binding: the memory
  BufferRef owner;                        // keeps `local` alive
  Access access = Access::kRemoteRead;    // window binding: the access of the peer
  std::shared_ptr<ExposedRegion> region;  // window binding and invalidation
  std::vector<ibv_mr*> registrations;     // made for this request alone; deregistered at its completion
};

// Convert a request that an endpoint's owner has posted. The empty pieces of a Write are left out.
WorkRequest ToWorkRequest(SendRequest request);
WorkRequest ToWorkRequest(WriteRequest request);
WorkRequest ToWorkRequest(ReadRequest request);

// Splits a Write with too many pieces for one work request into consecutive Writes. Only the last one gives a
// completion.
std::vector<WorkRequest> SplitWrite(WorkRequest write, size_t max_pieces);

}  // namespace penstock::rdma::verbs
