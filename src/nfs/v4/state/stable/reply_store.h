// The reply store keeps the replies of persistent sessions, so that they outlive the server (RFC 8881 §2.10.6.5).
//
// A reply is kept before it is sent. After a restart its session is dead (DeadSessions): it repeats the kept replies
// and executes no request. So the server need not know which requests were begun and not finished: a request without a
// kept reply, new or half done, gets NFS4ERR_DEADSESSION, and no request is executed twice. This also holds for
// requests whose replies are not kept. A session without any kept reply is unknown (NFS4ERR_BADSESSION).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "nfs/v4/state/ids.h"
#include "xdr/message.h"

namespace penstock::nfs::v4 {

struct KeptReply {
  SequenceId sequence{0};
  uint64_t digest = 0;     // see RequestDigest()
  xdr::Message results{};  // the results of the COMPOUND; they own their memory
};

// The room that a session has for its replies.
struct ReplyRoom {
  uint32_t slots = 0;
  uint32_t reply = 0;  // octets of one reply, unreduced
  uint32_t items = 0;  // payloads in one reply
};

// The store of one session's replies. Calls block, on any thread; one at a time for each slot.
class SessionReplies {
 public:
  virtual ~SessionReplies() = default;
  // Keeps a reply in place of the slot's last one. If it returns true, the reply outlives the process and, if
  // `lasting`, a power failure. Requires that the reply fits into the room that was asked for.
  virtual bool Keep(SlotId slot, const KeptReply& reply, bool lasting) = 0;
  // Forgets the session. Calls of Keep() that are still under way fail, or their replies are lost.
  virtual void Remove() = 0;
};

// A session that is found after a restart.
struct SavedSession {
  SessionId id;
  std::vector<std::optional<KeptReply>> slots;
  std::shared_ptr<SessionReplies> storage;
};

// Calls block, on any thread.
class ReplyStore {
 public:
  virtual ~ReplyStore() = default;
  // Returns the sessions that earlier runs of the server have kept. Call it once, before all other methods.
  virtual std::vector<SavedSession> Load() = 0;
  // Takes the room for the replies of a session, so that it does not run out later. Returns null if there is no room or
  // the storage fails; then the session cannot be persistent.
  virtual std::shared_ptr<SessionReplies> Create(const SessionId& session, const ReplyRoom& room) = 0;
};

// Keeps the replies in memory, for as long as the process runs. Tests restart servers with it.
class MemoryReplyStore : public ReplyStore {
 public:
  MemoryReplyStore();
  ~MemoryReplyStore() override;
  std::vector<SavedSession> Load() override;
  std::shared_ptr<SessionReplies> Create(const SessionId& session, const ReplyRoom& room) override;

 private:
  class Session;
  struct Shared;
  std::shared_ptr<Shared> shared_;
};

// Opens the store in a directory, which is created if necessary; it has a file for each session. Returns an error if a
// file in it is foreign, damaged or unreadable. A file whose creation was interrupted is removed.
SetupResult<std::unique_ptr<ReplyStore>> OpenReplyStore(const std::string& directory);

}  // namespace penstock::nfs::v4
