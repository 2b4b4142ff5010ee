// The part of the state that a request may use while it has locked one shard only: the sessions and the leases of the
// shard's clients, and look-ups in the tables that only State::Run() changes.
//
// Other threads look up, and change their own shards, at the same time. So this class has just the functions that may
// run then: they change nothing that several shards share, and owe no notices.
#pragma once

#include <cassert>
#include <optional>

#include "nfs/v4/state/shards.h"
#include "nfs/v4/state/tables.h"

namespace penstock::nfs::v4 {

class ShardTables {
 public:
  ShardTables(StateTables& tables, Shard shard) : tables_(tables), shard_(shard) {}

  // ---- SEQUENCE: the session is of this shard

  // Sessions::StartRequest(), with the status flags that depend on Files. NFS4ERR_BADSESSION also for a session of an
  // earlier run: the caller then asks Sessions::RetryInDeadSession().
  Result<Sessions::StartedRequest, nfs4::nfsstat4> StartRequest(const nfs4::SEQUENCE4args& arguments,
                                                                const Sessions::RequestFacts& facts,
                                                                const SessionConnection& connection, TimePoint now);
  void FinishRequest(const SessionId& id, SlotId slot, SequenceId sequence, std::optional<xdr::Message> reply,
                     TimePoint now) {
    assert(Shard::Of(id) == shard_);
    tables_.sessions.FinishRequest(id, slot, sequence, std::move(reply), now);
  }

  // ---- leases: the client is of this shard

  void Renew(ClientId client, TimePoint now) {
    assert(Shard::Of(client) == shard_);
    tables_.clients.Renew(client, now);
  }

  // ---- look-ups: any client and file

  bool MayBeReclaimed() const { return tables_.clients.MayBeReclaimed(); }
  // Returns null if Clients::Find() finds no client.
  const Dialect* FindDialect(ClientId client) const {
    const Client* const found = tables_.clients.Find(client);
    return found ? &found->dialect : nullptr;
  }
  Files::IoVerdict CheckIo(const Presenter& who, const nfs4::stateid4& id, const NamedFile& file, bool write) const {
    return tables_.files.CheckIo(who, id, file, write);
  }
  bool MustRecallFor(const NamedFile& file, std::optional<ClientId> except, Delegations::Use use) const {
    return tables_.files.delegations.MustRecallFor(file, except, use);
  }
  std::optional<Delegations::Holder> WriteHolder(const NamedFile& file) const {
    return tables_.files.delegations.WriteHolder(file);
  }

 private:
  StateTables& tables_;
  const Shard shard_;
};

}  // namespace penstock::nfs::v4
