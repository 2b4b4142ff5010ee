#include "rdma/verbs/work_request.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace penstock::rdma::verbs {

WorkRequest ToWorkRequest(SendRequest request) {
  WorkRequest work;
  work.context = request.context;
  work.opcode = request.invalidate ? IBV_WR_SEND_WITH_INV : IBV_WR_SEND;
  work.remote.stag = request.invalidate.value_or(Stag());
  work.solicited = request.solicited;
  work.gather = std::move(request.gather);
  return work;
}

WorkRequest ToWorkRequest(WriteRequest request) {
  WorkRequest work;
  work.operation = Operation::kWrite;
  work.context = request.context;
  work.opcode = IBV_WR_RDMA_WRITE;
  work.gather = std::move(request.gather);
  work.remote = request.remote;
  std::erase_if(work.gather, [](const Data& data) { return data.empty(); });
  return work;
}

WorkRequest ToWorkRequest(ReadRequest request) {
  WorkRequest work;
  work.operation = Operation::kRead;
  work.context = request.context;
  work.opcode = IBV_WR_RDMA_READ;
  work.local = request.local;
  work.owner = std::move(request.owner);
  work.remote = request.remote;
  return work;
}

std::vector<WorkRequest> SplitWrite(WorkRequest write, size_t max_pieces) {
  const Gather all = std::move(write.gather);
  std::vector<WorkRequest> parts;
  uint64_t offset = write.remote.offset;
  for (size_t at = 0; at < all.size(); at += max_pieces) {
    const size_t end = std::min(all.size(), at + max_pieces);
    WorkRequest& part = parts.emplace_back();
    part.operation = Operation::kWrite;
    part.context = write.context;
    part.silent = end < all.size();
    part.opcode = IBV_WR_RDMA_WRITE;
    part.gather.assign(all.begin() + static_cast<ptrdiff_t>(at), all.begin() + static_cast<ptrdiff_t>(end));
    part.remote = {write.remote.stag, static_cast<uint32_t>(SizeOf(part.gather)), offset};
    offset += part.remote.length;
  }
  return parts;
}

}  // namespace penstock::rdma::verbs
