#include "nfs/v4/operations/io_state.h"

#include <algorithm>

#include "nfs/v4/engine/compound_head.h"
#include "nfs/v4/operations/lease.h"
#include "nfs/v4/state/state.h"

namespace penstock::nfs::v4 {

using namespace nfs4;  // NOLINT: the protocol's own names, RFC 8881

namespace {

// The result of one check of the tables: a status, and the clients that cause it.
struct Look {
  nfsstat4 status = NFS4_OK;
  std::vector<ClientId> holders{};
};

// RFC 8881 §8.4.2.1: during grace, clients may still reclaim denials and delegations that conflict.
bool IsTooEarly(const ShardTables& state, const stateid4& id, bool write) {
  if (!state.MayBeReclaimed()) return false;
  return IsAnonymous(id) || (IsReadBypass(id) && write);
}

// The result of a check that has changed no table yet.
struct FirstLook {
  Look look;
  std::optional<ClientId> user{};  // the client that uses the file, if known
  bool renews = false;             // its lease
  bool must_recall = false;        // delegations, before the file may be used: see RecallFor()
};

Delegations::Use UseOf(bool write) { return write ? Delegations::Use::kWrite : Delegations::Use::kRead; }

FirstLook LookFirst(const ShardTables& state, const Presenter& who, const stateid4& id, const NamedFile& file,
                    bool write) {
  if (IsTooEarly(state, id, write)) return {{NFS4ERR_GRACE}};
  const Files::IoVerdict verdict = state.CheckIo(who, id, file, write);
  FirstLook first{.look = {verdict.status}, .user = verdict.client};
  if (const bool in_session = who.client.has_value(); !in_session && verdict.client) {
    // A stateid that a session has given is not valid outside of sessions.
    const Dialect* const dialect = state.FindDialect(*verdict.client);
    if (dialect && dialect->has_sessions()) return {{NFS4ERR_BAD_STATEID}};
    first.renews = true;
  }
  if (verdict.status == NFS4ERR_LOCKED) first.look.holders = {*verdict.blocker};
  first.must_recall = verdict.status == NFS4_OK && state.MustRecallFor(file, verdict.client, UseOf(write));
  return first;
}

// The shard of the client. A request without a session may be of any client.
Shard ShardFor(const Presenter& who, const NamedFile& file) {
  return who.client ? Shard::Of(*who.client) : Shard::Of(file);
}

Asker AskerOf(Compound& compound) {
  return {compound.services, compound.call.peer.loop, PresenterOf(compound), compound.uses};
}

// An open for writing prevents delegations of other clients by itself, and so does the client's own delegation.
bool NeedsNote(const stateid4& id, bool write) { return write && (IsAnonymous(id) || IsReadBypass(id)); }

// Checks a use of a file. Usually one shard suffices. All tables are needed to recall delegations, and to note a
// change.
Look LookAt(const Asker& asker, const stateid4& id, const NamedFile& file, bool write) {
  State& state = asker.services.state;
  const Shard shard = ShardFor(asker.who, file);
  const TimePoint now = asker.services.clock.Now();
  if (!NeedsNote(id, write)) {
    FirstLook first = state.RunInShard(
        shard, [&](const ShardTables& tables) { return LookFirst(tables, asker.who, id, file, write); });
    if (!first.must_recall) {
      if (first.renews) {
        state.RunInShard(Shard::Of(*first.user), [&](ShardTables& tables) { tables.Renew(*first.user, now); });
      }
      return std::move(first.look);
    }
  }
  return state.Run([&](StateTables& tables) -> Look {
    FirstLook first = LookFirst(ShardTables(tables, shard), asker.who, id, file, write);
    if (first.renews) tables.clients.Renew(*first.user, now);
    if (first.must_recall) {
      auto recall = tables.files.delegations.RecallFor(file, first.user, UseOf(write), now);
      if (!recall.holders.empty()) return {NFS4ERR_DELAY, std::move(recall.holders)};
    }
    if (first.look.status == NFS4_OK && NeedsNote(id, write)) asker.uses.Begin(state, tables, file);
    return std::move(first.look);
  });
}

}  // namespace

Task<nfsstat4> CheckIo(Asker asker, Result<stateid4, nfsstat4> id, NamedFile file, bool write) {
  if (!id) co_return id.error();
  for (;;) {
    Look look = LookAt(asker, *id, file, write);
    if (look.holders.empty()) co_return look.status;
    if (!co_await ForgetExpiredHolders(asker.services, asker.loop, std::move(look.holders))) co_return look.status;
  }
}

Task<nfsstat4> Recall(Asker asker, NamedFile file, std::optional<stateid4> given, Delegations::Use use) {
  for (;;) {
    Look look = asker.services.state.Run([&](StateTables& state) -> Look {
      if (use == Delegations::Use::kChange && state.clients.MayBeReclaimed()) return {NFS4ERR_GRACE};
      // RFC 8881 §8.2.6
      std::optional<ClientId> client = asker.who.client;
      if (!client && given) {
        client = state.files.ClientOf(asker.who, *given);
        if (client) state.clients.Renew(*client, asker.services.clock.Now());  // RFC 7530 §9.5
      }
      auto recall = state.files.delegations.RecallFor(file, client, use, asker.services.clock.Now());
      if (!recall.holders.empty()) return {NFS4ERR_DELAY, std::move(recall.holders)};
      if (use == Delegations::Use::kChange) asker.uses.Begin(asker.services.state, state, file);
      return {};
    });
    if (look.holders.empty()) co_return look.status;
    if (!co_await ForgetExpiredHolders(asker.services, asker.loop, std::move(look.holders))) co_return look.status;
  }
}

Task<nfsstat4> CheckRead(Compound& compound, const stateid4& given, const Object& file) {
  return CheckIo(AskerOf(compound), ResolveStateId(compound, given), file.name(), false);
}
Task<nfsstat4> CheckWrite(Compound& compound, const stateid4& given, const Object& file) {
  return CheckIo(AskerOf(compound), ResolveStateId(compound, given), file.name(), true);
}

namespace {

// A READ under a stateid of COPY_NOTIFY.
Task<nfsstat4> CheckNoticedRead(Compound& compound, stateid4 given, std::optional<Object>& on_behalf) {
  const Object& file = *compound.current;
  struct Allowed {
    Presenter who;
    stateid4 state;
    Caller user;
  };
  const auto allowed = compound.services.state.Run([&](StateTables& state) -> std::optional<Allowed> {
    const auto* const notice = state.copy_notices.Use(given, file.handle(), compound.now());
    const Client* const client = notice ? state.clients.Find(notice->client) : nullptr;
    if (!client) return std::nullopt;
    return Allowed{{client->dialect, client->id}, notice->source, notice->user};
  });
  if (!allowed) co_return NFS4ERR_PARTNER_NO_AUTH;
  on_behalf = file.UsedBy(allowed->user.Over(compound.call.peer));
  const Asker asker{compound.services, compound.call.peer.loop, allowed->who, compound.uses};
  co_return co_await CheckIo(asker, allowed->state, file.name(), false);
}

}  // namespace

Task<nfsstat4> CheckRead(Compound& compound, const stateid4& given, std::optional<Object>& on_behalf) {
  const bool is_notice = compound.services.copy_sources && compound.session && CopyNotices::IsOne(given);
  return is_notice ? CheckNoticedRead(compound, given, on_behalf) : CheckRead(compound, given);
}

Task<nfsstat4> RecallBeforeChange(Compound& compound, const NamedFile& file) {
  return Recall(AskerOf(compound), file, std::nullopt, Delegations::Use::kChange);
}
Task<nfsstat4> RecallBeforeChange(Compound& compound, const NamedFile& file, const stateid4& given) {
  return Recall(AskerOf(compound), file, given, Delegations::Use::kChange);
}

namespace {

// Returns the holder of a write delegation on the file, unless it is the caller.
std::optional<Delegations::Holder> FindHolder(const Compound& compound, const NamedFile& file) {
  const Shard shard = ShardFor(PresenterOf(compound), file);
  return compound.services.state.RunInShard(shard, [&](ShardTables& state) -> std::optional<Delegations::Holder> {
    std::optional<Delegations::Holder> holder = state.WriteHolder(file);
    if (!holder) return std::nullopt;
    // A request without a session may be the holder's own, unless the holder is a client with sessions.
    const Dialect* const dialect = state.FindDialect(holder->client);
    const bool may_be_own =
        compound.session ? holder->client == compound.session->client : !dialect || !dialect->has_sessions();
    const bool is_own = may_be_own && holder->handle == file.handle;
    if (is_own) holder.reset();
    return holder;
  });
}

}  // namespace

bool MayHaveHolder(const Compound& compound, const Object& file) {
  return compound.services.state.write_held().MayHave(NamedFileHash()(file.name()));
}

Task<> AskHolder(Compound& compound, const Object& file, bool for_version, fs::Attributes& attributes) {
  const auto holder = FindHolder(compound, file.name());
  if (!holder || (!for_version && !holder->has_times)) co_return;
  const HolderAttributes held = co_await compound.services.callbacks.GetAttributes(
      compound.call.peer.loop, holder->client, holder->handle, holder->has_times);
  const Delegations::Version known{attributes.change, attributes.size};
  const bool modified = compound.services.state.Run([&](StateTables& state) {
    return state.files.delegations.IsModified(file.name(), {held.change, held.size}, known);
  });
  fs::NewAttributes changed;
  DelegatedTimes times;
  if (holder->has_times) {
    times = Vet(held.times, holder->original, compound.services.time_of_day());
    SetTimes(times, attributes, changed);
  }
  if (modified && !times.modify) changed.mtime.how = fs::SetTime::How::kServerTime;
  if (SetsTimes(changed)) {
    // Treat it like a change on the server. The caller's rights do not matter. If setting the times fails, the change
    // attribute still grows.
    const fs::RequestContext ours{.credentials = {.uid = 0, .gid = 0, .groups = {}},
                                  .loop = file.context().loop,
                                  .client = file.context().client};
    const auto set = co_await file.file_system().SetAttributes(ours, file.object(), changed, std::nullopt);
    if (set.result && set.object.after) attributes = *set.object.after;
  }
  if (times.access) attributes.atime = std::max(attributes.atime, *times.access);
  if (!modified && !SetsTimes(changed)) co_return;
  if (held.size) attributes.size = *held.size;
  attributes.change = compound.services.state.Run(
      [&](StateTables& state) { return state.files.delegations.NextChange(file.name(), attributes.change); });
}

Presenter PresenterWithoutSession() { return {*FindDialect(MinorVersion(0)), std::nullopt}; }

Result<stateid4, nfsstat4> ResolveStateId(const Compound& compound, const stateid4& given, bool exact) {
  auto id = compound.Resolve(given);
  if (id && !exact && compound.dialect.has_current_stateid() && IsCurrent(given)) {
    // RFC 8881 §8.2.3: a special stateid does not count as a current stateid.
    if (IsReadBypass(*id) || *id == InvalidStateId()) return std::unexpected(NFS4ERR_BAD_STATEID);
    id->seqid = 0;
  }
  return id;
}

Task<bool> ForgetExpiredHolders(const Services& services, Loop* loop, std::vector<ClientId> holders) {
  services.state.Run([&](StateTables& state) {
    std::erase_if(holders, [&](ClientId holder) { return !state.clients.IsExpired(holder, services.clock.Now()); });
  });
  bool forgot = false;
  for (const ClientId holder : holders) {
    forgot |= co_await ForgetExpired(services, loop, holder);
  }
  co_return forgot;
}

}  // namespace penstock::nfs::v4
