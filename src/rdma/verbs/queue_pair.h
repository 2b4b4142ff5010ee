// A reliable queue pair of an adapter with its completion queue: the calls to libibverbs and librdmacm, without any
// decision.
#pragma once

#include <rdma/rdma_cma.h>

#include <memory>
#include <span>

#include "base/result.h"
#include "rdma/verbs/cm.h"
#include "rdma/verbs/device.h"

namespace penstock::rdma::verbs {

class QueuePair {
 public:
  // The queue pair of this connection identifier. Create() makes it.
  explicit QueuePair(std::unique_ptr<CmId> id) : id_(std::move(id)) {}
  ~QueuePair();
  QueuePair(const QueuePair&) = delete;
  QueuePair& operator=(const QueuePair&) = delete;

  // Requires that ReleaseId() was not called.
  CmId& id() { return *id_; }

  // Makes the completion queue and the queue pair. `context` names the user of `device` that receives their events.
  SetupResult<void> Create(Device& device, ibv_pd* pd, const QueueSizes& sizes, QueuePairContext context);
  bool created() const { return id_ && id_->get()->qp; }
  // The adapter copies messages up to this size into the request itself.
  uint32_t max_inline() const { return max_inline_; }

  // Posts a chain of requests. Returns 0 or the value of errno.
  int PostReceives(ibv_recv_wr* first);
  int PostSends(ibv_send_wr* first);
  // Moves completions to `out` and returns their number, or a negative number on failure.
  int Poll(std::span<ibv_wc> out);
  // Asks for an event at the next completion. Completions that are already in the queue give none.
  void RequestEvent();

  // Tells the peer that the connection ends.
  void Disconnect();
  // From now on the adapter refuses requests of the peer, and flushes posted requests.
  void Stop();
  // Afterwards the adapter accesses no memory for this queue pair.
  void Destroy();
  void DestroyCompletionQueue();
  void ReleaseId() { id_.reset(); }

 private:
  std::unique_ptr<CmId> id_;
  QueuePairContext context_;  // the queues point to it
  ibv_cq* completions_ = nullptr;
  uint32_t max_inline_ = 0;
};

}  // namespace penstock::rdma::verbs
