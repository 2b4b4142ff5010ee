// Makes the adapter's work requests from ours: finds or makes the registration of each piece of memory, copies where
// that is cheaper or the adapter takes fewer pieces, and fills in libibverbs' structures. Posts nothing.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <vector>

#include "base/buffer.h"
#include "rdma/verbs/memory_registrar.h"
#include "rdma/verbs/traits.h"
#include "rdma/verbs/work_request.h"

namespace penstock::rdma::verbs {

class RequestBuilder {
 public:
  // All arguments must outlive the last call of Build().
  RequestBuilder(const Traits& traits, MemoryRegistrar& registrar, BufferPool& buffers)
      : traits_(traits), registrar_(registrar), buffers_(buffers) {}

  // The adapter copies messages up to this size into the request itself, so their memory needs no registration.
  void set_max_inline(uint32_t octets) { max_inline_ = octets; }

  // Fills in everything but wr_id, next and IBV_SEND_SIGNALED. `pieces` receives the scatter/gather list that `request`
  // points to. `work` then holds the copies and registrations that must last until the completion. Returns false if
  // memory cannot be registered (errno).
  bool Build(WorkRequest& work, ibv_send_wr& request, std::vector<ibv_sge>& pieces);

 private:
  bool BuildBinding(WorkRequest& work, ibv_send_wr& request);
  void CopyIntoOnePiece(Gather& gather, size_t size);
  bool AddPieces(WorkRequest& work, std::vector<ibv_sge>& pieces);
  bool AddSink(WorkRequest& work, std::vector<ibv_sge>& pieces);
  uint32_t LocalKeyOf(WorkRequest& work, Data& data);

  const Traits& traits_;
  MemoryRegistrar& registrar_;
  BufferPool& buffers_;
  uint32_t max_inline_ = 0;
};

}  // namespace penstock::rdma::verbs
