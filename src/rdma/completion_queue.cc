#include "rdma/completion_queue.h"

#include <cassert>
#include <utility>

namespace penstock::rdma {

Completion RequestCompletion(Operation operation, Context context, Status status) {
  Completion completion;
  completion.operation = operation;
  completion.status = status;
  completion.context = context;
  return completion;
}

Completion ReceiveCompletion(PostedReceive receive, Status status) {
  Completion completion = RequestCompletion(Operation::kReceive, receive.context, status);
  completion.buffer = std::move(receive.buffer);
  return completion;
}

Completion DisconnectCompletion(DisconnectReason reason, std::string detail) {
  Completion completion = RequestCompletion(Operation::kDisconnected, 0, Status::kSuccess);
  completion.reason = reason;
  completion.detail = std::move(detail);
  return completion;
}

void CompletionQueue::Add(Completion&& completion) {
  if (!closed_) completions_.push_back(std::move(completion));
}

void CompletionQueue::Start(std::function<void()> on_completions) {
  assert(!started_ && on_completions);
  started_ = true;
  on_completions_ = std::move(on_completions);
}

void CompletionQueue::Notify() {
  if (!due()) return;
  armed_ = false;
  notifying_ = true;
  on_completions_();
  notifying_ = false;
  if (closed_) on_completions_ = nullptr;
}

size_t CompletionQueue::Poll(std::span<Completion> out) {
  size_t count = 0;
  for (; count < out.size() && !completions_.empty(); ++count) out[count] = completions_.pop_front();
  if (count < out.size()) armed_ = true;
  return count;
}

void CompletionQueue::Close() {
  closed_ = true;
  completions_.clear();
  if (!notifying_) on_completions_ = nullptr;
}

}  // namespace penstock::rdma
