// A listener of a host's provider. The loops of a server share it: each has a member, and the members take peers in
// turn.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "base/address.h"
#include "base/result.h"
#include "library/provider/host_provider.h"

namespace penstock::library {

// Any thread.
class HostListener : public std::enable_shared_from_this<HostListener> {
 public:
  // The most peers that wait for an answer of the library.
  static constexpr size_t kMostWaiting = 1024;

  // `host` must outlive the listener.
  explicit HostListener(HostProvider& host) : host_(host) {}

  // Begins to listen, with the first member. Called once.
  SetupResult<void> Listen(const SocketAddress& address, uint64_t member, std::shared_ptr<HostLoop> loop);
  const SocketAddress& local() const { return local_; }

  // Adds a member. Returns false if the last member has left.
  bool Join(uint64_t member, std::shared_ptr<HostLoop> loop);
  // Removes a member. Ends listening with the last one.
  void Leave(uint64_t member);

  // Passes a peer to a member. Returns zero or a positive errno.
  int Request(void* endpoint, std::unique_ptr<PeerFacts> peer, uint64_t& connection);

 private:
  struct Member {
    uint64_t number = 0;
    std::shared_ptr<HostLoop> loop;
  };

  HostProvider& host_;
  const uint64_t number_ = HostProvider::NewNumber();
  // These are set by Listen().
  SocketAddress local_;
  void* pointer_ = nullptr;  // the host's name; null before it listens

  const std::shared_ptr<std::atomic<size_t>> waiting_ = std::make_shared<std::atomic<size_t>>(0);
  std::mutex mutex_;  // guards the following members
  std::vector<Member> members_;
  size_t next_ = 0;
};

}  // namespace penstock::library
