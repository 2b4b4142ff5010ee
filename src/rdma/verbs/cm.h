// Connection identifiers of librdmacm on a loop: their events arrive here, in order, and each goes to its identifier.
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
  // Of librdmacm; or one of ours.
  enum class Kind : uint8_t { kLibrary, kTimedOut, kCancelled, kDeviceGone };
  Kind kind = Kind::kLibrary;
  rdma_cm_event_type type = RDMA_CM_EVENT_ADDR_RESOLVED;
  int status = 0;
  std::vector<std::byte> private_data;
  // What the peer serves and makes, as it has said.
  ReadDepths peer_depths;

  bool is(rdma_cm_event_type wanted) const { return kind == Kind::kLibrary && type == wanted; }
};
// Copies what there is to know.
CmEvent TakeEvent(const rdma_cm_event& event);

class CmId;

// The event channel of a loop. While it has no identifiers it is not watched, and does not keep the loop from ending.
class CmChannel {
 public:
  // Null where there is no RDMA device, or no permission (errno).
  static std::unique_ptr<CmChannel> Make(Loop& loop);
  ~CmChannel();

  Loop& loop() { return loop_; }
  rdma_event_channel* get() { return channel_; }
  // Tells identifiers on this device, or all of them, that they are given up.
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

// An identifier, owned. First a coroutine sets it up and waits for one event after the other; then its connection is told of
// those that follow.
class CmId {
 public:
  static std::unique_ptr<CmId> Make(std::shared_ptr<CmChannel> channel);  // null: errno
  // Of a peer that wants to connect; moves it to `channel`. Null: errno, and it is destroyed.
  static std::unique_ptr<CmId> Adopt(std::shared_ptr<CmChannel> channel, rdma_cm_id* id);
  ~CmId();  // also of its queue pair

  rdma_cm_id* get() { return id_; }
  Address local() const;
  Address peer() const;

  // The next event, or the first of ours. One at a time.
  Task<CmEvent> Next(TimePoint deadline);
  // From now on events go to `handler`, which may destroy this; what has come already, in a turn of the loop.
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
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

Address AddressOf(const sockaddr* address);

}  // namespace penstock::rdma::verbs
