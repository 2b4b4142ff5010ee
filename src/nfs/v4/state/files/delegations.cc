#include "nfs/v4/state/files/delegations.h"

#include <algorithm>
#include <cassert>

namespace penstock::nfs::v4 {

using nfs4::open_delegation4;

namespace {

// RFC 8881 §18.16.3: users whom the client may let in without asking. There are none: permission is for the file system
// to decide.
nfs4::nfsace4 NobodyUnasked() {
  return {.type = nfs4::ACE4_ACCESS_ALLOWED_ACE_TYPE, .flag = 0, .access_mask = 0, .who = "EVERYONE@"};
}

// Each open or lock calls back more delegations than it takes places.
constexpr size_t kRecallsAtOnce = 4;

open_delegation4 ToAnswer(const nfs4::stateid4& id, bool write, bool recall) {
  if (!write) {
    return {nfs4::OPEN_DELEGATE_READ,
            nfs4::open_read_delegation4{.stateid = id, .recall = recall, .permissions = NobodyUnasked()}};
  }
  // RFC 8881 §10.4.1: without a promise of space clients flush what they wrote when they close, and learn what went
  // wrong.
  return {nfs4::OPEN_DELEGATE_WRITE, nfs4::open_write_delegation4{.stateid = id,
                                                                  .recall = recall,
                                                                  .space_limit = {nfs4::NFS_LIMIT_SIZE, uint64_t{0}},
                                                                  .permissions = NobodyUnasked()}};
}

// Only a client that has stated a preference gets a reason (RFC 8881 §18.16.3).
open_delegation4 NoDelegation(nfs4::why_no_delegation4 why, const Dialect& dialect, Want want) {
  if (!dialect.has_delegation_wants() || want == Want::kNoPreference) return open_delegation4(nfs4::OPEN_DELEGATE_NONE);
  // Nobody is told when there could be one after all.
  const bool with_promise = why == nfs4::WND4_CONTENTION || why == nfs4::WND4_RESOURCE;
  return {nfs4::OPEN_DELEGATE_NONE_EXT,
          with_promise ? nfs4::open_none_delegation4{why, false} : nfs4::open_none_delegation4{why}};
}

// What there is on the file already.
void AddWhatIsHeld(const Party& party, const FileState& file, DelegationFacts& facts) {
  facts.others_open = file.opens.HasOthers(party);
  facts.others_write = file.opens.HasOtherWriters(party);
  const auto own = file.delegations.find(party);
  const bool holds = own != file.delegations.end();
  if (holds) facts.own_is_write = own->second->write;
  facts.others_hold = file.delegations.size() > (holds ? 1 : 0);
  facts.others_hold_write = file.write_delegations.size() > (holds && own->second->write ? 1 : 0);
}

// The part of a limit that is for opens, locks and delegations alike. The rest is for opens and locks.
size_t WithoutDelegations(size_t limit) { return limit - limit / 4; }

}  // namespace

bool Delegations::HasRoomForDelegation(const ClientFiles& client) const {
  return count_ < records_.limits().delegations && records_.size() < WithoutDelegations(records_.limits().states) &&
         client.states.size() < WithoutDelegations(records_.limits().states_per_client);
}

DelegationFacts Delegations::FactsOf(const DelegationRequest& request, TimePoint now) const {
  DelegationFacts facts = request.facts;
  facts.recent_conflict = conflicts_.Has(NamedFileHash()(request.file), now);
  facts.changing = changing_.contains(request.file);
  const ClientFiles* const client = records_.FindClient(request.client);
  facts.room = !client || HasRoomForDelegation(*client);
  if (const FileState* const file = records_.FindFile(request.file)) {
    AddWhatIsHeld({request.client, request.file.handle.export_id}, *file, facts);
  }
  return facts;
}

open_delegation4 Delegations::Delegate(const DelegationRequest& request, TimePoint now) {
  ClientFiles& client = records_.GetClient(request.client);
  DelegationDecision decision = Decide(FactsOf(request, now));
  if (decision.type == nfs4::OPEN_DELEGATE_READ && !IsWatchable(request.file, request.lease)) {
    decision = {nfs4::OPEN_DELEGATE_NONE, nfs4::WND4_CONTENTION};
  }
  if (decision.type == nfs4::OPEN_DELEGATE_NONE) {
    return NoDelegation(decision.why, request.dialect, request.facts.want);
  }
  const bool write = decision.type == nfs4::OPEN_DELEGATE_WRITE;
  DelegationState& given = AddDelegation(client, request.file, write, request.dialect);
  if (!write && request.lease) AddLease(*given.file, request.lease->lease);
  given.makers.Add(request.by);
  given.change = request.change;
  given.given_by = request.asked_by;
  return ToAnswer(records_.IdOf(given), write, false);
}

bool Delegations::MayReclaimDelegation(ClientId client, const NamedFile& file, bool write) const {
  const FileState* const state = records_.FindFile(file);
  if (!state) return true;
  DelegationFacts facts;
  AddWhatIsHeld({client, file.handle.export_id}, *state, facts);
  return write ? !facts.others_open && !facts.others_hold : !facts.others_write && !facts.others_hold_write;
}

open_delegation4 Delegations::ReclaimDelegation(ClientId holder, const NamedFile& name, bool write, bool can_call_back,
                                                const Dialect& dialect, const Principal& by, TimePoint now) {
  ClientFiles& client = records_.GetClient(holder);
  FileState& file = records_.GetFile(name);
  const Party party{holder, name.handle.export_id};
  if (const auto known = file.delegations.find(party); known != file.delegations.end()) {
    known->second->makers.Add(by);
    return ToAnswer(records_.IdOf(*known->second), known->second->write, !can_call_back);
  }
  if (!records_.HasRoom(client)) {
    records_.ForgetFileIfUnused(file);
    return NoDelegation(nfs4::WND4_RESOURCE, dialect, Want::kNoPreference);
  }
  DelegationState& delegation = AddDelegation(client, name, write, dialect);
  delegation.makers.Add(by);
  if (!can_call_back) delegation.recalled_at = now;
  return ToAnswer(records_.IdOf(delegation), write, !can_call_back);
}

DelegationState& Delegations::AddDelegation(ClientFiles& client, const NamedFile& name, bool write,
                                            const Dialect& dialect) {
  FileState& file = records_.GetFile(name);
  DelegationState& delegation =
      records_.AddState(std::make_unique<DelegationState>(client, file, name.handle, write, dialect));
  file.delegations.emplace(PartyOf(delegation), &delegation);
  if (write) {
    file.write_delegations.push_back(&delegation);
    write_held_.Add(NamedFileHash()(name));
  }
  delegation.in_unrecalled = client.unrecalled.insert(client.unrecalled.end(), &delegation);
  delegation.in_all = unrecalled_.insert(unrecalled_.end(), &delegation);
  ++count_;
  ++client.delegations;
  return delegation;
}

void Delegations::Detach(DelegationState& delegation) {
  if (!delegation.file) return;
  FileState& file = *std::exchange(delegation.file, nullptr);
  file.delegations.erase(PartyOf(delegation));
  if (delegation.write) {
    std::erase(file.write_delegations, &delegation);
    write_held_.Remove(NamedFileHash()(delegation.name));
  }
  if (file.delegations.size() == file.write_delegations.size()) RemoveLease(file);
  if (!delegation.recall_sent) delegation.client->unrecalled.erase(delegation.in_unrecalled);
  (delegation.recall_sent ? recalled_ : unrecalled_).erase(delegation.in_all);
  --count_;
  --delegation.client->delegations;
  records_.ForgetFileIfUnused(file);
}

void Delegations::RemoveDelegation(DelegationState& delegation, Ending ending) {
  Detach(delegation);
  if (delegation.revoked) --delegation.client->revoked;
  records_.RemoveState(delegation, ending);
}

void Delegations::Revoke(DelegationState& delegation) {
  // Without FREE_STATEID a client cannot acknowledge the loss; the error for the stateid is NFS4ERR_ADMIN_REVOKED (RFC 7530 §13.1.5.1).
  if (!delegation.dialect.has_free_stateid() || delegation.client->revoked >= records_.limits().revoked_per_client) {
    RemoveDelegation(delegation, Ending::kRevoked);
    return;
  }
  Detach(delegation);
  delegation.revoked = true;
  ++delegation.client->revoked;
}

void Delegations::Return(DelegationState& delegation, TimePoint now) {
  // The one in whose way it was has not come back yet.
  if (delegation.recalled_at) conflicts_.Note(NamedFileHash()(delegation.name), now);
  RemoveDelegation(delegation, Ending::kReleased);
}

// A lease time from the recall on (RFC 8881 §10.4.5). A client of version 4.0 hears only by RENEW that it cannot be
// called. Before its delegations are revoked it is to have heard that, and then to have had some time, or not to have
// asked for a lease time (RFC 7530 §10.4.6): that a call was lost is known long before the lease is over
// (Settings::callback_limit), and within the next one every client asks that is still there.
Duration Delegations::PatienceWith(const DelegationState& delegation) const {
  return delegation.dialect.has_sessions() ? records_.limits().lease : 2 * records_.limits().lease;
}

Delegations::RecallResult Delegations::RecallFor(const NamedFile& name, std::optional<ClientId> except, Use use,
                                                 TimePoint now) {
  RecallResult result;
  const FileState* const file = records_.FindFile(name);
  if (!file) return result;
  const std::optional<Party> own = except ? std::optional(Party{*except, name.handle.export_id}) : std::nullopt;
  // A copy: those that are revoked leave the file, and the file may go with them.
  std::vector<DelegationState*> in_the_way = file->write_delegations;
  if (use != Use::kRead) {
    in_the_way.clear();
    for (const auto& [party, delegation] : file->delegations) in_the_way.push_back(delegation);
  }
  for (DelegationState* delegation : in_the_way) {
    if (own == PartyOf(*delegation)) continue;
    if (delegation->recalled_at && now - *delegation->recalled_at >= PatienceWith(*delegation)) {
      Revoke(*delegation);
      continue;
    }
    conflicts_.Note(NamedFileHash()(name), now);
    result.holders.push_back(delegation->client->id);
    SendRecall(*delegation, now);
  }
  // Who writes holds all that is left, and the server writes for it: the lease would be in the way.
  if (use == Use::kWrite && result.holders.empty()) {
    if (FileState* const left = records_.FindFile(name)) RemoveLease(*left);
  }
  return result;
}

void Delegations::SendRecall(DelegationState& delegation, TimePoint now) {
  if (delegation.recall_sent) return;
  delegation.recall_sent = true;
  if (!delegation.recalled_at) delegation.recalled_at = now;
  delegation.client->unrecalled.erase(delegation.in_unrecalled);
  recalled_.splice(recalled_.end(), unrecalled_, delegation.in_all);
  nfs4::stateid4 id = records_.IdOf(delegation);
  // RFC 8881 §8.2.2: callbacks name the latest stateid by a seqid of zero.
  if (delegation.dialect.zero_seqid_is_latest()) id.seqid = 0;
  recalls_.push_back({delegation.client->id, id, delegation.name.handle, delegation.given_by});
}

// Delegations make room for opens and locks (RFC 8881 §10.4.4: the server may recall them for want of resources).
void Delegations::RecallOldest(std::list<DelegationState*>& unrecalled, TimePoint now) {
  for (size_t more = kRecallsAtOnce; more > 0 && !unrecalled.empty(); --more) SendRecall(*unrecalled.front(), now);
}

// Those that were recalled too long ago: when room is short, not even their stateids are kept.
void Delegations::RemoveOverdue(TimePoint now) {
  while (!recalled_.empty()) {
    DelegationState& first = *recalled_.front();
    if (now - *first.recalled_at < PatienceWith(first)) return;
    RemoveDelegation(first, Ending::kRevoked);
  }
}

void Delegations::EndChange(const NamedFile& file) {
  const auto found = changing_.find(file);
  assert(found != changing_.end());
  if (--found->second == 0) changing_.erase(found);
}

bool Delegations::IsDelegated(const NamedFile& file) const {
  const FileState* const state = records_.FindFile(file);
  return state && !state->delegations.empty();
}

DelegationState* Delegations::FindWriteDelegation(const NamedFile& file) const {
  const FileState* const state = records_.FindFile(file);
  return state && !state->write_delegations.empty() ? state->write_delegations.front() : nullptr;
}

std::optional<Delegations::Holder> Delegations::WriteHolder(const NamedFile& file) const {
  const DelegationState* const delegation = FindWriteDelegation(file);
  if (!delegation) return std::nullopt;
  return Holder{delegation->client->id, delegation->name.handle};
}

bool Delegations::IsModified(const NamedFile& file, const Version& said, const Version& known) {
  DelegationState* const delegation = FindWriteDelegation(file);
  if (!delegation) return false;
  if (!delegation->change) delegation->change = known.change;
  if (said.change && said.change != delegation->change) delegation->modified = true;
  if (said.size && said.size != known.size) delegation->modified = true;
  return delegation->modified;
}

uint64_t Delegations::NextChange(const NamedFile& file, uint64_t known) {
  DelegationState* const delegation = FindWriteDelegation(file);
  if (!delegation) return known;
  delegation->change = std::max(delegation->change.value_or(0) + 1, known);
  return *delegation->change;
}

bool Delegations::HasDelegations(ClientId client) const {
  const ClientFiles* const files = records_.FindClient(client);
  return files && files->delegations > 0;
}

bool Delegations::HasRevoked(ClientId client) const {
  const ClientFiles* const files = records_.FindClient(client);
  return files && files->revoked > 0;
}

}  // namespace penstock::nfs::v4
