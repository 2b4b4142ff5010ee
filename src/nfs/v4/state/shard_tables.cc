#include "nfs/v4/state/shard_tables.h"

namespace penstock::nfs::v4 {

Result<Sessions::StartedRequest, nfs4::nfsstat4> ShardTables::StartRequest(const nfs4::SEQUENCE4args& arguments,
                                                                           const Sessions::RequestFacts& facts,
                                                                           const SessionConnection& connection,
                                                                           TimePoint now) {
  assert(Shard::Of(arguments.sa_sessionid) == shard_);
  auto started = tables_.sessions.StartRequest(arguments, facts, connection, now);
  if (!started || started->outcome == Sessions::Outcome::kReplay) return started;
  const Files& files = tables_.files;
  uint32_t& flags = started->sequence.sr_status_flags;
  if (files.delegations.HasRevoked(started->client)) flags |= nfs4::SEQ4_STATUS_RECALLABLE_STATE_REVOKED;
  if (files.HasRevokedByOperator(started->client)) flags |= nfs4::SEQ4_STATUS_ADMIN_STATE_REVOKED;
  if (files.HasMoved(started->client, now)) flags |= nfs4::SEQ4_STATUS_LEASE_MOVED;
  return started;
}

}  // namespace penstock::nfs::v4
