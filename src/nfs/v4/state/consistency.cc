// Checks of the invariants of the tables. Debug builds, tests and fuzzers run them.
#include <algorithm>
#include <utility>

#include "nfs/v4/state/tables.h"

namespace penstock::nfs::v4 {
namespace {

// Pairs of different elements, each once.
template <class Range, class Predicate>
bool AnyPair(const Range& range, Predicate predicate) {
  for (auto one = range.begin(); one != range.end(); ++one) {
    if (std::any_of(std::next(one), range.end(), [&](const auto& other) { return predicate(*one, other); }))
      return true;
  }
  return false;
}

template <class Range, class Predicate>
size_t Count(const Range& range, Predicate predicate) {
  return static_cast<size_t>(std::ranges::count_if(range, predicate));
}

const char* CheckOpens(const FileState& file) {
  std::vector<OpenState*> opens;
  for (const auto& [opener, open] : file.opens.all()) {
    if (opener.owner != open->owner || opener.by != open->handle.export_id)
      return "an open is where another one should be";
    opens.push_back(open);
  }
  for (const OpenState* open : opens) {
    if (open->file != &file || open->owner->client != open->client) return "an open is not of its file or client";
    if (open->share != open->history.Union()) return "an open has another share than its OPENs add up to";
  }
  if (AnyPair(opens, [](const auto* a, const auto* b) { return Conflict(a->share, b->share); })) {
    return "one has open what another denies";
  }
  return nullptr;
}

const char* CheckRanges(const LockRanges& locks) {
  const std::vector<LockedRange> ranges(locks.ranges().begin(), locks.ranges().end());
  for (size_t i = 0; i < ranges.size(); ++i) {
    if (ranges[i].range.first > ranges[i].range.last) return "a locked range is empty";
    if (i == 0) continue;
    const LockedRange& before = ranges[i - 1];
    if (before.range.last >= ranges[i].range.first) return "ranges of one owner overlap";
    const bool meet = before.range.last + 1 == ranges[i].range.first;
    if (meet && before.exclusive == ranges[i].exclusive) return "ranges that meet are not one";
  }
  return nullptr;
}

const char* CheckLocks(const FileState& file) {
  if (const char* wrong = file.held.FindInconsistency()) return wrong;
  size_t held = 0;
  for (const auto& [opener, open] : file.opens.all()) {
    for (const LockState* locks : open->locks) {
      if (locks->file != &file || locks->owner->client != locks->client) return "locks are not of their file or client";
      if (locks->open != open) return "locks are not of their open";
      const auto of_owner = locks->owner->locks.find({&file, open->handle.export_id});
      if (of_owner == locks->owner->locks.end() || of_owner->second != locks) {
        return "a lock-owner has not one state on a file";
      }
      if (const char* wrong = CheckRanges(locks->ranges)) return wrong;
      held += locks->ranges.size();
      const auto in_the_way = [&](const LockedRange& one) {
        return file.held.FindConflict(one.range, one.exclusive, locks).has_value();
      };
      if (std::ranges::any_of(locks->ranges.ranges(), in_the_way)) return "two have locked what only one may have";
    }
  }
  return held == file.held.size() ? nullptr : "a file has other locked ranges than its lock-owners";
}

const char* CheckDelegations(const FileState& file) {
  for (const auto& [party, delegation] : file.delegations) {
    if (PartyOf(*delegation) != party) return "a delegation is where another one should be";
    if (delegation->file != &file || delegation->name != file.name) return "a delegation is not of its file";
    if (delegation->revoked) return "a file has a delegation that is revoked";
  }
  const size_t writes = Count(file.delegations, [](const auto& held) { return held.second->write; });
  if (file.lease && file.delegations.size() == writes) return "a lease without a delegation for reading is kept";
  return writes == file.write_delegations.size() ? nullptr : "a file has not as many write delegations as it lists";
}

const char* CheckOwners(const ClientFiles& client) {
  for (const auto& [name, owner] : client.open_owners) {
    const auto own = [&](const StateRecord* record) {
      return record->kind == StateKind::kOpen && record->file &&
             static_cast<const OpenState*>(record)->owner == owner.get();
    };
    if (owner->name != name || owner->client != &client) return "an open-owner is not its client's";
    if (owner->opens.size() != Count(client.states, own)) return "an open-owner has not as many opens as it counts";
    if (owner->closed && (owner->closed->file || owner->closed->owner != owner.get())) return "what is closed is open";
    if (owner->idle && (!owner->opens.empty() || *owner->idle->in_client != owner.get())) {
      return "an idle open-owner is not idle";
    }
  }
  for (const auto& [name, owner] : client.lock_owners) {
    if (owner->name != name || owner->client != &client) return "a lock-owner is not its client's";
    if (owner->locks.empty()) return "a lock-owner without locks is kept";
  }
  return nullptr;
}

struct Counts {
  size_t ranges = 0, local_ranges = 0, delegations = 0, revoked = 0, closed = 0;
  bool operator==(const Counts&) const = default;
};

Counts CountStates(const ClientFiles& client) {
  Counts counts;
  for (const StateRecord* record : client.states) {
    if (record->kind == StateKind::kLocks) {
      const auto& locks = static_cast<const LockState&>(*record);
      counts.ranges += locks.ranges.size();
      if (locks.local) counts.local_ranges += locks.ranges.size();
    }
    if (record->kind == StateKind::kOpen && !record->file) ++counts.closed;
    if (record->kind == StateKind::kDelegation) {
      ++(static_cast<const DelegationState*>(record)->revoked ? counts.revoked : counts.delegations);
    }
  }
  return counts;
}

bool Lists(const FileOpens& opens, const OpenState& open) {
  return opens.Find({open.owner, open.handle.export_id}) == &open;
}

// Whether what a client's state says of its file is what the file says of it.
bool IsListed(const StateRecord& record) {
  if (!record.file) return true;
  const FileState& file = *record.file;
  switch (record.kind) {
    case StateKind::kOpen:
      return Lists(file.opens, static_cast<const OpenState&>(record));
    case StateKind::kLocks:
      return Lists(file.opens, *static_cast<const LockState&>(record).open);
    case StateKind::kDelegation:
      return file.delegations.contains(PartyOf(static_cast<const DelegationState&>(record)));
  }
  return false;
}

}  // namespace

const char* Files::FindInconsistency() const {
  size_t denials = 0, leased = 0, broken = 0;
  for (const auto& [name, file] : files_) {
    if (file->name != name) return "a file is where another one should be";
    if (file->opens.empty() && file->delegations.empty()) return "a file without state is kept";
    if (file->opens.empty() && (!file->pins.empty() || !file->queue.empty()))
      return "a file that is not open is pinned";
    for (const char* wrong : {CheckOpens(*file), CheckLocks(*file), CheckDelegations(*file)}) {
      if (wrong) return wrong;
    }
    if (file->lease) ++(file->lease_broken ? broken : leased);
    denials += Count(file->opens.all(), [](const auto& open) { return open.second->share.deny != 0; });
  }
  if (leased != leased_.size() || broken != broken_.size()) return "there are not as many leases as are listed";
  size_t states = 0, delegations = 0, owners = 0, ranges = 0, idle = 0, unrecalled = 0;
  for (const auto& [id, client] : clients_) {
    if (client->id != id) return "a client is where another one should be";
    for (auto at = client->states.begin(); at != client->states.end(); ++at) {
      StateRecord& record = **at;
      if (record.client != client.get() || record.in_client != at) return "a state is not its client's";
      const auto found = ids_.Find({}, ids_.IdOf(record));
      if (!found || *found != &record) return "a stateid leads elsewhere";
      if (record.file && FindFile(record.file->name) != record.file) return "a state is of a file that has gone";
      if (!IsListed(record)) return "a file does not know of a state";
    }
    if (const char* wrong = CheckOwners(*client)) return wrong;
    const Counts counted{client->ranges, client->local_ranges, client->delegations, client->revoked, client->closed};
    if (CountStates(*client) != counted) {
      return "a client has not as many states as it counts";
    }
    states += client->states.size();
    delegations += client->delegations;
    owners += client->open_owners.size();
    ranges += client->ranges;
    idle += client->idle.size();
    unrecalled += client->unrecalled.size();
  }
  if (states != ids_.size() || delegations != delegations_ || denials != denials_) return "the totals are wrong";
  if (owners != owners_ || ranges != ranges_ || idle != idle_.size()) return "the totals are wrong";
  if (unrecalled != unrecalled_.size() || delegations != unrecalled + recalled_.size()) return "recalls are wrong";
  return nullptr;
}

const char* Clients::FindInconsistency() const {
  size_t unconfirmed = 0;
  for (const auto& [id, client] : clients_) {
    const auto owner = owners_.find(client->key());
    if (client->id != id || owner == owners_.end()) return "a client is where another one should be";
    const Client* named = client->confirmed ? owner->second.confirmed : owner->second.unconfirmed;
    if (named != client.get()) return "an owner's name leads to another client";
    if (!client->confirmed) ++unconfirmed;
    if (!client->confirmed && !client->sessions.empty()) return "a client that is not confirmed has a session";
  }
  for (const auto& [name, owner] : owners_) {
    for (const Client* client : {owner.confirmed, owner.unconfirmed}) {
      if (client && (!clients_.contains(client->id) || client->key() != name)) return "an owner has an unknown client";
    }
    if (!owner.confirmed && !owner.unconfirmed) return "a name without clients is kept";
  }
  if (by_renewal_.size() != clients_.size()) return "there are not as many clients in the order of their renewal";
  return unconfirmed == unconfirmed_count_ ? nullptr : "the totals of clients are wrong";
}

const char* Sessions::FindInconsistency() const {
  size_t owned = 0, persistent = 0, kept = 0, there = 0;
  const char* wrong = nullptr;
  clients_.ForEach([&](const Client& client) {
    size_t requests = 0;
    for (const SessionId& id : client.sessions) {
      const Session* known = Find(id);
      if (!known || known->client != &client) {
        wrong = "a client's session is not its own";
        return;
      }
      requests += known->slots.busy();
    }
    owned += client.sessions.size();
    if (requests != client.requests) wrong = "a client has not as many requests under way as it counts";
  });
  if (wrong) return wrong;
  for (const auto& session : sessions_) {
    if (!session) continue;
    // Each client lists its own sessions, so a session that no client lists belongs to a client that has gone.
    if (session->replies && !session->persistent) return "a session keeps replies and is not persistent";
    if (session->persistent) ++persistent;
    kept += session->slots.kept_octets();
    ++there;
  }
  if (owned != there) return "a session has outlived its client";
  if (there != session_count_ || there + free_sessions_.size() != sessions_.size()) {
    return "there are not as many sessions as are counted";
  }
  return persistent == persistent_count_ && kept == kept_octets_ ? nullptr : "the totals of sessions are wrong";
}

const char* StateTables::FindInconsistency() const {
  for (const char* wrong : {clients.FindInconsistency(), sessions.FindInconsistency(), files.FindInconsistency()}) {
    if (wrong) return wrong;
  }
  return nullptr;
}

}  // namespace penstock::nfs::v4
