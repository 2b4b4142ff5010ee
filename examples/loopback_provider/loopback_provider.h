// A network within one process that carries RDMA connections, for penstock::Provider: an example of all methods. It
// uses the public headers of libpenstock only.
//
// One thread of the network moves the octets of all connections, and tells the library what has happened. One lock
// guards everything. Who holds it may tell the library, because the library then calls no method. Endpoints belong to
// the library: it destroys them.
#pragma once

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <penstock/provider.hpp>

namespace loopback {

using penstock::Error;
using penstock::Result;

class LoopbackProvider : public penstock::BasicProvider {
 public:
  LoopbackProvider() : worker_([this] { Work(); }) {}
  ~LoopbackProvider() override {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    wake_.notify_one();
    worker_.join();
  }

  // Loses all connections, as a network that fails does.
  void LoseAll() {
    const std::lock_guard lock(mutex_);
    for (Endpoint* const each : endpoints_) each->End(PENSTOCK_RDMA_RESET, "the network has failed");
  }
  // The octets of all Sends, Writes and Reads so far.
  uint64_t moved() const {
    const std::lock_guard lock(mutex_);
    return moved_;
  }

  Result<std::unique_ptr<penstock::BasicEndpoint>> Connect(uint64_t connection, const char* address,
                                                           const penstock_rdma_terms& terms) override {
    const std::lock_guard lock(mutex_);
    const auto listener = listeners_.find(address);
    if (listener == listeners_.end()) return Error{ECONNREFUSED};
    auto client = std::make_unique<Endpoint>(*this, connection, AddressLike(address, NextPort()), address);
    auto server = std::make_unique<Endpoint>(*this, 0, address, client->local_);
    client->peer_ = server.get();
    server->peer_ = client.get();
    client->Take(terms);
    asking_.push_back({listener->second, std::move(server)});
    wake_.notify_one();
    return client;
  }

  Result<Listening> Listen(uint64_t listener, const char* address) override {
    const std::lock_guard lock(mutex_);
    std::string actual = address;
    if (actual.ends_with(":0")) actual = AddressLike(actual, NextPort());
    if (!listeners_.emplace(actual, listener).second) return Error{EADDRINUSE};
    return Listening{std::make_unique<Listener>(*this, actual), actual};
  }

 private:
  struct Region {
    std::span<std::byte> memory;
    uint64_t offset = 0;
    penstock_rdma_access access = PENSTOCK_RDMA_READ;
  };
  // A request on its way to the peer.
  struct Request {
    enum class Kind : uint8_t { kSend, kWrite, kRead, kDisconnect };
    Kind kind = Kind::kDisconnect;
    uint64_t number = 0;
    std::vector<penstock_rdma_piece> pieces{};
    std::span<std::byte> to{};
    penstock_rdma_segment remote{};
    std::optional<uint32_t> invalidate{};
    bool solicited = false;
  };

  class Listener : public penstock::BasicListener {
   public:
    Listener(LoopbackProvider& network, std::string address) : network_(network), address_(std::move(address)) {}
    ~Listener() override {
      const std::lock_guard lock(network_.mutex_);
      network_.listeners_.erase(address_);
    }

   private:
    LoopbackProvider& network_;
    const std::string address_;
  };

  class Endpoint : public penstock::BasicEndpoint {
   public:
    // The network is locked.
    Endpoint(LoopbackProvider& network, uint64_t connection, std::string local, std::string remote)
        : BasicEndpoint(connection), local_(std::move(local)), remote_(std::move(remote)), network_(network) {
      network_.endpoints_.insert(this);
    }
    ~Endpoint() override {
      const std::lock_guard lock(network_.mutex_);
      network_.endpoints_.erase(this);
      std::erase(network_.busy_, this);
      if (peer_) peer_->peer_ = nullptr;
      if (peer_) peer_->End(PENSTOCK_RDMA_RESET, "the other side is gone");
    }

    Result<void> Accept(const penstock_rdma_terms& terms) override {
      const std::lock_guard lock(network_.mutex_);
      if (ended_ || !peer_) return Error{ECONNRESET};
      Take(terms);
      const penstock_rdma_peer peer = peer_->Describe();
      (void)network_.Connected(connection());
      (void)network_.Connected(peer_->connection(), &peer);
      return {};
    }
    void Reject(std::span<const std::byte> private_data) override {
      const std::lock_guard lock(network_.mutex_);
      if (!peer_) return;
      peer_->peer_ = nullptr;
      std::exchange(peer_, nullptr)->End(PENSTOCK_RDMA_REJECTED, "rejected", 0, private_data);
    }

