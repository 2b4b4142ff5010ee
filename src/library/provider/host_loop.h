// The connections of a host's provider that live on one loop, and what the host tells about them.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "base/buffer.h"
#include "base/loop.h"
#include "library/provider/events.h"
#include "library/provider/host_provider.h"

namespace penstock::library {

class HostConnection;

// Takes the peers that ask for a connection, on the loop.
class PeerTaker {
 public:
  virtual ~PeerTaker() = default;
  // `place` counts as a waiting peer while it lives.
  virtual void Take(std::shared_ptr<HostConnection> connection, std::shared_ptr<void> place) = 0;
};

// Only Put() is for any thread. The other methods belong to the loop's thread, or to a thread that sets up or destroys
// while the loop does not run.
class HostLoop : public std::enable_shared_from_this<HostLoop> {
 public:
  HostLoop(Loop& loop, std::shared_ptr<HostProvider> host);
  ~HostLoop();

  Loop& loop() { return loop_; }
  HostProvider& host() { return *host_; }
  const std::shared_ptr<HostProvider>& shared_host() const { return host_; }
  BufferPool& buffers() { return own_buffers_ ? *own_buffers_ : loop_.buffers(); }
  // The pool of memory of the host, for the connections. Null: it has none.
  const std::shared_ptr<BufferPool>& own_buffers() const { return own_buffers_; }

  // Any thread. Returns false if no connection is left after Close().
  bool Put(Event event);

  // From now on the host can tell about the connection.
  void Add(const std::shared_ptr<HostConnection>& connection);
  void Forget(uint64_t connection);
  void AddListener(uint64_t number, PeerTaker& taker) { takers_.emplace(number, &taker); }
  void RemoveListener(uint64_t number) { takers_.erase(number); }

  // The owner of a connection must be notified of completions. That happens in this turn of the loop if the host has
  // told of them, otherwise in the next turn.
  void NotifyOwner(HostConnection& connection);

  // The provider of the loop ends. Connections that are not open yet end. Others, which their owner has told to
  // disconnect, go on until they have ended: until then the loop must live.
  void Close();

 private:
  void Deliver();
  void Handle(Event& event);
  // Posts nothing to the loop any more if the provider has ended and no connection is left.
  void CloseIfUnused();

  Loop& loop_;
  const std::shared_ptr<HostProvider> host_;
  // Null after Close(): the last reference to this object may be that of a thread of the host, on which no function of
  // the host may be called. The pool's end calls `release`.
  std::shared_ptr<BufferPool> own_buffers_;

  std::unordered_map<uint64_t, std::shared_ptr<HostConnection>> connections_;
  std::unordered_map<uint64_t, PeerTaker*> takers_;
  bool closing_ = false;
  bool delivering_ = false;
  std::vector<std::shared_ptr<HostConnection>> to_notify_;

  std::mutex mutex_;  // guards the following members
  std::vector<Event> events_;
  bool posted_ = false;  // Deliver() is posted
  bool closed_ = false;
};

}  // namespace penstock::library
