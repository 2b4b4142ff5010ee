#include "library/provider/host_provider.h"

#include <atomic>
#include <cassert>
#include <cerrno>
#include <chrono>
#include <utility>

#include "base/log.h"
#include "library/provider/host_listener.h"
#include "library/provider/host_loop.h"

namespace penstock::library {
namespace {

thread_local int depth_of_provider_calls = 0;

}  // namespace

bool IsInProviderFunction() { return depth_of_provider_calls > 0; }

InProviderFunction::InProviderFunction() { ++depth_of_provider_calls; }
InProviderFunction::~InProviderFunction() { --depth_of_provider_calls; }

HostProvider::HostProvider(const penstock_provider_ops& ops, void* self, ProviderProperties properties)
    : ops_(ops), self_(self), properties_(std::move(properties)) {}

HostProvider::~HostProvider() { assert(connections_.empty() && listeners_.empty()); }

void HostProvider::Blame(std::string_view function, std::string_view what) const {
  if (!told_.Allows(std::chrono::steady_clock::now())) return;
  log::warn("the RDMA provider \"{}\" of the host makes a mistake: {} {}", properties_.name, function, what);
}

int HostProvider::CheckResult(const char* name, int result) const {
  constexpr int kLastErrno = 4095;  // as for system calls
  if (result == 0) return 0;
  if (result < 0 && result >= -kLastErrno) return -result;
  Blame(name, fmt::format("has returned {}, which is neither zero nor a negative errno", result));
  return EIO;
}

uint64_t HostProvider::NewNumber() {
  static std::atomic<uint64_t> next = 1;
  return next++;
}

void HostProvider::Register(uint64_t connection, std::shared_ptr<HostLoop> loop) {
  const std::unique_lock lock(mutex_);
  connections_.emplace(connection, std::move(loop));
}

void HostProvider::Register(uint64_t listener_number, std::shared_ptr<HostListener> listener) {
  const std::unique_lock lock(mutex_);
  listeners_.emplace(listener_number, std::move(listener));
}

void HostProvider::Forget(uint64_t number) {
  // They may be the last references, whose destructors must not run under the lock.
  std::shared_ptr<HostLoop> loop;
  std::shared_ptr<HostListener> listener;
  const std::unique_lock lock(mutex_);
  if (const auto found = connections_.find(number); found != connections_.end()) {
    loop = std::move(found->second);
    connections_.erase(found);
  }
  if (const auto found = listeners_.find(number); found != listeners_.end()) {
    listener = std::move(found->second);
    listeners_.erase(found);
  }
}

int HostProvider::Tell(Event event) const {
  std::shared_ptr<HostLoop> loop;
  {
    const std::shared_lock lock(mutex_);
    const auto found = connections_.find(event.connection);
    if (found == connections_.end()) return ENOENT;
    loop = found->second;
  }
  return loop->Put(std::move(event)) ? 0 : ENOENT;
}

int HostProvider::TellRequest(uint64_t listener, void* endpoint, std::unique_ptr<PeerFacts> peer,
                              uint64_t& connection) const {
  std::shared_ptr<HostListener> found;
  {
    const std::shared_lock lock(mutex_);
    const auto at = listeners_.find(listener);
    if (at == listeners_.end()) return ENOENT;
    found = at->second;
  }
  return found->Request(endpoint, std::move(peer), connection);
}

}  // namespace penstock::library
