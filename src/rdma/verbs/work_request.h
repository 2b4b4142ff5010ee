// A work request of a send queue, from the call that posts it until its completion. It is what an endpoint's Send,
// Write, Read and Invalidate become before RequestBuilder makes the adapter's own structure from it.
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
  Gather gather;                          // of a Send or Write
  RemoteSegment remote;                   // of a Send with Invalidate only the steering tag
  Bytes local;                            // of a Read: its sink; of a window binding: the memory
  BufferRef owner;                        // keeps `local` alive
  Access access = Access::kRemoteRead;    // of a window binding
  std::shared_ptr<ExposedRegion> region;  // of a window binding or invalidation
  std::vector<ibv_mr*> registrations;     // made for this request alone; deregistered at its completion
};

// The context, opcode and data of a request that an endpoint's owner has posted. A Write loses its empty pieces.
WorkRequest ToWorkRequest(SendRequest request);
WorkRequest ToWorkRequest(WriteRequest request);
WorkRequest ToWorkRequest(ReadRequest request);

// Splits a Write with too many pieces for one work request into consecutive Writes. Only the last one gives a
// completion.
std::vector<WorkRequest> SplitWrite(WorkRequest write, size_t max_pieces);

}  // namespace penstock::rdma::verbs
