// Persistent sessions of earlier runs of the server (RFC 8881 §2.10.6.5): they give the replies that were kept, and take
// nothing new. Their client IDs are not known any more (NFS4ERR_STALE_CLIENTID): the clients make new ones once they have
// their answers.
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
  // Each is forgotten that nobody asks for so long; at once, where it has kept no reply. Linux (6.1) gives up the opens
  // and locks for which a request that reclaims them gets NFS4ERR_DEADSESSION, as it would where the server has started
  // again in the middle of that; NFS4ERR_BADSESSION has it begin anew.
  DeadSessions(std::vector<SavedSession> sessions, Duration patience, TimePoint now);

  bool Has(const SessionId& id) const { return sessions_.contains(id); }
  // What SEQUENCE does: the reply that was kept. NFS4ERR_BADSLOT, NFS4ERR_SEQ_FALSE_RETRY; NFS4ERR_DEADSESSION for all
  // that was not recorded.
  Result<xdr::Message, nfs4::nfsstat4> Retry(const SessionId& id, const ReplySlots::Request& request, TimePoint now);
  // False: no such session.
  bool End(const SessionId& id);
  // Forgets those whose time is over. The storage of all that have ended is to be removed.
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