    Result<void> PostReceive(const penstock_rdma_receive& receive) override {
      const std::lock_guard lock(network_.mutex_);
      receives_.push_back(receive);
      return {};
    }
    Result<void> Send(uint64_t request, penstock::RdmaPieces pieces, std::optional<uint32_t> invalidate,
                      bool solicited) override {
      return Post({.kind = Request::Kind::kSend,
                   .number = request,
                   .pieces = {pieces.begin(), pieces.end()},
                   .invalidate = invalidate,
                   .solicited = solicited});
    }
    Result<void> Write(uint64_t request, penstock::RdmaPieces pieces, const penstock_rdma_segment& remote) override {
      return Post({.kind = Request::Kind::kWrite,
                   .number = request,
                   .pieces = {pieces.begin(), pieces.end()},
                   .remote = remote});
    }
    Result<void> Read(uint64_t request, std::span<std::byte> to, const penstock_rdma_segment& remote) override {
      return Post({.kind = Request::Kind::kRead, .number = request, .to = to, .remote = remote});
    }
    Result<void> Disconnect() override { return Post({}); }

    Result<Exposed> Expose(std::span<std::byte> memory, penstock_rdma_access access) override {
      const std::lock_guard lock(network_.mutex_);
      uint32_t stag = 0;
      while (stag == 0 || regions_.contains(stag)) stag = static_cast<uint32_t>(network_.random_());
      const uint64_t offset = network_.random_() >> 16;
      regions_[stag] = {memory, offset, access};
      return Exposed{stag, offset};
    }
    Result<void> Invalidate(uint64_t request, uint32_t stag) override {
      const std::lock_guard lock(network_.mutex_);
      regions_.erase(stag);
      (void)network_.Completed(connection(), request);
      return {};
    }

   private:
    friend class LoopbackProvider;

    // All following methods need the lock.

    void Take(const penstock_rdma_terms& terms) {
      const auto* const octets = static_cast<const std::byte*>(terms.private_data);
      private_data_.assign(octets, octets + terms.private_size);
      depths_ = terms.depths;
      receives_.assign(terms.receives, terms.receives + terms.receive_count);
    }
    // This side, as the peer of the host's other endpoint sees it. It is valid while the lock is held.
    penstock_rdma_peer Describe() const {
      penstock_rdma_peer peer = PENSTOCK_RDMA_PEER_INIT;
      peer.local = local_.c_str();
      peer.peer = remote_.c_str();
      if (peer_) {
        peer.private_data = peer_->private_data_.data();
        peer.private_size = peer_->private_data_.size();
        peer.depths = &peer_->depths_;
      }
      return peer;
    }

    Result<void> Post(Request request) {
      const std::lock_guard lock(network_.mutex_);
      if (ended_) return {};
      requests_.push_back(std::move(request));
      network_.busy_.push_back(this);
      network_.wake_.notify_one();
      return {};
    }

    // Executes the oldest request.
    void Step() {
      if (ended_ || !peer_) return;
      const Request request = std::move(requests_.front());
      requests_.pop_front();
      if (request.kind == Request::Kind::kDisconnect) return EndBoth(PENSTOCK_RDMA_CLOSED, PENSTOCK_RDMA_CLOSED, 0);
      const bool is_possible = request.kind == Request::Kind::kSend ? Deliver(request) : Transfer(request);
      if (!is_possible) return EndBoth(PENSTOCK_RDMA_TERMINATED, PENSTOCK_RDMA_VIOLATED, request.number);
      (void)network_.Completed(connection(), request.number);
    }
    bool Deliver(const Request& request) {
      if (peer_->receives_.empty()) return false;
      const penstock_rdma_receive receive = peer_->receives_.front();
      size_t size = 0;
      for (const penstock_rdma_piece& each : request.pieces) size += each.size;
      if (size > receive.size) return false;
      if (request.invalidate && peer_->regions_.erase(*request.invalidate) == 0) return false;
      peer_->receives_.pop_front();
      Gather(request, static_cast<std::byte*>(receive.buffer));
      (void)network_.Received(peer_->connection(), receive.request, size, request.invalidate, request.solicited);
      return true;
    }
    bool Transfer(const Request& request) {
      if (request.remote.length == 0) return true;
      const bool is_read = request.kind == Request::Kind::kRead;
      std::byte* const memory = peer_->Reach(request.remote, is_read ? PENSTOCK_RDMA_READ : PENSTOCK_RDMA_WRITE);
      if (!memory) return false;
      if (is_read) {
        std::memcpy(request.to.data(), memory, request.to.size());
        network_.moved_ += request.to.size();
      } else {
        Gather(request, memory);
      }
      return true;
    }
    void Gather(const Request& request, std::byte* to) {
      for (const penstock_rdma_piece& each : request.pieces) {
        if (each.size > 0) std::memcpy(to, each.data, each.size);
        to += each.size;
        network_.moved_ += each.size;
      }
    }
    // The memory of this side for an access of the peer. Null if the access is not allowed.
    std::byte* Reach(const penstock_rdma_segment& segment, penstock_rdma_access access) {
      const auto found = regions_.find(segment.stag);
      if (found == regions_.end()) return nullptr;
      const Region& region = found->second;
      if (region.access != access || segment.offset < region.offset) return nullptr;
      const uint64_t at = segment.offset - region.offset;
      if (at > region.memory.size() || segment.length > region.memory.size() - at) return nullptr;
      return region.memory.data() + at;
    }

