#include "stream_calls.h"

#include <cassert>

#include "rpc/header.h"
#include "xdr/flatten.h"

namespace penstock::simulation {

StreamCalls::StreamCalls(TimerService& timers, BufferPool& buffers, std::unique_ptr<rdma::sim::StreamSocket> socket,
                         Duration call_limit)
    : timers_(timers), buffers_(buffers), socket_(std::move(socket)), call_limit_(call_limit) {}

void StreamCalls::Start(std::function<void(rpc::Message)> on_call, std::function<void()> on_closed) {
  on_call_ = std::move(on_call);
  on_closed_ = std::move(on_closed);
  socket_->set_owner(this);
}

std::vector<std::byte> StreamCalls::OctetsOf(rpc::Message message) {
  const auto loaded = xdr::LoadFiles(message, buffers_);
  assert(loaded);
  (void)loaded;
  const Slice stream = xdr::Unreduce(buffers_, message);
  return {stream.bytes().begin(), stream.bytes().end()};
}

Task<StreamCalls::Answer> StreamCalls::Call(rpc::Message call) {
  const auto self = shared_from_this();
  if (closed()) co_return std::unexpected(rpc::CallError::kDisconnected);
  std::vector<std::byte> octets = OctetsOf(std::move(call));
  const auto xid = LoadBig<uint32_t>(octets.data());
  Pending pending;
  const bool is_new = pending_.emplace(xid, &pending).second;
  assert(is_new);
  (void)is_new;
  auto limit = timers_.MakeTimer([&pending, self, xid] {
    self->pending_.erase(xid);
    pending.Set(std::unexpected(rpc::CallError::kTimedOut));
  });
  limit->ExpireAfter(call_limit_);
  socket_->Send(std::move(octets));
  Answer answer = co_await pending;
  co_return std::move(answer);
}

void StreamCalls::Reply(rpc::Message reply) {
  if (!closed()) socket_->Send(OctetsOf(std::move(reply)));
}

void StreamCalls::HandleReceived(std::vector<std::byte> octets) {
  const auto self = shared_from_this();
  BufferRef buffer = buffers_.Allocate(octets.size());
  CopyBytes(buffer->bytes(), octets);
  rpc::Message message = rpc::Message::Whole(Slice(buffer, ConstBytes(buffer->data(), octets.size())));
  if (rpc::DirectionOf(octets) == rpc::Direction::kCall) return on_call_(std::move(message));
  const auto found = pending_.find(LoadBig<uint32_t>(octets.data()));
  if (found == pending_.end()) return;
  Pending& pending = *found->second;
  pending_.erase(found);
  pending.Set(std::move(message));
}

void StreamCalls::Close() {
  const auto self = shared_from_this();
  const auto on_closed = std::exchange(on_closed_, {});
  if (socket_) {
    socket_->set_owner(nullptr);
    socket_->Close();
  }
  for (const auto& [xid, pending] : std::exchange(pending_, {})) {
    pending->Set(std::unexpected(rpc::CallError::kDisconnected));
  }
  if (on_closed) on_closed();
}

ReleasedSocket StreamCalls::Release() {
  assert(idle());
  on_closed_ = {};
  return rdma::sim::StreamSocket::Release(std::move(socket_));
}

}  // namespace penstock::simulation
