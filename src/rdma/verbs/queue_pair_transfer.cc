// The data path of QueuePairDriver: requests to the adapter, completions from it, and regions.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/log.h"
#include "base/result.h"
#include "rdma/verbs/completion_errors.h"
#include "rdma/verbs/queue_pair_driver.h"

namespace penstock::rdma::verbs {
namespace {

// The requests in one call to the adapter.
constexpr size_t kBatch = 64;
// IB_WC_WITH_INVALIDATE, see Traits::software_roce.
constexpr unsigned kKernelsWithInvalidate = 1u << 2;

// wr_id tells a receive from a request of the send queue by its lowest bit.
uint64_t IdOfReceive(uint64_t number) { return number << 1 | 1; }
uint64_t IdOfRequest(uint64_t number) { return number << 1; }
bool IsReceive(const ibv_wc& wc) { return (wc.wr_id & 1) != 0; }
uint64_t NumberOf(const ibv_wc& wc) { return wc.wr_id >> 1; }

}  // namespace

// ---- requests of the endpoint's owner ----

// Returns true if the connection takes new requests. Otherwise flushes this one.
bool QueuePairDriver::Accepts(Operation operation, Context context) {
  if (state_ == State::kOpen && !failure_) return true;
  completions_.Add(RequestCompletion(operation, context, Status::kFlushed));
  Touch();
  return false;
}

void QueuePairDriver::PostSend(SendRequest request) {
  if (!Accepts(Operation::kSend, request.context)) return;
  if (SizeOf(request.gather) > limits_.max_message) {
    return FailLocally(Operation::kSend, request.context, "the Send is too long");
  }
  Post(ToWorkRequest(std::move(request)));
}

void QueuePairDriver::PostWrite(WriteRequest request) {
  if (!Accepts(Operation::kWrite, request.context)) return;
  if (SizeOf(request.gather) > std::min(limits_.max_transfer, request.remote.length)) {
    return FailLocally(Operation::kWrite, request.context, "the RDMA Write is too long");
  }
  WorkRequest write = ToWorkRequest(std::move(request));
  if (write.gather.size() <= traits_.max_sge) return Post(std::move(write));
  for (WorkRequest& part : SplitWrite(std::move(write), traits_.max_sge)) Post(std::move(part));
}

void QueuePairDriver::PostRead(ReadRequest request) {
  if (!Accepts(Operation::kRead, request.context)) return;
  if (work_queue_.ord() == 0) {
    return FailLocally(Operation::kRead, request.context, "an RDMA Read needs an ORD above 0");
  }
  if (request.remote.length > limits_.max_transfer || request.local.size() != request.remote.length) {
    return FailLocally(Operation::kRead, request.context, "the RDMA Read has a wrong length");
  }
  Post(ToWorkRequest(std::move(request)));
}

void QueuePairDriver::PostReceive(ReceiveRequest request) {
  if (state_ == State::kLost) {
    completions_.Add(RequestCompletion(Operation::kReceive, request.context, Status::kFlushed));
    return Touch();
  }
  AddReceive(request);
  // An owner that handles completions posts many receives: they go to the adapter together at the end of the turn.
  // Otherwise the adapter has the receive when this returns.
  if (!in_turn_ && !failure_ && receive_queue_.due() > 0) PostReceives();
}

std::shared_ptr<ExposedRegion> QueuePairDriver::Register(Bytes memory, Access access) {
  std::shared_ptr<ExposedRegion> region = ExposedRegions::MakeRegion(memory);
  if (state_ == State::kLost || failure_) return region;
  auto bind = regions_.Expose(region, memory, access);
  if (bind) {
    if (*bind) Post(**std::move(bind));
  } else if (bind.error() == ExposedRegions::Error::kCannotRegister) {
    FailToRegister();
  } else {
    Fail(DisconnectReason::kFault, fmt::format("{} has no more memory windows", traits_.name));
  }
  return region;
}

void QueuePairDriver::PostInvalidate(Context context, const std::shared_ptr<ExposedRegion>& region) {
  if (region->valid && ExposedRegions::InvalidatedByRequest(*region)) {
    return Post(ExposedRegions::MakeInvalidation(region, context, /*silent=*/false));
  }
  const bool fenced = !region->valid || Retire(*region);
  completions_.Add(RequestCompletion(Operation::kInvalidate, context, fenced ? Status::kSuccess : Status::kFlushed));
  Touch();
}

void QueuePairDriver::Close(const std::shared_ptr<ExposedRegion>& region) {
  if (!region->valid || region->closing) return;
  if (!ExposedRegions::InvalidatedByRequest(*region)) {
    Retire(*region);
    return;
  }
  Post(ExposedRegions::MakeInvalidation(region, 0, /*silent=*/true));
}

// Fences the memory. If the adapter does not, ends the connection to make sure of it (RFC 8166 §4.5.4) and returns
// false.
bool QueuePairDriver::Retire(ExposedRegion& region) {
  const int error = regions_.Retire(region);
  if (error == 0) return true;
  const std::string why = fmt::format("{} cannot invalidate a memory region: {}", traits_.name, DescribeErrno(error));
  if (!failure_) log::warn("{}", why);
  queue_pair_.Stop();
  Fail(DisconnectReason::kFault, why);
  return false;
}

// ---- to the adapter ----

void QueuePairDriver::Post(WorkRequest work) {
  work_queue_.Add(std::move(work));
  Touch();
}

void QueuePairDriver::PostDue() {
  // Receives first: the peer may send as soon as it reads a reply.
  while (state_ != State::kLost && !failure_ && receive_queue_.due() > 0 && PostReceives()) {
  }
  while (state_ != State::kLost && !failure_ && PostBatch()) {
  }
}

// Posts one chain of receives. Returns false if the connection fails.
bool QueuePairDriver::PostReceives() {
  const size_t count = std::min(receive_queue_.due(), kBatch);
  ibv_recv_wr requests[kBatch] = {};
  ibv_sge pieces[kBatch] = {};
  for (size_t i = 0; i < count; ++i) {
    const ReceiveQueue::Ticket ticket = receive_queue_.Post();
    const Bytes buffer = ticket.receive->buffer->bytes();
    const ibv_mr* registration = domain_->Find(buffer);
    if (!registration) {
      FailToRegister();
      return false;
    }
    pieces[i] = {reinterpret_cast<uintptr_t>(buffer.data()), static_cast<uint32_t>(buffer.size()), registration->lkey};
    requests[i].wr_id = IdOfReceive(ticket.number);
    requests[i].sg_list = &pieces[i];
    requests[i].num_sge = 1;
    requests[i].next = i + 1 < count ? &requests[i + 1] : nullptr;
  }
  if (const int error = queue_pair_.PostReceives(requests)) {
    Fail(DisconnectReason::kFault, "cannot post receives: " + DescribeErrno(error));
    return false;
  }
  return true;
}

// Posts one chain of work requests. Returns false if no request may go now, or if the connection fails.
bool QueuePairDriver::PostBatch() {
  std::vector<WorkRequest> batch = work_queue_.TakeBatch(kBatch);
  if (batch.empty()) return false;
  std::vector<ibv_send_wr> requests(batch.size());
  std::vector<std::vector<ibv_sge>> pieces(batch.size());
  bool built = true;
  for (size_t i = 0; i < batch.size(); ++i) {
    const bool last = i + 1 == batch.size();
    built = built && builder_.Build(batch[i], requests[i], pieces[i]);
    const SendPlaces::Ticket ticket = work_queue_.Post(std::move(batch[i]), last);
    requests[i].wr_id = IdOfRequest(ticket.number);
    if (ticket.signalled) requests[i].send_flags |= IBV_SEND_SIGNALED;
    requests[i].next = last ? nullptr : &requests[i + 1];
  }
  if (!built) {
    FailToRegister();
    return false;
  }
  if (const int error = queue_pair_.PostSends(requests.data())) {
    Fail(DisconnectReason::kFault, "cannot post work requests: " + DescribeErrno(error));
    return false;
  }
  return true;
}

// ---- from the adapter ----

// Handles all completions that the adapter has, and returns their number.
size_t QueuePairDriver::PollAdapter() {
  std::array<ibv_wc, 32> batch;
  size_t total = 0;
  for (;;) {
    const int count = queue_pair_.Poll(batch);
    if (count < 0) {
      Fail(DisconnectReason::kFault, "the completion queue cannot be polled");
      break;
    }
    for (const ibv_wc& wc : std::span(batch).first(static_cast<size_t>(count))) {
      if (IsReceive(wc)) {
        HandleReceived(wc);
      } else {
        HandleSent(wc);
      }
    }
    total += static_cast<size_t>(count);
    if (static_cast<size_t>(count) < batch.size()) break;
  }
  if (failure_) Touch();
  return total;
}

void QueuePairDriver::HandleSent(const ibv_wc& wc) {
  const uint64_t number = NumberOf(wc);
  if (wc.status != IBV_WC_SUCCESS) {
    const auto error = ErrorOfSend(wc.status);
    if (!error) return HandleFlushed();
    if (!failure_) work_queue_.Blame(number, error->status);
    log::debug("{}: request {} failed: {}", traits_.name, number, ::ibv_wc_status_str(wc.status));
    return Fail(error->reason, ::ibv_wc_status_str(wc.status));
  }
  work_queue_.HandleCompleted(number, [this](WorkRequest& work) { Finish(work, Status::kSuccess); });
}

void QueuePairDriver::Finish(WorkRequest& work, Status status) {
  for (ibv_mr* registration : work.registrations) domain_->Deregister(registration);
  work.registrations.clear();
  if (work.opcode == IBV_WR_LOCAL_INV && work.region->valid) Retire(*work.region);
  if (!work.silent) completions_.Add(RequestCompletion(work.operation, work.context, status));
  work.gather.clear();
  work.owner.Reset();
}

void QueuePairDriver::HandleReceived(const ibv_wc& wc) {
  std::optional<CompletionError> error;
  if (wc.status != IBV_WC_SUCCESS) {
    error = ErrorOfReceive(wc.status);
    if (!error) return HandleFlushed();
  }
  PostedReceive receive;
  if (!receive_queue_.HandleCompleted(NumberOf(wc), receive)) {
    return Fail(DisconnectReason::kFault, "the adapter completed a receive out of order");
  }
  if (error) {
    completions_.Add(ReceiveCompletion(std::move(receive), error->status));
    return Fail(error->reason, ::ibv_wc_status_str(wc.status));
  }
  Completion completion;
  completion.context = receive.context;
  completion.buffer = std::move(receive.buffer);
  completion.length = wc.byte_len;
  const unsigned with_invalidate = traits_.software_roce ? kKernelsWithInvalidate : unsigned{IBV_WC_WITH_INV};
  if (wc.wc_flags & with_invalidate) {
    if (const std::shared_ptr<ExposedRegion> region = regions_.Find(Stag(wc.invalidated_rkey))) {
      completion.invalidated = region->stag;
      Retire(*region);
    }
  }
  completions_.Add(std::move(completion));
}

}  // namespace penstock::rdma::verbs
