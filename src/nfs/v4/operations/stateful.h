// Helpers for the operations on opens, locks and delegations: sequences of owners, the client of a request, and the
// state that a stateid names.
#pragma once

#include <optional>
#include <utility>

#include "nfs/v4/engine/compound.h"
#include "nfs/v4/operations/io_state.h"
#include "nfs/v4/operations/operations.h"
#include "nfs/v4/state/files/owners.h"
#include "nfs/v4/state/state.h"

namespace penstock::nfs::v4 {

// Whether clients may get delegations of files of the current object's file system.
inline bool OffersDelegations(const Compound& compound) {
  return compound.services.settings.delegations && !compound.current->file_system().GetProperties().has_other_servers;
}

// In dialects that count owners' seqids, returns the results of a request that must not be executed: the kept results
// of a repeated request, or an error (RFC 7530 §9.1.7). Returns nullopt if the request must be executed.
// NFS4ERR_RESOURCE tells the client to repeat the request, because the owner's last one is still being executed.
template <class Results>
std::optional<Results> AnswerOutOfTurn(const OwnerSequence& sequence, SequenceId given) {
  switch (sequence.Judge<Results>(given)) {
    case OwnerSequence::Verdict::kRun:
      return std::nullopt;
    case OwnerSequence::Verdict::kReplay:
      return std::get<Results>(sequence.last().results);
    case OwnerSequence::Verdict::kMisordered:
      return Results(nfs4::NFS4ERR_BAD_SEQID);
    case OwnerSequence::Verdict::kBusy:
      return Results(nfs4::NFS4ERR_RESOURCE);
  }
  std::unreachable();
}

// Runs an operation of an owner, in the order of the owner's sequence if the dialect counts owners' seqids. `run` must
// not move or remove the owner.
template <class Results, class Run>
Results RunInTurn(const Dialect& dialect, OwnerSequence& sequence, SequenceId given, Run run) {
  if (!dialect.counts_owner_seqids()) return run();
  if (auto answer = AnswerOutOfTurn<Results>(sequence, given)) return *std::move(answer);
  Results results = run();
  sequence.Finish(given, results);
  return results;
}

inline Origin OriginOf(const Compound& compound) {
  return {Principal::Of(compound.call.credential), compound.call.peer.address.address()};
}

// Returns the client that sends the request: the session's client, or without a session the client that the arguments
// name. Without a session it renews the client's lease, and may fail with NFS4ERR_STALE_CLIENTID or NFS4ERR_EXPIRED.
inline Result<ClientId, nfs4::nfsstat4> ClientOf(const Compound& compound, StateTables& state, nfs4::clientid4 named) {
  if (compound.session) return compound.session->client;
  const ClientId client(named);
  const auto status = state.clients.Check(client, OriginOf(compound));
  if (status != nfs4::NFS4_OK) return std::unexpected(status);
  state.clients.Renew(client, compound.now());
  return client;
}

// The principals that may do an operation in a session of the state's client.
enum class Principals : uint8_t {
  kAll,
  // The principals that made the state, and the client's machine: a choice of RFC 8881 §18.2.3, §18.6.3, §18.12.3.
  kMakers,
};

// Finds the state on the current file that an operation will change. It does not check the seqid of `id`. Fails with
// ErrorWords::wrong_principal if the principal may not change the state.
//
// In a dialect without sessions, any client may present any stateid. There, only the makers of the state and the
// client's machine may change it; they come from the client's address or prove their identity. A valid stateid also
// renews its client's lease (RFC 7530 §9.5).
template <class Record>
Result<Record*, nfs4::nfsstat4> FindOwn(const Compound& compound, StateTables& state, const nfs4::stateid4& id,
                                        Principals principals = Principals::kAll) {
  PENSTOCK_TRY(Record * record,
               state.files.template Find<Record>(PresenterOf(compound), id, compound.current->handle()));
  const bool in_session = compound.dialect.has_sessions();
  const Client* const client = state.clients.Find(record->client->id);
  if (!client) return std::unexpected(nfs4::NFS4ERR_EXPIRED);  // the client is being removed
  if (client->dialect.has_sessions() != in_session) return std::unexpected(nfs4::NFS4ERR_BAD_STATEID);
  const bool for_makers = !in_session || principals == Principals::kMakers;
  if (for_makers && !client->MayChange(MakersOf(*record), OriginOf(compound))) {
    return std::unexpected(compound.dialect.errors().wrong_principal);
  }
  if (!in_session) state.clients.Renew(client->id, compound.now());
  return record;
}

// Makes the stateid of a result the current one (RFC 8881 §16.2.3.1.2).
inline void SetCurrentStateId(Compound& compound, const nfs4::stateid4& id) {
  if (compound.dialect.has_current_stateid()) compound.current_stateid = id;
}

}  // namespace penstock::nfs::v4
