// What the operations on opens, locks and delegations have in common.
#pragma once

#include <optional>
#include <utility>

#include "nfs/v4/engine/compound.h"
#include "nfs/v4/operations/io_state.h"
#include "nfs/v4/operations/operations.h"
#include "nfs/v4/state/files/owners.h"
#include "nfs/v4/state/state.h"

namespace penstock::nfs::v4 {

// Version 4.0: what to answer without executing the request: what it was answered the first time, or an error (RFC 7530 §9.1.7).
// NFS4ERR_RESOURCE tells a client whose last request of this owner is still under way to send this one again.
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

// Runs an operation of an owner in its turn; `run` leaves the owner where it is. Later versions have their slots for that.
template <class Results, class Run>
Results RunInTurn(uint32_t minor_version, OwnerSequence& sequence, SequenceId given, Run run) {
  if (minor_version > 0) return run();
  if (auto answer = AnswerOutOfTurn<Results>(sequence, given)) return *std::move(answer);
  Results results = run();
  sequence.Finish(given, results);
  return results;
}

inline Origin OriginOf(const Compound& compound) {
  return {Principal::Of(compound.call.credential), compound.call.peer.address.address()};
}

// The client whose request it is: that of the session, else the one that it names. In version 4.0 its lease is renewed, and it may
// be NFS4ERR_STALE_CLIENTID or NFS4ERR_EXPIRED.
inline Result<ClientId, nfs4::nfsstat4> ClientOf(const Compound& compound, StateTables& state, nfs4::clientid4 named) {
  if (compound.slot) return compound.slot->client;
  const ClientId client(named);
  const auto status = state.clients.Check(client, OriginOf(compound));
  if (status != nfs4::NFS4_OK) return std::unexpected(status);
  state.clients.Renew(client, compound.now());
  return client;
}

// Who may do an operation, of the principals that come in a session of the state's client.
enum class Principals : uint8_t {
  kAll,
  kMakers,  // the one who made the state, and the client's machine: the choice of RFC 8881 §18.2.3, §18.6.3, §18.12.3
};

// The state on the current file that an operation is about to change, whatever the seqid of `id`. NFS4ERR_WRONG_CRED
// where it is not for this principal. In version 4.0, where anybody may present any stateid, it is always for its makers
// and the machine alone, which come from the client's address or prove who they are: else NFS4ERR_BAD_STATEID. There a
// stateid that is good for something also renews its client's lease (RFC 7530 §9.5).
template <class Record>
Result<Record*, nfs4::nfsstat4> FindOwn(const Compound& compound, StateTables& state, const nfs4::stateid4& id,
                                        Principals principals = Principals::kAll) {
  PENSTOCK_TRY(Record * record,
               state.files.template Find<Record>(PresenterOf(compound), id, compound.current->handle()));
  const bool minor_zero = compound.minor_version == 0;
  const Client* const client = state.clients.Find(record->client->id);
  if (!client) return std::unexpected(nfs4::NFS4ERR_EXPIRED);  // it is about to go
  if ((client->minor_version == 0) != minor_zero) return std::unexpected(nfs4::NFS4ERR_BAD_STATEID);
  const bool for_makers = minor_zero || principals == Principals::kMakers;
  if (for_makers && !client->MayChange(MakersOf(*record), OriginOf(compound))) {
    return std::unexpected(minor_zero ? nfs4::NFS4ERR_BAD_STATEID : nfs4::NFS4ERR_WRONG_CRED);
  }
  if (minor_zero) state.clients.Renew(client->id, compound.now());
  return record;
}

// The stateid of a result becomes the current one (RFC 8881 §16.2.3.1.2).
inline void SetCurrentStateId(Compound& compound, const nfs4::stateid4& id) {
  if (compound.minor_version > 0) compound.current_stateid = id;
}

}  // namespace penstock::nfs::v4
