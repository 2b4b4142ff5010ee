// Persistent sessions of earlier runs of the server (RFC 8881 §2.10.6.5). They repeat the replies that were kept, and
// accept no new request. Their client IDs are unknown now (NFS4ERR_STALE_CLIENTID); the clients get new ones once they
// have their replies.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "base/result.h"
#include "base/timer.h"
#include "nfs/v4/state/sessions/reply_slots.h"
#include "nfs/v4/state/stable/reply_store.h"

namespace penstock::nfs::v4 {

class DeadSessions {
 public:
  DeadSessions() = default;
  // A session is forgotten if its client sends no request for the time `patience`, or at once if it has kept no reply.
  // Linux (6.1) gives up opens and locks if the request that reclaims them gets NFS4ERR_DEADSESSION, as it would if the
  // server restarted during the reclaim; after NFS4ERR_BADSESSION it begins anew.
  DeadSessions(std::vector<SavedSession> sessions, Duration patience, TimePoint now);

  bool Has(const SessionId& id) const { return sessions_.contains(id); }
  // Returns the kept reply to a request, as SEQUENCE does. NFS4ERR_BADSLOT, NFS4ERR_SEQ_FALSE_RETRY;
  // NFS4ERR_DEADSESSION if no reply to the request was kept.
  Result<xdr::Message, nfs4::nfsstat4> Retry(const SessionId& id, const ReplySlots::Request& request, TimePoint now);
  // Ends a session. Returns false if there is no such session.
  bool End(const SessionId& id);
  // Forgets the sessions whose clients have sent no retry for too long. Returns the storage of all sessions that have
  // ended; the caller removes it.
  std::vector<std::shared_ptr<SessionReplies>> TakeEnded(TimePoint now);

  size_t size() const { return sessions_.size(); }

 private:
  struct Entry {
    SavedSession saved;
    TimePoint asked;
  };

  std::map<SessionId, Entry> sessions_;
  std::vector<std::shared_ptr<SessionReplies>> ended_;
  Duration patience_{};
};

}  // namespace penstock::nfs::v4
