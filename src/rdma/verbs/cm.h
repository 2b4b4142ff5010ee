// librdmacm's connection identifiers on a loop. A CmChannel reads the events of its identifiers in order, and gives
// each event to its CmId. A CmId sets up one connection and then reports its end.
#pragma once

#include <rdma/rdma_cma.h>

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "base/loop.h"
#include "base/result.h"
#include "rdma/provider.h"
#include "rdma/verbs/fd_watch.h"

namespace penstock::rdma::verbs {

struct CmEvent {
  // kLibrary: librdmacm reported the event. The other kinds are ours.
  enum class Kind : uint8_t { kLibrary, kTimedOut, kCancelled, kDeviceGone };
  Kind kind = Kind::kLibrary;
  rdma_cm_event_type type = RDMA_CM_EVENT_ADDR_RESOLVED;
  int status = 0;
  std::vector<std::byte> private_data;
  // The Reads that the peer serves and makes, as it has announced them.
  ReadDepths peer_depths;

  bool is(rdma_cm_event_type wanted) const { return kind == Kind::kLibrary && type == wanted; }
};
// Copies an event, so that the caller can acknowledge it.
CmEvent TakeEvent(const rdma_cm_event& event);

class CmId;

// The event channel of a loop. The loop watches it only while it has identifiers, so an unused channel does not keep
// the loop from ending.
class CmChannel {
 public:
  // Returns null if the system has no RDMA device or gives no permission (errno).
  static std::unique_ptr<CmChannel> Make(Loop& loop);
  ~CmChannel();

  Loop& loop() { return loop_; }
  rdma_event_channel* get() { return channel_; }
  // In the next turn of the loop, gives an event of this kind to each identifier on this device, or to all of them if
  // `context` is null.
  void GiveUp(ibv_context* context, CmEvent::Kind kind);

 private:
  friend class CmId;
  CmChannel(Loop& loop, rdma_event_channel* channel) : loop_(loop), channel_(channel) {}
  void Add(CmId& id);
  void Remove(CmId& id);
  void HandleReadable();

  Loop& loop_;
  rdma_event_channel* const channel_;
  std::unordered_map<rdma_cm_id*, CmId*> ids_;
  std::unique_ptr<FdWatch> watch_;
};

// An owned identifier. First a coroutine sets up the connection and waits for each event with Next(). Then the
// connection sets a handler for all further events.
class CmId {
 public:
  // Makes the identifier of a connection to a peer. Returns null on failure (errno).
  static std::unique_ptr<CmId> Make(std::shared_ptr<CmChannel> channel);
  // Takes the identifier of a connection request and moves it to `channel`. On failure destroys it and returns null
  // (errno).
  static std::unique_ptr<CmId> Adopt(std::shared_ptr<CmChannel> channel, rdma_cm_id* id);
  // Also destroys its queue pair, if it still has one.
  ~CmId();

  rdma_cm_id* get() { return id_; }
  Address local() const;
  Address peer() const;

  // Returns the next event of librdmacm or of CmChannel::GiveUp(), or a kTimedOut event at the deadline. Only one call
  // at a time.
  Task<CmEvent> Next(TimePoint deadline);
  // Gives an event of this kind in the next turn of the loop.
  void GiveUp(CmEvent::Kind kind);
  // Gives all further events to `handler`, which may destroy this object. Events that arrived before go to it in the
  // next turn of the loop.
  void set_handler(std::function<void(const CmEvent&)> handler);

 private:
  friend class CmChannel;
  CmId(std::shared_ptr<CmChannel> channel, rdma_cm_id* id);
  void Handle(CmEvent event);

  const std::shared_ptr<CmChannel> channel_;
  rdma_cm_id* id_;
  std::deque<CmEvent> events_;
  OneShot<std::monostate>* waiting_ = nullptr;
  std::function<void(const CmEvent&)> handler_;
  // Expires with this object.
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

Address AddressOf(const sockaddr* address);

}  // namespace penstock::rdma::verbs
