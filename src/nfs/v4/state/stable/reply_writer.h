// The store of persistent sessions' replies, for those who must not block.
#pragma once

#include <memory>
#include <vector>

#include "base/loop.h"
#include "base/task.h"
#include "base/workers.h"
#include "nfs/v4/state/stable/reply_store.h"

namespace penstock::nfs::v4 {

// Any thread. What is awaited here is a disk: not while State is locked. Resumes on `loop`; where there is no loop (a
// simulation), everything happens at once.
class ReplyWriter {
 public:
  // Both outlive the writer and what it has under way. No pool: for calls without a loop.
  explicit ReplyWriter(ReplyStore& store, Workers* pool = nullptr) : store_(store), pool_(pool) {}

  // See ReplyStore and SessionReplies. What is referred to lives until then.
  Task<std::shared_ptr<SessionReplies>> Create(Loop* loop, SessionId session, ReplyRoom room);
  Task<bool> Keep(Loop* loop, SessionReplies& session, SlotId slot, const KeptReply& reply, bool lasting);
  Task<> Remove(Loop* loop, const std::vector<std::shared_ptr<SessionReplies>>& sessions);

 private:
  ReplyStore& store_;
  Workers* pool_;
};

}  // namespace penstock::nfs::v4
