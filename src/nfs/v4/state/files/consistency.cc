// Checks of the invariants of opens, locks, delegations and their records. Debug builds, tests and fuzzers run them.
#include <algorithm>
#include <utility>
#include <vector>

#include "nfs/v4/state/files/files.h"

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

bool Lists(const FileOpens& opens, const OpenState& open) {
  return opens.Find({open.owner, open.handle.export_id}) == &open;
}

// Whether the file of a record lists the record.
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

// Whether an open record is a file's, rather than a closed one's.
bool IsOpen(const StateRecord* record) { return record->kind == StateKind::kOpen && record->file; }

const char* CheckOpenOwners(const ClientFiles& client) {
  for (const auto& [name, owner] : client.open_owners) {
    const auto own = [&](const StateRecord* record) {
      return IsOpen(record) && static_cast<const OpenState*>(record)->owner == owner.get();
    };
    if (owner->name != name || owner->client != &client) return "an open-owner is not its client's";
    if (owner->opens.size() != Count(client.states, own)) return "an open-owner has not as many opens as it counts";
    if (owner->closed && (owner->closed->file || owner->closed->owner != owner.get())) return "a closed open is open";
    if (owner->idle && (!owner->opens.empty() || *owner->idle->in_client != owner.get())) {
      return "an idle open-owner is not idle";
    }
  }
  return nullptr;
}

const char* CheckLockOwners(const ClientFiles& client) {
  for (const auto& [name, owner] : client.lock_owners) {
    if (owner->name != name || owner->client != &client) return "a lock-owner is not its client's";
    if (owner->locks.empty()) return "a lock-owner without locks is kept";
  }
  return nullptr;
}

}  // namespace

const char* StateRecords::FindInconsistency() const {
  for (const auto& [name, file] : files_) {
    if (file->name != name) return "a file is where another one should be";
    if (file->opens.empty() && file->delegations.empty()) return "a file without state is kept";
  }
  size_t states = 0;
  for (const auto& [id, client] : clients_) {
    if (client->id != id) return "a client is where another one should be";
    for (auto at = client->states.begin(); at != client->states.end(); ++at) {
      StateRecord& record = **at;
      if (record.client != client.get() || record.in_client != at) return "a state is not its client's";
      if (ids_.RecordOf(ids_.IdOf(record)) != &record) return "a stateid leads elsewhere";
      if (record.file && FindFile(record.file->name) != record.file) return "a state is of a file that has gone";
      if (!IsListed(record)) return "a file does not know of a state";
    }
    states += client->states.size();
  }
  return states == ids_.size() ? nullptr : "the total of states is wrong";
}

const char* OpenOwners::FindInconsistency() const {
  size_t owners = 0, idle = 0;
  for (const auto& [id, client] : records_.clients()) {
    if (const char* wrong = CheckOpenOwners(*client)) return wrong;
    const auto closed = [](const StateRecord* record) { return record->kind == StateKind::kOpen && !record->file; };
    if (Count(client->states, closed) != client->closed) return "a client has not as many closed opens as it counts";
    owners += client->open_owners.size();
    idle += client->idle.size();
  }
  return owners == count_ && idle == idle_.size() ? nullptr : "the totals of open-owners are wrong";
}

const char* Opens::FindInconsistency() const {
  size_t denials = 0;
  for (const auto& [name, file] : records_.files()) {
    if (file->opens.empty() && (!file->pins.empty() || !file->queue.empty()))
      return "a file that is not open is pinned";
    if (const char* wrong = CheckOpens(*file)) return wrong;
    denials += Count(file->opens.all(), [](const auto& open) { return open.second->share.deny != 0; });
  }
  return denials == denials_ ? nullptr : "the total of denials is wrong";
}

const char* Locks::FindInconsistency() const {
  for (const auto& [name, file] : records_.files()) {
    if (const char* wrong = CheckLocks(*file)) return wrong;
  }
  size_t all = 0;
  for (const auto& [id, client] : records_.clients()) {
    if (const char* wrong = CheckLockOwners(*client)) return wrong;
    size_t ranges = 0, local_ranges = 0;
    for (const StateRecord* record : client->states) {
      if (record->kind != StateKind::kLocks) continue;
      const auto& locks = static_cast<const LockState&>(*record);
      ranges += locks.ranges.size();
      if (locks.local) local_ranges += locks.ranges.size();
    }
    if (ranges != client->ranges || local_ranges != client->local_ranges) {
      return "a client has not as many locked ranges as it counts";
    }
    all += ranges;
  }
  return all == ranges_ ? nullptr : "the total of locked ranges is wrong";
}

const char* Delegations::FindInconsistency() const {
  size_t leased = 0, broken = 0;
  for (const auto& [name, file] : records_.files()) {
    if (const char* wrong = CheckDelegations(*file)) return wrong;
    if (file->lease) ++(file->lease_broken ? broken : leased);
  }
  if (leased != leased_.size() || broken != broken_.size()) return "there are not as many leases as are listed";
  size_t all = 0, unrecalled = 0;
  for (const auto& [id, client] : records_.clients()) {
    size_t delegations = 0, revoked = 0;
    for (const StateRecord* record : client->states) {
      if (record->kind != StateKind::kDelegation) continue;
      ++(static_cast<const DelegationState*>(record)->revoked ? revoked : delegations);
    }
    if (delegations != client->delegations || revoked != client->revoked) {
      return "a client has not as many delegations as it counts";
    }
    all += delegations;
    unrecalled += client->unrecalled.size();
  }
  if (all != count_) return "the total of delegations is wrong";
  return unrecalled == unrecalled_.size() && all == unrecalled + recalled_.size() ? nullptr : "recalls are wrong";
}

const char* Files::FindInconsistency() const {
  for (const char* wrong : {records_.FindInconsistency(), owners.FindInconsistency(), opens.FindInconsistency(),
                            locks.FindInconsistency(), delegations.FindInconsistency()}) {
    if (wrong) return wrong;
  }
  return nullptr;
}

}  // namespace penstock::nfs::v4
