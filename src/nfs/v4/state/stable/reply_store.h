// The replies of persistent sessions, kept where they outlive the server (RFC 8881 §2.10.6.5).
//
// A reply is kept before it is sent. After a restart its session is dead (DeadSessions): it gives the replies that were
// kept and executes nothing any more. So it need not be known what was begun and not ended: whatever is not here is
// answered NFS4ERR_DEADSESSION, be it new or half done, and nothing is executed twice. That also holds for requests
// that were not to be kept; nothing is written for those.
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
  xdr::Message results{};  // of the COMPOUND, in memory of their own
};

// How much a session may keep.
struct ReplyRoom {
  uint32_t slots = 0;
  uint32_t reply = 0;  // octets of one, unreduced
  uint32_t items = 0;  // payloads in one
};

// Where one session's replies are kept. Calls block, on any thread; one at a time for each slot.
class SessionReplies {
 public:
  virtual ~SessionReplies() = default;
  // In place of what the slot had before. Once it returns true the reply outlives the process, and where `lasting` a
  // failure of the power. The reply is within the room that was asked for.
  virtual bool Keep(SlotId slot, const KeptReply& reply, bool lasting) = 0;
  // Forgets the session. What is still to be kept for it fails, or is lost.
  virtual void Remove() = 0;
};

// What is found of a session after a restart.
struct SavedSession {
  SessionId id;
  std::vector<std::optional<KeptReply>> slots;
  std::shared_ptr<SessionReplies> storage;
};

// Calls block, on any thread.
class ReplyStore {
 public:
  virtual ~ReplyStore() = default;
  // What earlier runs of the server have kept; once, before everything else.
  virtual std::vector<SavedSession> Load() = 0;
  // Null where there is no room, or the storage fails: the session cannot be persistent. Its room is taken here, so
  // that it does not run out later.
  virtual std::shared_ptr<SessionReplies> Create(const SessionId& session, const ReplyRoom& room) = 0;
};

// Forgets everything with the process. Also what tests restart a server with.
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

// In a directory, which is made where it is not there: a file for each session. An error where something in it is not
// ours, is damaged, or cannot be read; a file whose making was not ended is thrown away.
SetupResult<std::unique_ptr<ReplyStore>> OpenReplyStore(const std::string& directory);

}  // namespace penstock::nfs::v4
