#include "nfs/v4/state/files/delegations.h"

#include <algorithm>
#include <cassert>

namespace penstock::nfs::v4 {

using nfs4::open_delegation4;

namespace {

// RFC 8881 §18.16.3: the client may admit these users without asking the server. There are none, because the file
// system decides about permissions.
nfs4::nfsace4 NoPermissions() {
  return {.type = nfs4::ACE4_ACCESS_ALLOWED_ACE_TYPE, .flag = 0, .access_mask = 0, .who = "EVERYONE@"};
}

// One open or lock needs one place. It recalls more delegations than that, so that the table does not stay full.
constexpr size_t kRecallsAtOnce = 4;

open_delegation4 ToAnswer(const nfs4::stateid4& id, Delegations::Reclaimed type, bool recall) {
  if (!type.write) {
    return {nfs4::OPEN_DELEGATE_READ,
            nfs4::open_read_delegation4{.stateid = id, .recall = recall, .permissions = NoPermissions()}};
  }
  // RFC 8881 §10.4.1: without a promise of space, clients flush written data when they close the file, and learn of
  // write errors.
  return {type.has_times ? nfs4::OPEN_DELEGATE_WRITE_ATTRS_DELEG : nfs4::OPEN_DELEGATE_WRITE,
          nfs4::open_write_delegation4{.stateid = id,
                                       .recall = recall,
                                       .space_limit = {nfs4::NFS_LIMIT_SIZE, uint64_t{0}},
                                       .permissions = NoPermissions()}};
}

// Only a client that has stated a preference gets a reason (RFC 8881 §18.16.3).
open_delegation4 NoDelegation(nfs4::why_no_delegation4 why, const Dialect& dialect, Want want) {
  if (!dialect.has_delegation_wants() || want == Want::kNoPreference) return open_delegation4(nfs4::OPEN_DELEGATE_NONE);
  // With these reasons the reply says whether the server will signal that a delegation has become possible. It will
  // not.
  const bool with_promise = why == nfs4::WND4_CONTENTION || why == nfs4::WND4_RESOURCE;
  return {nfs4::OPEN_DELEGATE_NONE_EXT,
          with_promise ? nfs4::open_none_delegation4{why, false} : nfs4::open_none_delegation4{why}};
}

// Adds the facts about the opens and delegations that the file already has.
void AddWhatIsHeld(const Party& party, const FileState& file, DelegationFacts& facts) {
  facts.others_open = file.opens.HasOthers(party);
  facts.others_write = file.opens.HasOtherWriters(party) || file.opens.HasWithoutAccess();
  const auto own = file.delegations.find(party);
  const bool holds = own != file.delegations.end();
  if (holds) facts.own_is_write = own->second->write;
  facts.others_hold = file.delegations.size() > (holds ? 1 : 0);
  facts.others_hold_write = file.write_delegations.size() > (holds && own->second->write ? 1 : 0);
}

// The number of records of a table with this limit above which no delegation is given: the last quarter is for opens
// and locks only.
size_t WithoutDelegations(size_t limit) { return limit - limit / 4; }

}  // namespace

bool Delegations::HasRoomForDelegation(const ClientFiles& client) const {
  return pressure_.Admits(client.delegations, count_) &&
         records_.size() < WithoutDelegations(records_.limits().states) &&
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
  given.has_times = write && request.wants_times;
  given.original = request.original;
  return ToAnswer(records_.IdOf(given), {write, given.has_times}, false);
}

bool Delegations::HoldsForWriting(ClientId client, const NamedFile& file) const {
  const FileState* const state = records_.FindFile(file);
  if (!state) return false;
  const auto own = state->delegations.find({client, file.handle.export_id});
  return own != state->delegations.end() && own->second->write;
}

bool Delegations::MayReclaimDelegation(ClientId client, const NamedFile& file, bool write) const {
  const FileState* const state = records_.FindFile(file);
  if (!state) return true;
  DelegationFacts facts;
  AddWhatIsHeld({client, file.handle.export_id}, *state, facts);
  return write ? !facts.others_open && !facts.others_hold : !facts.others_write && !facts.others_hold_write;
}

open_delegation4 Delegations::ReclaimDelegation(ClientId holder, const NamedFile& name, Reclaimed type,
                                                bool can_call_back, const Dialect& dialect, const Principal& by,
                                                TimePoint now) {
  ClientFiles& client = records_.GetClient(holder);
  FileState& file = records_.GetFile(name);
  const Party party{holder, name.handle.export_id};
  if (const auto known = file.delegations.find(party); known != file.delegations.end()) {
    known->second->makers.Add(by);
    return ToAnswer(records_.IdOf(*known->second), {known->second->write, known->second->has_times}, !can_call_back);
  }
  if (!records_.HasRoom(client)) {
    records_.ForgetFileIfUnused(file);
    return NoDelegation(nfs4::WND4_RESOURCE, dialect, Want::kNoPreference);
  }
  DelegationState& delegation = AddDelegation(client, name, type.write, dialect);
  delegation.has_times = type.write && type.has_times;
  delegation.makers.Add(by);
  if (!can_call_back) delegation.recalled_at = now;
  return ToAnswer(records_.IdOf(delegation), {type.write, delegation.has_times}, !can_call_back);
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
  client.frees_stateids = dialect.has_free_stateid();
  delegation.in_unrecalled = client.unrecalled.insert(client.unrecalled.end(), &delegation);
  delegation.in_all = unrecalled_.insert(unrecalled_.end(), &delegation);
  ++count_;
  if (++client.delegations == 1) ++holders_;
  pressure_.HandleGiven(count_, holders_);
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
  if (--delegation.client->delegations == 0) --holders_;
  records_.ForgetFileIfUnused(file);
}

void Delegations::RemoveDelegation(DelegationState& delegation, Ending ending) {
  Detach(delegation);
  if (delegation.revoked) --delegation.client->revoked;
  records_.RemoveState(delegation, ending);
}

void Delegations::Revoke(DelegationState& delegation, Cause cause) {
  // Without FREE_STATEID a client cannot acknowledge the loss. Then the record ends at once, and the error for the
  // stateid is NFS4ERR_ADMIN_REVOKED (RFC 7530 §13.1.5.1).
  if (!delegation.dialect.has_free_stateid() || delegation.client->revoked >= records_.limits().revoked_per_client) {
    RemoveDelegation(delegation, Ending::kRevoked);
    return;
  }
  Detach(delegation);
  delegation.revoked = true;
  ++delegation.client->revoked;
  if (cause == Cause::kOperator) records_.NoteRevokedByOperator(delegation);
}

void Delegations::Return(DelegationState& delegation, TimePoint now) {
  // The client whose request conflicted with the delegation has not retried the request yet.
  if (delegation.recalled_at) conflicts_.Note(NamedFileHash()(delegation.name), now);
  RemoveDelegation(delegation, Ending::kReleased);
}

// Returns how long after its recall a delegation may stay out before it is revoked: one lease time (RFC 8881 §10.4.5),
// in version 4.0 two. A client of version 4.0 learns only from the reply to RENEW that its callback path is down. Its
// delegations are revoked only if it has had some time after that reply, or has not renewed its lease for a lease time
// (RFC 7530 §10.4.6). The server notices the loss of a callback long before the first lease time is over
// (Settings::callback_limit), and a client that is still there renews its lease within the second one.
Duration Delegations::PatienceWith(const DelegationState& delegation) const {
  return delegation.dialect.has_sessions() ? records_.limits().lease : 2 * records_.limits().lease;
}

bool Delegations::IsOverdue(const DelegationState& delegation, TimePoint now) const {
  return delegation.recalled_at && now - *delegation.recalled_at >= PatienceWith(delegation);
}

std::vector<DelegationState*> Delegations::FindInTheWay(const FileState& file, const NamedFile& name,
                                                        std::optional<ClientId> except, Use use) const {
  const std::optional<Party> own = except ? std::optional(Party{*except, name.handle.export_id}) : std::nullopt;
  std::vector<DelegationState*> in_the_way;
  const auto add = [&](DelegationState* delegation) {
    if (own != PartyOf(*delegation)) in_the_way.push_back(delegation);
  };
  if (use == Use::kRead) {
    std::ranges::for_each(file.write_delegations, add);
  } else {
    for (const auto& [party, delegation] : file.delegations) add(delegation);
  }
  return in_the_way;
}

bool Delegations::MustRecallFor(const NamedFile& name, std::optional<ClientId> except, Use use) const {
  const FileState* const file = records_.FindFile(name);
  if (!file || file->delegations.empty()) return false;
  return (use == Use::kWrite && file->lease) || !FindInTheWay(*file, name, except, use).empty();
}

Delegations::RecallResult Delegations::RecallFor(const NamedFile& name, std::optional<ClientId> except, Use use,
                                                 TimePoint now) {
  RecallResult result;
  const FileState* const file = records_.FindFile(name);
  if (!file) return result;
  // It is a copy: a revoked delegation leaves the list of the file, and the file may be forgotten with it.
  for (DelegationState* delegation : FindInTheWay(*file, name, except, use)) {
    if (IsOverdue(*delegation, now)) {
      Revoke(*delegation);
      continue;
    }
    conflicts_.Note(NamedFileHash()(name), now);
    result.holders.push_back(delegation->client->id);
    SendRecall(*delegation, now);
  }
  // Only the writer itself still holds a delegation. The lease of the file system would block the server's write.
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
  // RFC 8881 §8.2.2: in callbacks a seqid of zero means the latest stateid.
  if (delegation.dialect.zero_seqid_is_latest()) id.seqid = 0;
  recalls_.push_back({delegation.client->id, id, delegation.name.handle, delegation.given_by});
}

// RFC 8881 §10.4.4: the server may recall delegations if it runs out of resources.
void Delegations::RecallOldest(std::list<DelegationState*>& unrecalled, TimePoint now) {
  for (size_t more = kRecallsAtOnce; more > 0 && !unrecalled.empty(); --more) SendRecall(*unrecalled.front(), now);
}

void Delegations::RemoveOverdue(TimePoint now) {
  while (!recalled_.empty() && IsOverdue(*recalled_.front(), now)) {
    RemoveDelegation(*recalled_.front(), Ending::kNotReturned);
  }
}

void Delegations::EndChange(const NamedFile& file) {
  const auto found = changing_.find(file);
  assert(found != changing_.end());
  if (--found->second == 0) changing_.erase(found);
}

DelegationState* Delegations::FindWriteDelegation(const NamedFile& file) const {
  const FileState* const state = records_.FindFile(file);
  return state && !state->write_delegations.empty() ? state->write_delegations.front() : nullptr;
}

std::optional<Delegations::Holder> Delegations::WriteHolder(const NamedFile& file) const {
  const DelegationState* const delegation = FindWriteDelegation(file);
  if (!delegation) return std::nullopt;
  return Holder{delegation->client->id, delegation->name.handle, delegation->has_times, delegation->original};
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
  return files && (files->revoked > 0 || files->losses.size() > files->operator_losses);
}

}  // namespace penstock::nfs::v4
