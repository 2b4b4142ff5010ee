// Makes the store of persistent sessions' replies usable by callers that must not block.
#pragma once

#include <memory>
#include <vector>

#include "base/loop.h"
#include "base/task.h"
#include "base/workers.h"
#include "nfs/v4/state/stable/reply_store.h"

namespace penstock::nfs::v4 {

// Any thread. The calls wait for a disk, so they are not for use within State::Run(). They resume on `loop`; without a
// loop (in a simulation), they run at once.
class ReplyWriter {
 public:
  // Both outlive the writer and its calls under way. The pool may be null if all calls are without a loop.
  explicit ReplyWriter(ReplyStore& store, Workers* pool = nullptr) : store_(store), pool_(pool) {}

  // See ReplyStore and SessionReplies. The arguments that are references must live until the call is done.
  Task<std::shared_ptr<SessionReplies>> Create(Loop* loop, SessionId session, ReplyRoom room);
  Task<bool> Keep(Loop* loop, SessionReplies& session, SlotId slot, const KeptReply& reply, bool lasting);
  Task<> Remove(Loop* loop, const std::vector<std::shared_ptr<SessionReplies>>& sessions);

 private:
  ReplyStore& store_;
  Workers* pool_;
};

}  // namespace penstock::nfs::v4
