#include "watch/connection_ages.h"

#include <sys/socket.h>

#include <algorithm>

#include "base/thread.h"

namespace penstock::watch {

ConnectionAges::ConnectionAges(Limits limits)
    : limits_(limits), thread_(StartThread("penstock-ages", [this] { Run(); })) {}

ConnectionAges::~ConnectionAges() {
  {
    const std::lock_guard lock(mutex_);
    stops_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void ConnectionAges::Begin(int socket) {
  const std::lock_guard lock(mutex_);
  connections_[socket] = {std::chrono::steady_clock::now(), false};
  if (connections_.size() == 1) changed_.notify_one();
}

void ConnectionAges::HasHead(int socket) {
  const std::lock_guard lock(mutex_);
  if (const auto found = connections_.find(socket); found != connections_.end()) found->second.has_head = true;
}

void ConnectionAges::Forget(int socket) {
  const std::lock_guard lock(mutex_);
  connections_.erase(socket);
}

void ConnectionAges::Run() {
  const Duration step = std::min(limits_.head, limits_.whole) / 4;
  std::unique_lock lock(mutex_);
  while (!stops_) {
    if (connections_.empty()) {
      changed_.wait(lock, [this] { return stops_ || !connections_.empty(); });
    } else {
      changed_.wait_for(lock, step, [this] { return stops_; });
    }
    const TimePoint now = std::chrono::steady_clock::now();
    for (const auto& [socket, connection] : connections_) {
      const Duration limit = connection.has_head ? limits_.whole : limits_.head;
      if (now - connection.began >= limit) ::shutdown(socket, SHUT_RDWR);
    }
  }
}

}  // namespace penstock::watch
