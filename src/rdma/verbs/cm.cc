#include "rdma/verbs/cm.h"

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/address.h"

namespace penstock::rdma::verbs {

Address AddressOf(const sockaddr* address) {
  Address result;
  if (address->sa_family == AF_INET6) {
    const auto* v6 = reinterpret_cast<const sockaddr_in6*>(address);
    asio::ip::address_v6::bytes_type bytes;
    std::memcpy(bytes.data(), &v6->sin6_addr, bytes.size());
    result = Address(asio::ip::address_v6(bytes, v6->sin6_scope_id), ntohs(v6->sin6_port));
  } else {
    const auto* v4 = reinterpret_cast<const sockaddr_in*>(address);
    result = Address(asio::ip::address_v4(ntohl(v4->sin_addr.s_addr)), ntohs(v4->sin_port));
  }
  return result;
}

CmEvent TakeEvent(const rdma_cm_event& event) {
  CmEvent taken;
  taken.type = event.event;
  taken.status = event.status;
  const rdma_conn_param& conn = event.param.conn;
  switch (event.event) {
    case RDMA_CM_EVENT_CONNECT_REQUEST:
    case RDMA_CM_EVENT_CONNECT_RESPONSE:
    case RDMA_CM_EVENT_ESTABLISHED:
    case RDMA_CM_EVENT_REJECTED: {
      const auto* data = static_cast<const std::byte*>(conn.private_data);
      if (data) taken.private_data.assign(data, data + conn.private_data_len);
      taken.peer_depths = {.ird = conn.initiator_depth, .ord = conn.responder_resources};
      break;
    }
    default:
      break;
  }
  return taken;
}

// ---- CmChannel ----

std::unique_ptr<CmChannel> CmChannel::Make(Loop& loop) {
  rdma_event_channel* channel = ::rdma_create_event_channel();
  if (!channel) return nullptr;
  SetNonBlocking(channel->fd);
  return std::unique_ptr<CmChannel>(new CmChannel(loop, channel));
}

CmChannel::~CmChannel() {
  watch_.reset();
  ::rdma_destroy_event_channel(channel_);
}

void CmChannel::Add(CmId& id) {
  ids_.emplace(id.get(), &id);
  if (!watch_) watch_ = std::make_unique<FdWatch>(loop_, channel_->fd, [this] { HandleReadable(); });
}

void CmChannel::Remove(CmId& id) {
  ids_.erase(id.get());
  if (ids_.empty()) watch_.reset();
}

void CmChannel::HandleReadable() {
  rdma_cm_event* event = nullptr;
  while (!ids_.empty() && ::rdma_get_cm_event(channel_, &event) == 0) {
    const auto found = ids_.find(event->id);
    CmId* id = found == ids_.end() ? nullptr : found->second;
    CmEvent taken = TakeEvent(*event);
    // Acknowledge the event before it is handled: librdmacm destroys an identifier only when its events are
    // acknowledged.
    ::rdma_ack_cm_event(event);
    // The handler may destroy the last identifier, which owns this channel.
    const std::shared_ptr<CmChannel> self = id ? id->channel_ : nullptr;
    if (id) id->Handle(std::move(taken));
    if (self.use_count() == 1) return;
  }
}

void CmChannel::GiveUp(ibv_context* context, CmEvent::Kind kind) {
  for (const auto& [raw, id] : ids_) {
    if (!context || raw->verbs == context) id->GiveUp(kind);
  }
}

// ---- CmId ----

CmId::CmId(std::shared_ptr<CmChannel> channel, rdma_cm_id* id) : channel_(std::move(channel)), id_(id) {
  channel_->Add(*this);
}

std::unique_ptr<CmId> CmId::Make(std::shared_ptr<CmChannel> channel) {
  rdma_cm_id* id = nullptr;
  if (::rdma_create_id(channel->get(), &id, nullptr, RDMA_PS_TCP) != 0) return nullptr;
  return std::unique_ptr<CmId>(new CmId(std::move(channel), id));
}

std::unique_ptr<CmId> CmId::Adopt(std::shared_ptr<CmChannel> channel, rdma_cm_id* id) {
  if (::rdma_migrate_id(id, channel->get()) != 0) {
    const int error = errno;
    ::rdma_destroy_id(id);
    errno = error;
    return nullptr;
  }
  return std::unique_ptr<CmId>(new CmId(std::move(channel), id));
}

CmId::~CmId() {
  channel_->Remove(*this);
  if (id_->qp) ::rdma_destroy_qp(id_);
  ::rdma_destroy_id(id_);
}

Address CmId::local() const { return AddressOf(::rdma_get_local_addr(id_)); }
Address CmId::peer() const { return AddressOf(::rdma_get_peer_addr(id_)); }

void CmId::Handle(CmEvent event) {
  if (handler_) {
    const auto handler = handler_;  // a copy: the handler may destroy this
    return handler(event);
  }
  events_.push_back(std::move(event));
  if (auto* waiting = std::exchange(waiting_, nullptr)) waiting->Set();
}

void CmId::GiveUp(CmEvent::Kind kind) {
  // A coroutine that waits for the event continues inside Handle(), and may destroy the caller of this function. So
  // post it.
  channel_->loop().Post([weak = std::weak_ptr(alive_), this, kind] {
    if (weak.expired()) return;
    CmEvent event;
    event.kind = kind;
    Handle(std::move(event));
  });
}

Task<CmEvent> CmId::Next(TimePoint deadline) {
  if (events_.empty()) {
    OneShot<std::monostate> arrived;
    waiting_ = &arrived;
    std::unique_ptr<Timer> timer = channel_->loop().MakeTimer([this] {
      CmEvent event;
      event.kind = CmEvent::Kind::kTimedOut;
      Handle(std::move(event));
    });
    timer->ExpireAfter(deadline - channel_->loop().Now());
    co_await arrived;
    timer->Cancel();
  }
  CmEvent event = std::move(events_.front());
  events_.pop_front();
  co_return event;
}

void CmId::set_handler(std::function<void(const CmEvent&)> handler) {
  handler_ = std::move(handler);
  if (events_.empty()) return;
  channel_->loop().Post([weak = std::weak_ptr(alive_), this] {
    while (!weak.expired() && !events_.empty()) {
      const CmEvent event = std::move(events_.front());
      events_.pop_front();
      Handle(event);
    }
  });
}

}  // namespace penstock::rdma::verbs
