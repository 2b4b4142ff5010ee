#include "client/nfs4/delegations.h"

#include <algorithm>

#include "base/log.h"
#include "client/nfs4/names.h"
#include "client/nfs4/open_file.h"

namespace penstock::client::v4 {
namespace {

using nfs4::nfsstat4;

// How often the client asks for the attributes of a file that a write delegation came with. It asks again if it changes
// the file, or removes any name, meanwhile.
constexpr int kMostQuestions = 2;

// A delegation that OPEN has granted.
struct Grant {
  nfs4::stateid4 stateid;
  bool writes;
  bool recall;  // the server wants it back at once
};
std::optional<Grant> GrantOf(const nfs4::open_delegation4& given) {
  switch (given.discriminant()) {
    case nfs4::open_delegation_type4::OPEN_DELEGATE_READ:
    case nfs4::open_delegation_type4::OPEN_DELEGATE_READ_ATTRS_DELEG:
      return Grant{given.read().stateid, false, given.read().recall};
    case nfs4::open_delegation_type4::OPEN_DELEGATE_WRITE:
    case nfs4::open_delegation_type4::OPEN_DELEGATE_WRITE_ATTRS_DELEG:
      return Grant{given.write().stateid, true, given.write().recall};
    default:
      return std::nullopt;
  }
}

}  // namespace

// ---- OPEN ----

void Delegations::HandleOpened(const Asking& asking, const Handle& file, Access access,
                               const nfs4::open_delegation4& given, uint64_t epoch, const Attributes& attributes,
                               OpenFile* delegated_instead) {
  const std::optional<Grant> grant = GrantOf(given);
  if (!grant) {
    const Pointer held = Held(file);
    if (!held) return;
    held->HandleOpened(access);
    // The OPEN may have truncated the file.
    counts_.Count(file);
    held->HandleSize(attributes.size);
    return;
  }
  if (epoch != caller_.epoch()) return;
  const auto delegation = std::make_shared<Delegation>(file, grant->stateid, grant->writes, epoch, access);
  delegation->set_file_system(attributes.file_system);
  if (delegated_instead) delegated_instead->HandleDelegatedInstead(delegation);
  if (const Pointer before = table_.Add(delegation)) StartReturn(before);
  const bool known = counts_.IsSame(file, asking.before_);
  counts_.Count(file);
  if (known) delegation->Remember(attributes, counts_.names());
  if (most_ == 0 || grant->recall) {
    StartReturn(delegation);
  } else if (grant->writes && !known) {
    caller_.SpawnBackground(Learn(delegation));
  }
  // The server may have counted this delegation when it sent CB_RECALL_ANY.
  if (asking.recalls_before_ != recalls_of_any_) ReturnSurplus();
  // Each OPEN adds one at most.
  if (table_.size() <= most_) return;
  if (const Pointer oldest = table_.LeastUsed(epoch)) StartReturn(oldest);
}

Delegations::Pointer Delegations::ForReclaim(const Handle& file) const {
  const Pointer held = table_.Peek(file);
  return held && !held->returning() && held->epoch() != caller_.epoch() ? held : nullptr;
}

void Delegations::HandleReclaimed(const Pointer& claimed, const Handle& file, Access access,
                                  const nfs4::open_delegation4& given, uint64_t epoch) {
  if (claimed) Drop(*claimed);
  const std::optional<Grant> grant = GrantOf(given);
  if (!grant || epoch != caller_.epoch()) return;
  const auto delegation = std::make_shared<Delegation>(file, grant->stateid, grant->writes, epoch, access);
  counts_.Count(file);
  if (claimed) {
    delegation->Continue(*claimed);
    if (claimed->file_system()) delegation->set_file_system(*claimed->file_system());
  }
  if (const Pointer before = table_.Add(delegation)) StartReturn(before);
  if (!claimed || grant->recall) {
    StartReturn(delegation);
  } else if (grant->writes && !delegation->knows_size()) {
    caller_.SpawnBackground(Learn(delegation));
  }
}

Task<void> Delegations::Learn(Pointer delegation) {
  for (int questions = 0; questions < kMostQuestions && !delegation->returning(); ++questions) {
    const Query query(*this);
    const auto attributes = co_await GetAttributes(caller_, delegation->handle(), "looking at a delegated file");
    if (!attributes) {
      log::debug("{}", attributes.error().message);
      break;
    }
    Remember(query, delegation->handle(), *attributes);
    if (delegation->knows_size()) co_return;
  }
  StartReturn(delegation);
}

void Delegations::HandleRecovered() {
  for (const Pointer& each : table_.all()) {
    if (each->epoch() != caller_.epoch()) Drop(*each);
  }
}

Delegations::Pointer Delegations::Held(const Handle& file) {
  Pointer held = table_.Find(file);
  return held && held->epoch() == caller_.epoch() ? held : nullptr;
}

Delegations::Pointer Delegations::ForOpen(const Handle& file, Access access) {
  // An open without a stateid of its own must become one when the delegation is returned. Without CLAIM_DELEG_CUR_FH
  // that needs the name of the file (RFC 7530 §16.16.2), which may have changed meanwhile.
  if (!caller_.dialect().opens_by_filehandle) return nullptr;
  Pointer held = Held(file);
  return held && held->LetsOpen(access) && AreCertain() ? held : nullptr;
}

Delegations::Pointer Delegations::ForIo(const Handle& file, Access access) {
  Pointer held = Held(file);
  return held && held->Covers(access) && !held->returning() ? held : nullptr;
}

// ---- attributes ----

Delegations::Pointer Delegations::ForAttributes(const Handle& file) {
  Pointer held = Held(file);
  return held && !held->returning() && AreCertain() ? held : nullptr;
}

std::optional<Attributes> Delegations::AttributesOf(const Handle& file) {
  const Pointer held = ForAttributes(file);
  return held && !held->was_read() ? held->AttributesAt(counts_.names()) : std::nullopt;
}

std::optional<Attributes> Delegations::AttributesAtOpen(const Handle& file) {
  const Pointer held = ForAttributes(file);
  return held ? held->AttributesAt(counts_.names()) : std::nullopt;
}

void Delegations::Remember(const Query& query, const Handle& file, const Attributes& attributes) {
  const Pointer held = Held(file);
  if (!held || held->returning()) return;
  if (!counts_.IsSame(file, query.changes_) || !reads_.IsSame(file, query.reads_)) return;
  held->Remember(attributes, counts_.names());
}

void Delegations::HandleRead(const Handle& file) {
  reads_.Count(file);
  if (const Pointer held = Held(file)) held->HandleRead();
}

void Delegations::HandleChange(const Handle& file) {
  counts_.Count(file);
  if (const Pointer held = ForChange(file)) held->HandleChange();
}

void Delegations::HandleWrite(const Handle& file, uint64_t end) {
  counts_.Count(file);
  if (const Pointer held = ForChange(file)) held->HandleWrite(end);
}

void Delegations::HandlePermissionsChanged(const Handle& file) {
  if (const Pointer held = Held(file)) held->HandlePermissionsChanged();
}

void Delegations::HandleNewAttributes(const Handle& file, const NewAttributes& attributes) {
  counts_.Count(file);
  const Pointer held = ForChange(file);
  if (!held) return;
  held->HandleChange();
  if (attributes.size) held->HandleSize(*attributes.size);
  if (attributes.mode || attributes.owner || attributes.group) held->HandlePermissionsChanged();
}

// ---- recalls and revocations by the server ----

// RFC 8881 §20.2
nfsstat4 Delegations::HandleRecall(const nfs4::CB_RECALL4args& recall) {
  const Pointer found = table_.Find(recall.stateid);
  if (found && found->handle() == recall.fh && found->epoch() == caller_.epoch()) {
    StartReturn(found);
    return nfsstat4::NFS4_OK;
  }
  return asking_ > 0 ? nfsstat4::NFS4ERR_DELAY : nfsstat4::NFS4ERR_BAD_STATEID;
}

Delegations::Pointer Delegations::ForGetAttributes(const Handle& file) {
  Pointer held = Held(file);
  return held && held->writes() ? held : nullptr;
}

// RFC 8881 §20.6
void Delegations::HandleRecallAny(const nfs4::CB_RECALL_ANY4args& recall) {
  const uint32_t mask = recall.craa_type_mask.empty() ? 0 : recall.craa_type_mask[0];
  const bool reads = mask >> nfs4::RCA4_TYPE_MASK_RDATA_DLG & 1;
  const bool writes = mask >> nfs4::RCA4_TYPE_MASK_WDATA_DLG & 1;
  if (!reads && !writes) return;
  using Kind = DelegationTable::Kind;
  const Kind kind = reads && writes ? Kind::kAny : reads ? Kind::kRead : Kind::kWrite;
  ++recalls_of_any_;
  // A later call with a higher number does not cancel an earlier one (§20.6.3).
  std::optional<uint32_t>& kept = kept_[static_cast<size_t>(kind)];
  kept = std::min(kept.value_or(UINT32_MAX), recall.craa_objects_to_keep);
  ReturnSurplus();
  if (asking_ == 0) kept_ = {};
}

// Returns the delegations that CB_RECALL_ANY does not let the client keep.
void Delegations::ReturnSurplus() {
  for (size_t kind = 0; kind < kept_.size(); ++kind) {
    if (!kept_[kind]) continue;
    const auto surplus = table_.Surplus(*kept_[kind], DelegationTable::Kind(kind), caller_.epoch());
    for (const Pointer& each : surplus) StartReturn(each);
  }
}

bool Delegations::HandleLost(const nfs4::stateid4& stateid) {
  const Pointer found = table_.Find(stateid);
  if (!found) return false;
  Drop(*found);
  revoked_.Free(stateid);
  return true;
}

void Delegations::HandleMoved(uint64_t file_system) {
  for (const Pointer& each : table_.all()) {
    if (each->file_system() == file_system) HandleLost(each->stateid());
  }
}

std::vector<nfs4::stateid4> Delegations::stateids() const {
  std::vector<nfs4::stateid4> stateids;
  for (const Pointer& each : table_.all()) stateids.push_back(each->stateid());
  return stateids;
}

// ---- return ----

void Delegations::Drop(Delegation& delegation) {
  delegation.HandleGone();
  table_.Remove(delegation);
}

void Delegations::StartReturn(const Pointer& delegation) {
  if (delegation->returning()) return;
  delegation->HandleReturning();
  caller_.SpawnBackground(Return(delegation));
}

// RFC 8881 §10.4.4: before the return, the client opens at the server the files that are open under the delegation.
Task<void> Delegations::Return(Pointer delegation) {
  while (!delegation->users().empty() && !delegation->gone()) {
    const std::shared_ptr<OpenFile> user = (*delegation->users().begin())->shared_from_this();
    const Result<void> opened = co_await user->Claim(*delegation);
    if (!opened && !caller_.ended()) log::warn("{}", opened.error().message);
  }
  if (!delegation->gone() && delegation->epoch() == caller_.epoch()) {
    auto returned = co_await caller_.Call(
        [&] {
          return std::tuple(nfs4::PUTFH4args{delegation->handle()}, nfs4::DELEGRETURN4args{delegation->stateid()});
        },
        "returning a delegation");
    if (!returned) log::debug("{}", returned.error().message);
  }
  Drop(*delegation);
}

bool Delegations::GiveUpAll() {
  for (const Pointer& each : table_.all()) StartReturn(each);
  return table_.all().empty();
}

}  // namespace penstock::client::v4
