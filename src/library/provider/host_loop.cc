#include "library/provider/host_loop.h"

#include <cstddef>
#include <new>
#include <utility>
#include <variant>

#include "library/provider/host_connection.h"

namespace penstock::library {
namespace {

// Memory for buffers from the host.
class HostMemory : public BufferSource {
 public:
  explicit HostMemory(std::shared_ptr<HostProvider> host) : host_(std::move(host)) {}

  std::byte* Allocate(size_t size, size_t alignment) override {
    const InProviderFunction in_function;
    void* const memory = host_->ops().allocate(host_->self(), size, alignment);
    if (!memory) throw std::bad_alloc();
    return static_cast<std::byte*>(memory);
  }
  void Free(std::byte* memory, size_t size) override {
    host_->Call("release", host_->ops().release, host_->self(), memory, size);
  }

 private:
  const std::shared_ptr<HostProvider> host_;
};

}  // namespace

HostLoop::HostLoop(Loop& loop, std::shared_ptr<HostProvider> host) : loop_(loop), host_(std::move(host)) {
  if (host_->ops().allocate) own_buffers_ = std::make_shared<BufferPool>(std::make_shared<HostMemory>(host_));
}

HostLoop::~HostLoop() = default;

bool HostLoop::Put(Event event) {
  const std::lock_guard lock(mutex_);
  if (closed_) return false;
  // If memory runs out here, nothing is told, and later events are delivered nevertheless. Deliver() needs the lock.
  if (!posted_) loop_.Post([self = shared_from_this()] { self->Deliver(); });
  posted_ = true;
  events_.push_back(std::move(event));
  return true;
}

void HostLoop::Deliver() {
  std::vector<Event> events;
  {
    const std::lock_guard lock(mutex_);
    events.swap(events_);
    posted_ = false;
  }
  delivering_ = true;
  for (Event& each : events) Handle(each);
  delivering_ = false;
  const std::vector<std::shared_ptr<HostConnection>> to_notify = std::exchange(to_notify_, {});
  for (const auto& each : to_notify) each->Notify();
}

void HostLoop::Handle(Event& event) {
  if (auto* const requested = std::get_if<Event::Requested>(&event.what)) {
    auto connection = std::make_shared<HostConnection>(shared_from_this(), event.connection, requested->endpoint,
                                                       std::move(*requested->peer));
    connections_.emplace(event.connection, connection);
    const auto taker = takers_.find(requested->listener);
    if (taker == takers_.end()) return connection->Reject({});
    return taker->second->Take(std::move(connection), std::move(requested->place));
  }
  // The connection may have ended after the host's call.
  const auto found = connections_.find(event.connection);
  if (found == connections_.end()) return;
  const std::shared_ptr<HostConnection> connection = found->second;
  connection->Handle(event);
}

void HostLoop::Add(const std::shared_ptr<HostConnection>& connection) {
  connections_.emplace(connection->number(), connection);
  host_->Register(connection->number(), shared_from_this());
}

void HostLoop::Forget(uint64_t connection) {
  host_->Forget(connection);
  connections_.erase(connection);
  CloseIfUnused();
}

void HostLoop::NotifyOwner(HostConnection& connection) {
  if (delivering_) {
    to_notify_.push_back(connection.shared_from_this());
  } else {
    loop_.Post([self = connection.shared_from_this()] { self->Notify(); });
  }
}

void HostLoop::Close() {
  closing_ = true;
  takers_.clear();
  // Peers whose requests are on their way must be rejected.
  std::vector<Event> requested;
  {
    const std::lock_guard lock(mutex_);
    const auto is_request = [](const Event& each) { return std::holds_alternative<Event::Requested>(each.what); };
    for (Event& each : events_) {
      if (is_request(each)) requested.push_back(std::move(each));
    }
    std::erase_if(events_, is_request);
  }
  for (Event& each : requested) Handle(each);
  const auto connections = connections_;
  for (const auto& [number, connection] : connections) connection->Cancel();
  own_buffers_.reset();
  CloseIfUnused();
}

void HostLoop::CloseIfUnused() {
  if (!closing_ || !connections_.empty()) return;
  const std::lock_guard lock(mutex_);
  closed_ = true;
}

}  // namespace penstock::library
