// Checks the invariants of opens, locks, delegations and their records. Debug builds, tests and fuzzers run the checks.
#include <algorithm>
#include <utility>
#include <vector>

#include "nfs/v4/state/files/files.h"

namespace penstock::nfs::v4 {
namespace {

// Whether `predicate` holds for any pair of different elements. Each pair is tested once.
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
      return "an open is listed under another owner or export";
    opens.push_back(open);
  }
  for (const OpenState* open : opens) {
    if (open->file != &file || open->owner->client != open->client)
      return "an open refers to another file or client than its list and its owner do";
    if (open->share != open->history.Union()) return "the share of an open is not the union of its OPENs";
  }
  if (AnyPair(opens, [](const auto* a, const auto* b) { return Conflict(a->share, b->share); })) {
    return "two opens of a file have conflicting shares";
  }
  return nullptr;
}

const char* CheckRanges(const LockRanges& locks) {
  const std::vector<LockedRange> ranges(locks.ranges().begin(), locks.ranges().end());
  for (size_t i = 0; i < ranges.size(); ++i) {
    if (ranges[i].range.first > ranges[i].range.last) return "a locked range ends before it begins";
    if (i == 0) continue;
    const LockedRange& before = ranges[i - 1];
    if (before.range.last >= ranges[i].range.first) return "locked ranges of one owner overlap";
    const bool meet = before.range.last + 1 == ranges[i].range.first;
    if (meet && before.exclusive == ranges[i].exclusive)
      return "adjacent locked ranges of one owner and one kind are not merged";
  }
  return nullptr;
}

const char* CheckLocks(const FileState& file) {
  if (const char* wrong = file.held.FindInconsistency()) return wrong;
  size_t held = 0;
  for (const auto& [opener, open] : file.opens.all()) {
    for (const LockState* locks : open->locks) {
      if (locks->file != &file || locks->owner->client != locks->client)
        return "a lock state refers to another file or client than its list and its owner do";
      if (locks->open != open) return "a lock state refers to another open than the one that lists it";
      const auto of_owner = locks->owner->locks.find({&file, open->handle.export_id});
      if (of_owner == locks->owner->locks.end() || of_owner->second != locks) {
        return "a lock-owner does not list its lock state of a file";
      }
      if (const char* wrong = CheckRanges(locks->ranges)) return wrong;
      held += locks->ranges.size();
      const auto in_the_way = [&](const LockedRange& one) {
        return file.held.FindConflict(one.range, one.exclusive, locks).has_value();
      };
      if (std::ranges::any_of(locks->ranges.ranges(), in_the_way))
        return "two lock-owners hold conflicting ranges of a file";
    }
  }
  return held == file.held.size() ? nullptr : "the number of held ranges of a file is not the sum over its lock-owners";
}

const char* CheckDelegations(const FileState& file) {
  for (const auto& [party, delegation] : file.delegations) {
    if (PartyOf(*delegation) != party) return "a delegation is listed under another client or export";
    if (delegation->file != &file || delegation->name != file.name)
      return "a delegation refers to another file than the one that lists it";
    if (delegation->revoked) return "a file lists a revoked delegation";
  }
  const size_t writes = Count(file.delegations, [](const auto& held) { return held.second->write; });
  if (file.lease && file.delegations.size() == writes)
    return "a file without a read delegation has a lease of the file system";
  return writes == file.write_delegations.size() ? nullptr
                                                 : "the list of write delegations of a file has a wrong length";
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

// Whether the record is an open that is not closed yet.
bool IsOpen(const StateRecord* record) { return record->kind == StateKind::kOpen && record->file; }

const char* CheckOpenOwners(const ClientFiles& client) {
  for (const auto& [name, owner] : client.open_owners) {
    const auto own = [&](const StateRecord* record) {
      return IsOpen(record) && static_cast<const OpenState*>(record)->owner == owner.get();
    };
    if (owner->name != name || owner->client != &client)
      return "an open-owner has another name or client than its list";
    if (owner->opens.size() != Count(client.states, own))
      return "the list of opens of an open-owner has a wrong length";
    if (owner->closed && (owner->closed->file || owner->closed->owner != owner.get()))
      return "the closed open of an open-owner is still open or belongs to another owner";
    if (owner->idle && (!owner->opens.empty() || *owner->idle->in_client != owner.get())) {
      return "an idle open-owner has an open or a wrong place in the list of idle owners";
    }
  }
  return nullptr;
}

const char* CheckLockOwners(const ClientFiles& client) {
  for (const auto& [name, owner] : client.lock_owners) {
    if (owner->name != name || owner->client != &client) return "a lock-owner has another name or client than its list";
    if (owner->locks.empty()) return "a lock-owner has no lock state";
  }
  return nullptr;
}

}  // namespace