    void EndBoth(penstock_rdma_reason here, penstock_rdma_reason there, uint64_t request) {
      Endpoint* const peer = peer_;
      End(here, "ended", request);
      peer->End(there, "ended");
    }
    // From here on nothing accesses memory of the library for this side.
    void End(penstock_rdma_reason reason, const char* detail, uint64_t request = 0,
             std::span<const std::byte> private_data = {}) {
      if (std::exchange(ended_, true)) return;
      if (peer_) peer_->regions_.clear();
      regions_.clear();
      receives_.clear();
      requests_.clear();
      if (connection() == 0) return;  // the library does not know it yet
      penstock_rdma_end end = PENSTOCK_RDMA_END_INIT;
      end.reason = reason;
      end.detail = detail;
      end.request = request;
      end.private_data = private_data.data();
      end.private_size = private_data.size();
      (void)network_.Ended(connection(), end);
    }

    const std::string local_, remote_;
    LoopbackProvider& network_;
    Endpoint* peer_ = nullptr;  // null if it is gone
    std::vector<std::byte> private_data_;
    penstock_rdma_depths depths_{};
    std::deque<penstock_rdma_receive> receives_;
    std::deque<Request> requests_;
    std::map<uint32_t, Region> regions_;
    bool ended_ = false;
  };
  // A client that waits until its listener knows of it.
  struct Asking {
    uint64_t listener = 0;
    std::unique_ptr<Endpoint> server;
  };

  // "127.0.0.1:1234" for "127.0.0.1:0".
  static std::string AddressLike(std::string_view address, uint16_t port) {
    return std::string(address.substr(0, address.rfind(':') + 1)) + std::to_string(port);
  }
  uint16_t NextPort() { return next_port_ = next_port_ == 65535 ? 1024 : static_cast<uint16_t>(next_port_ + 1); }

  void Work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      wake_.wait(lock, [this] { return stopping_ || !busy_.empty() || !asking_.empty(); });
      if (stopping_) return;
      if (!asking_.empty()) Ask(lock);
      if (busy_.empty()) continue;
      Endpoint* const endpoint = busy_.front();
      busy_.pop_front();
      endpoint->Step();
    }
  }
  void Ask(std::unique_lock<std::mutex>& lock) {
    Asking asking = std::move(asking_.front());
    asking_.pop_front();
    std::unique_ptr<penstock::BasicEndpoint> server;
    Endpoint* const client = asking.server->peer_;
    if (client) {
      const penstock_rdma_peer peer = asking.server->Describe();
      Endpoint* const given = asking.server.get();
      server = std::move(asking.server);
      if (Requested(asking.listener, server, peer)) return;
      given->peer_ = nullptr;
      client->peer_ = nullptr;
      client->End(PENSTOCK_RDMA_REFUSED, "the listener takes no connection");
    }
    // Destructors of endpoints lock.
    lock.unlock();
    server.reset();
    asking.server.reset();
    lock.lock();
  }

  mutable std::mutex mutex_;  // guards all following members, and those of endpoints
  std::condition_variable wake_;
  std::map<std::string, uint64_t> listeners_;  // their numbers, by their addresses
  std::set<Endpoint*> endpoints_;
  std::deque<Endpoint*> busy_;  // one entry for each request
  std::mt19937_64 random_{std::random_device()()};
  uint16_t next_port_ = 49151;
  uint64_t moved_ = 0;
  bool stopping_ = false;
  std::deque<Asking> asking_;  // behind what the destructors of endpoints use
  std::thread worker_;         // last: it uses the others
};

}  // namespace loopback
