#include "nfs/v4/operations/lease.h"

#include "nfs/v4/callback/callbacks.h"
#include "nfs/v4/operations/io_state.h"
#include "nfs/v4/operations/local_leases.h"
#include "nfs/v4/operations/many_locks.h"
#include "nfs/v4/state/stable/recovery_queue.h"
#include "nfs/v4/state/stable/reply_writer.h"
#include "nfs/v4/state/state.h"

namespace penstock::nfs::v4 {
namespace {

// Ends a doomed client: first its record in the store, then its state. Returns false, and lets the client live, if the
// store cannot be written. `loses_reclaim` is its owner key if it may not reclaim.
//
// RFC 8881 §8.4.3, the first edge condition: a client must not reclaim state after a restart that another client has
// got meanwhile.
Task<bool> EndDoomed(const Services& services, Loop* loop, ClientId client, OldRecord record,
                     std::optional<std::string> loses_reclaim) {
  const bool removed = !record || co_await services.recovery.Remove(loop, *record);
  if (removed) co_await ForgetInParts(services, loop, client, Ending::kExpired);
  services.state.Run([&](StateTables& state) {
    if (!removed) return state.clients.Reprieve(client);
    if (loses_reclaim) state.clients.grace().Forget(*loses_reclaim);
    state.End(client, services.clock.Now());
  });
  co_return removed;
}

}  // namespace

Task<void> ForgetInParts(const Services& services, Loop* loop, ClientId client, Ending ending) {
  const auto forget = [&](StateTables& state) { return state.files.ForgetPart(client, ending, services.clock.Now()); };
  while (services.state.Run(forget)) co_await PauseBetweenParts(loop);
}

Task<nfs4::nfsstat4> RecordClient(const Services& services, Loop* loop, ClientId client) {
  const auto record = services.state.Run([&](StateTables& state) -> std::optional<RecoveryRecord> {
    if (!state.clients.NeedsRecord(client)) return std::nullopt;
    const Client& known = *state.clients.Find(client);
    return RecoveryRecord{known.key(), known.principal};
  });
  if (!record) co_return nfs4::NFS4_OK;
  if (!co_await services.recovery.Record(loop, *record)) co_return nfs4::NFS4ERR_SERVERFAULT;
  services.state.Run([&](StateTables& state) { state.clients.SetRecorded(client); });
  co_return nfs4::NFS4_OK;
}

Task<bool> ForgetExpired(const Services& services, Loop* loop, ClientId client) {
  std::optional<std::string> seen_by_programs;  // the client's owner key, if local programs see its locks
  bool has_gone = false;
  auto doomed = services.state.Run([&](StateTables& state) {
    const Client* const known = state.clients.Find(client);
    if (known && state.files.locks.HasLocalLocks(client)) seen_by_programs = known->key();
    has_gone = !state.clients.Has(client);
    return state.clients.Doom(client, services.clock.Now());
  });
  if (!doomed) co_return has_gone;
  co_return co_await EndDoomed(services, loop, client, *std::move(doomed), std::move(seen_by_programs));
}

Task<bool> EvictClient(const Services& services, Loop* loop, ClientId client) {
  std::optional<std::string> key;
  auto condemned = services.state.Run([&](StateTables& state) {
    if (const Client* const known = state.clients.Find(client)) key = known->key();
    return state.clients.Condemn(client);
  });
  if (!condemned) co_return false;
  co_return co_await EndDoomed(services, loop, client, *std::move(condemned), std::move(key));
}

Task<bool> MakeRoomForState(const Services& services, Loop* loop) {
  const auto silent = services.state.Run([&](StateTables& state) -> std::optional<ClientId> {
    if (!state.files.opens.IsFull()) return std::nullopt;
    return state.LongestSilent(services.clock.Now());
  });
  if (!silent) co_return false;
  co_return co_await ForgetExpired(services, loop, *silent);
}

Task<void> EndGraceIfDue(const Services& services, Loop* loop) {
  bool is_late = false;
  const auto holders = services.state.Run([&](StateTables& state) -> std::optional<std::vector<ClientId>> {
    const TimePoint now = services.clock.Now();
    Grace& grace = state.clients.grace();
    if (!grace.IsDue(now)) return std::nullopt;
    grace.Close(now);
    is_late = grace.IsClosedFor(services.settings.lease, now);
    return state.Unrecorded();
  });
  if (!holders) co_return;
  // Records the clients with state whose RECLAIM_COMPLETE could not be recorded, because EndGrace() drops their old
  // records. Those that cannot be recorded for a lease may not reclaim after another restart: all other clients, also
  // those of other servers of a cluster, wait for the end of the period.
  for (const ClientId holder : *holders) {
    const nfs4::nfsstat4 recorded = co_await RecordClient(services, loop, holder);
    if (recorded != nfs4::NFS4_OK && !is_late) co_return;
  }
  // RFC 8881 §8.4.3, the second edge condition: from now on other clients may get the state of clients that did not
  // reclaim. If the store cannot remove these, the grace period continues.
  if (!co_await services.recovery.EndGrace(loop)) co_return;
  services.state.Run([&](StateTables& state) { state.clients.grace().End(); });
}

Task<void> KeepLeases(const Services& services, Loop* loop) {
  co_await EndGraceIfDue(services, loop);
  services.state.Run([&](StateTables& state) { state.ReduceDelegations(services.clock.Now()); });
  std::vector<ClientId> over;
  std::vector<std::shared_ptr<SessionReplies>> ended;
  std::vector<std::shared_ptr<StreamStorage>> ended_bound;
  std::vector<sess01::Reservation> lowered;
  services.state.Run([&](StateTables& state) {
    over = state.Sweep(services.clock.Now());
    ended = state.sessions.TakeEnded(services.clock.Now());
    ended_bound = state.bound_sessions.TakeEndedStorage();
    lowered = state.bound_sessions.TakeLowered();
    state.BalanceReplies(services.clock.Now());
  });
  if (services.replies) {
    for (const auto& each : lowered) co_await services.replies->Reserve(loop, *each.storage, each.channels);
    co_await services.replies->Remove(loop, ended);
    co_await services.replies->Remove(loop, ended_bound);
  }
  for (const ClientId client : over) co_await ForgetExpired(services, loop, client);
  co_await RecallForLocalPrograms(services, loop);
  services.state.Run([&](StateTables& state) { state.files.locks.EndTurns(services.clock.Now()); });
}

}  // namespace penstock::nfs::v4