const char* StateRecords::FindInconsistency() const {
  for (const auto& [name, file] : files_) {
    if (file->name != name) return "a file is listed under another name";
    if (file->opens.empty() && file->delegations.empty()) return "a file has neither an open nor a delegation";
  }
  size_t states = 0;
  for (const auto& [id, client] : clients_) {
    if (client->id != id) return "a client is listed under another client ID";
    for (auto at = client->states.begin(); at != client->states.end(); ++at) {
      StateRecord& record = **at;
      if (record.client != client.get() || record.in_client != at)
        return "a state has another client than its list, or a wrong place in the list";
      if (ids_.RecordOf(ids_.IdOf(record)) != &record) return "the stateid of a state does not lead to the state";
      if (record.file && FindFile(record.file->name) != record.file)
        return "a state refers to a file that is not in the table";
      if (!IsListed(record)) return "a file does not list one of its states";
    }
    size_t operator_losses = 0;
    for (const auto& [slot, loss] : client->losses) {
      if (loss.by_operator) ++operator_losses;
      const auto is_slot = [slot](const StateRecord* each) { return each->index == slot; };
      if (!ids_.IsKept(slot) && std::ranges::none_of(client->states, is_slot))
        return "a client has a loss whose stateid is not known";
    }
    if (operator_losses != client->operator_losses) return "the number of losses by an operator is wrong";
    states += client->states.size();
  }
  return states == ids_.size() ? nullptr : "the number of stateids is not the sum of the states of all clients";
}

const char* OpenOwners::FindInconsistency() const {
  size_t owners = 0, idle = 0;
  for (const auto& [id, client] : records_.clients()) {
    if (const char* wrong = CheckOpenOwners(*client)) return wrong;
    const auto closed = [](const StateRecord* record) { return record->kind == StateKind::kOpen && !record->file; };
    if (Count(client->states, closed) != client->closed) return "the number of closed opens of a client is wrong";
    owners += client->open_owners.size();
    idle += client->idle.size();
  }
  return owners == count_ && idle == idle_.size() ? nullptr
                                                  : "the total number of open-owners or of idle open-owners is wrong";
}

const char* Opens::FindInconsistency() const {
  size_t denials = 0;
  for (const auto& [name, file] : records_.files()) {
    if (file->opens.empty() && (!file->pins.empty() || !file->queue.empty()))
      return "a file without opens has a pin or a lock waiter";
    if (const char* wrong = CheckOpens(*file)) return wrong;
    denials += Count(file->opens.all(), [](const auto& open) { return open.second->share.deny != 0; });
  }
  return denials == denials_ ? nullptr : "the total number of opens that deny access is wrong";
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
      return "the number of locked ranges of a client is wrong";
    }
    all += ranges;
  }
  return all == ranges_ ? nullptr : "the total number of locked ranges is wrong";
}

const char* Delegations::FindInconsistency() const {
  size_t leased = 0, broken = 0;
  for (const auto& [name, file] : records_.files()) {
    if (const char* wrong = CheckDelegations(*file)) return wrong;
    if (file->lease) ++(file->lease_broken ? broken : leased);
  }
  if (leased != leased_.size() || broken != broken_.size())
    return "the list of intact leases or of broken leases has a wrong length";
  size_t all = 0, unrecalled = 0, holders = 0;
  for (const auto& [id, client] : records_.clients()) {
    size_t delegations = 0, revoked = 0;
    for (const StateRecord* record : client->states) {
      if (record->kind != StateKind::kDelegation) continue;
      ++(static_cast<const DelegationState*>(record)->revoked ? revoked : delegations);
    }
    if (delegations != client->delegations || revoked != client->revoked) {
      return "the number of delegations or of revoked delegations of a client is wrong";
    }
    all += delegations;
    if (delegations > 0) ++holders;
    if (client->asked_for_any.keep && !client->asked_for_any.at)
      return "a client owes delegations for a CB_RECALL_ANY that was never sent";
    unrecalled += client->unrecalled.size();
  }
  if (all != count_ || holders != holders_) return "the total number of delegations or of their holders is wrong";
  return unrecalled == unrecalled_.size() && all == unrecalled + recalled_.size()
             ? nullptr
             : "the list of recalled or of unrecalled delegations has a wrong length";
}

const char* Files::FindInconsistency() const {
  for (const char* wrong : {records_.FindInconsistency(), owners.FindInconsistency(), opens.FindInconsistency(),
                            locks.FindInconsistency(), delegations.FindInconsistency()}) {
    if (wrong) return wrong;
  }
  return nullptr;
}

}  // namespace penstock::nfs::v4
