#include "rdma/verbs/queue_pair.h"

#include <array>
#include <cerrno>
#include <utility>

namespace penstock::rdma::verbs {
namespace {

constexpr std::array<uint32_t, 4> kInlineSizes = {256, 128, 64, 0};

}  // namespace

QueuePair::~QueuePair() {
  if (created()) Destroy();
  DestroyCompletionQueue();
}

SetupResult<void> QueuePair::Create(Device& device, ibv_pd* pd, const QueueSizes& sizes, QueuePairContext context) {
  context_ = std::move(context);
  completions_ = ::ibv_create_cq(device.context(), static_cast<int>(sizes.completion), &context_, device.channel(), 0);
  if (!completions_) return std::unexpected(SetupError{"cannot make a completion queue: " + DescribeErrno(errno)});
  int error = 0;
  for (uint32_t inlined : kInlineSizes) {
    if (inlined > device.max_inline) continue;
    ibv_qp_init_attr attributes{};
    attributes.qp_context = &context_;
    attributes.send_cq = attributes.recv_cq = completions_;
    attributes.cap = {.max_send_wr = sizes.send,
                      .max_recv_wr = sizes.receive,
                      .max_send_sge = device.traits().max_sge,
                      .max_recv_sge = 1,
                      .max_inline_data = inlined};
    attributes.qp_type = IBV_QPT_RC;
    if (::rdma_create_qp(id_->get(), pd, &attributes) == 0) {
      device.max_inline = max_inline_ = inlined;
      return {};
    }
    error = errno;
  }
  return std::unexpected(SetupError{"cannot make a queue pair: " + DescribeErrno(error)});
}

int QueuePair::PostReceives(ibv_recv_wr* first) {
  ibv_recv_wr* bad = nullptr;
  return ::ibv_post_recv(id_->get()->qp, first, &bad);
}

int QueuePair::PostSends(ibv_send_wr* first) {
  ibv_send_wr* bad = nullptr;
  const int error = ::ibv_post_send(id_->get()->qp, first, &bad);
  return error < 0 ? -error : error;
}

int QueuePair::Poll(std::span<ibv_wc> out) {
  return ::ibv_poll_cq(completions_, static_cast<int>(out.size()), out.data());
}

void QueuePair::RequestEvent() { ::ibv_req_notify_cq(completions_, 0); }

void QueuePair::Disconnect() { ::rdma_disconnect(id_->get()); }

void QueuePair::Stop() {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_ERR;
  ::ibv_modify_qp(id_->get()->qp, &attributes, IBV_QP_STATE);
}

void QueuePair::Destroy() { ::rdma_destroy_qp(id_->get()); }

void QueuePair::DestroyCompletionQueue() {
  if (completions_) ::ibv_destroy_cq(std::exchange(completions_, nullptr));
}

}  // namespace penstock::rdma::verbs
