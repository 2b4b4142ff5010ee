// Makes the stores of persistent sessions usable by callers that must not block.
#pragma once

#include <memory>
#include <vector>

#include "base/client_key.h"
#include "base/loop.h"
#include "base/task.h"
#include "base/workers.h"
#include "nfs/v4/state/stable/reply_store.h"
#include "nfs/v4/state/stable/stream_store.h"

namespace penstock::nfs::v4 {

// Any thread. The calls wait for a disk, so they are not for use within State::Run(). They resume on `loop`; without a
// loop (in a simulation), they run at once. What requests store takes turns on the pool: `client` has sent the request.
class ReplyWriter {
 public:
  // All outlive the writer and its calls under way. The pool may be null if all calls are without a loop.
  ReplyWriter(ReplyStore& store, StreamStore& streams, Workers* pool = nullptr)
      : store_(store), streams_(streams), pool_(pool) {}

  // See ReplyStore and SessionReplies. The arguments that are references must live until the call is done.
  Task<std::shared_ptr<SessionReplies>> Create(Loop* loop, SessionId session, ReplyRoom room);
  Task<bool> Keep(Loop* loop, const ClientKey& client, SessionReplies& session, SlotId slot, const KeptReply& reply,
                  bool lasting);
  Task<> Remove(Loop* loop, const std::vector<std::shared_ptr<SessionReplies>>& sessions);

  // See StreamStore and StreamStorage.
  Task<std::shared_ptr<StreamStorage>> Create(Loop* loop, const BoundSessionRecord& session);
  Task<bool> Begin(Loop* loop, const ClientKey& client, StreamStorage& session, sess01::StreamId stream,
                   const StreamRecord& request, bool lasting);
  Task<bool> Keep(Loop* loop, const ClientKey& client, StreamStorage& session, sess01::StreamId stream,
                  const StreamRecord& request, bool lasting);
  Task<bool> Reserve(Loop* loop, StreamStorage& session, const ChannelBlock& channels);
  Task<bool> HasRoomFor(Loop* loop, const BoundSessionRecord& session);
  Task<> Remove(Loop* loop, const std::vector<std::shared_ptr<StreamStorage>>& sessions);
  // Removes a session so that no power failure brings it back.
  Task<bool> RemoveForGood(Loop* loop, StreamStorage& session);

 private:
  ReplyStore& store_;
  StreamStore& streams_;
  Workers* pool_;
};

}  // namespace penstock::nfs::v4
