#include "nfs/v4/state/tables.h"

#include <utility>

namespace penstock::nfs::v4 {

StateTables::StateTables(Beginning beginning)
    : clients(beginning.settings, beginning.instance, std::move(beginning.grace)),
      slot_limit(beginning.settings),
      sessions(beginning.settings, beginning.instance, clients, slot_limit, std::move(beginning.dead_sessions)),
      bound_sessions(beginning.settings, clients),
      files(beginning.instance, beginning.secret, beginning.limits) {
  if (beginning.bound_sessions.empty()) return;
  Restore(std::move(beginning.bound_sessions), *beginning.bound_dialect, beginning.now);
}

Sessions::CreateResult StateTables::CreateSession(Sessions::CreateRequest asked, const SessionConnection& connection,
                                                  const Sender& sender, uint64_t random, TimePoint now) {
  if (auto answer = sessions.AnswerWithoutCreating(asked, connection, sender)) return *std::move(answer);
  Client& client = *clients.FindAny(asked.client);
  if (!client.confirmed) MakeConfirmed(client, now);
  return sessions.Create(client, std::move(asked), connection, random, now);
}

void StateTables::MakeConfirmed(Client& client, TimePoint now) {
  if (const Client* before = clients.OfOwner(client.dialect, client.owner).confirmed) {
    // The recovery store knows both clients by the same name. The record of a doomed client is about to leave the
    // store.
    client.recorded = before->recorded && !before->doomed && before->principal == client.principal;
    End(before->id, now);
  }
  clients.MakeConfirmed(client, now);
}

void StateTables::End(ClientId id, TimePoint now) {
  Client* const client = clients.FindAny(id);
  if (client) sessions.EndAll(*client);
  if (client && client->bound_session) bound_sessions.End(uint64_t{*client->bound_session});
  files.ForgetClient(id, Ending::kExpired, now);
  offloads.ForgetClient(id);
  copy_notices.ForgetClient(id);
  if (client) clients.Remove(*client, HoldingsForgotten());
}

LockHost* StateTables::GetLockHost(const LockHostName& name, TimePoint now) {
  LockHost* host = lock_hosts.Find(name);
  if (!host && !lock_hosts.HasRoom(name.address)) return nullptr;
  if (!host) host = &lock_hosts.Add(name, now);
  lock_hosts.Use(*host, now);
  return host;
}

void StateTables::EndLockHost(LockHost& host, TimePoint now) {
  files.ForgetClient(host.id, Ending::kReleased, now);
  lock_hosts.Remove(host);
}

bool StateTables::CanCall(ClientId id) const {
  const Client* client = clients.Find(id);
  if (!client) return false;
  switch (client->dialect.session_kind()) {
    case SessionKind::kNone:
      return client->path == PathState::kWorks;
    case SessionKind::kSlots:
      return sessions.CanCall(*client);
    case SessionKind::kBound:
      return bound_sessions.CanCall(*client);
  }
  std::unreachable();
}

OldRecord StateTables::EndForGood(ClientId id, TimePoint now) {
  const Client& client = *clients.FindAny(id);
  OldRecord record = client.confirmed ? clients.RecordOf(client) : std::nullopt;
  // A destroyed client has nothing to reclaim.
  if (record) clients.grace().Complete(*record, client.principal);
  End(id, now);
  return record;
}

std::vector<ClientId> StateTables::Sweep(TimePoint now) {
  bound_sessions.Sweep();
  bound_sessions.EndOverdueRecalls(now);
  std::vector<Client*> stale;
  std::vector<ClientId> over;
  // RFC 8881 §8.4.3: the state of a silent client may stay until another client asks for it. Local programs do not ask
  // the server before they lock, so locks that they see end with the lease. A client that comes back does not get these
  // locks again: a program may have had them meanwhile, and the kernel does not tell.
  const auto may_stay = [&](ClientId id) { return files.HasState(id) && !files.locks.HasLocalLocks(id); };
  for (const auto& list : clients.by_renewal()) {
    for (Client* client : list) {
      if (!clients.IsSilent(*client, now)) break;
      if (client->doomed || Clients::HasRequests(*client)) continue;
      if (!client->confirmed) {
        stale.push_back(client);
      } else if (clients.IsCrowded() || clients.IsBeyondCourtesy(*client, now) || !may_stay(client->id) ||
                 files.delegations.HasSurplus(client->id)) {
        over.push_back(client->id);
      }
    }
  }
  for (Client* client : stale) clients.RemoveUnconfirmed(*client);
  return over;
}

void StateTables::BalanceReplies(TimePoint now) {
  using Change = SlotLimit::Change;
  size_t kept = sessions.kept_octets() + bound_sessions.kept_octets();
  if (slot_limit.IsExceededBy(kept)) {
    bound_sessions.ForgetReplies(now);
    // A session that cannot be asked would only make the others smaller.
    kept = sessions.kept_octets() + bound_sessions.recallable_octets();
  }
  const Change change = slot_limit.Adapt(kept, now);
  if (change == Change::kNone) return;
  auto recalls = sessions.FollowSlotLimit();
  if (change != Change::kLowered) return;
  slot_recalls = std::move(recalls);
  bound_sessions.RecallCredits(slot_limit.get(), sessions.session_count());
}

void StateTables::ReduceDelegations(TimePoint now) {
  using Reach = Delegations::Reach;
  files.delegations.ReduceSurplus(now, [&](ClientId id) {
    const Client* const client = clients.Find(id);
    if (!client || clients.IsExpired(id, now)) return Reach::kNone;  // Sweep() ends the client
    return client->dialect.has_recall_any() ? Reach::kRecallAny : Reach::kRecall;
  });
}

std::optional<ClientId> StateTables::LongestSilent(TimePoint now) const {
  const Client* longest = nullptr;
  const auto is_one = [&](const Client* client) {
    const bool known = client->confirmed && !client->doomed;
    return known && !Clients::HasRequests(*client) && files.HasState(client->id);
  };
  for (const auto& list : clients.by_renewal()) {
    for (const Client* client : list) {
      if (!clients.IsSilent(*client, now) || (longest && longest->renewed <= client->renewed)) break;
      if (!is_one(client)) continue;
      longest = client;
      break;
    }
  }
  return longest ? std::optional(longest->id) : std::nullopt;
}

std::vector<ClientId> StateTables::Unrecorded() const {
  std::vector<ClientId> unrecorded;
  clients.ForEach([&](const Client& client) {
    if (clients.NeedsRecord(client.id) && files.HasState(client.id)) unrecorded.push_back(client.id);
  });
  return unrecorded;
}

bool StateTables::owes() const {
  return files.delegations.has_recalls() || files.delegations.has_recall_anys() || files.locks.has_notices() ||
         !slot_recalls.empty() || bound_sessions.owes();
}

Owed StateTables::TakeOwed() {
  return {.recalls = files.delegations.TakeRecalls(),
          .recall_anys = files.delegations.TakeRecallAnys(),
          .notices = files.locks.TakeNotices(),
          .host_notices = files.locks.TakeHostNotices(),
          .slot_recalls = std::exchange(slot_recalls, {}),
          .credit_recalls = bound_sessions.TakeRecalls(),
          .closings = bound_sessions.TakeClosings(),
          .ended_waits = bound_sessions.TakeEndedWaits()};
}

}  // namespace penstock::nfs::v4
