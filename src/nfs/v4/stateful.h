// What the operations on opens, locks and delegations have in common.
#pragma once

#include <optional>
#include <utility>

#include "nfs/v4/compound.h"
#include "nfs/v4/io_state.h"
#include "nfs/v4/operations.h"
#include "nfs/v4/state/owners.h"
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

// The client whose request it is: that of the session, else the one that it names. In version 4.0 its lease is renewed, and it may
// be NFS4ERR_STALE_CLIENTID or NFS4ERR_EXPIRED.
inline Result<ClientId, nfs4::nfsstat4> ClientOf(const Compound& compound, StateTables& state, nfs4::clientid4 named) {
  if (compound.slot) return compound.slot->client;
  const ClientId client(named);
  if (const auto status = state.clients.Check(client); status != nfs4::NFS4_OK) return std::unexpected(status);
  state.clients.Renew(client, compound.now());
  return client;
}

// Version 4.0: a stateid that is good for something renews its client's lease, too (RFC 7530 §9.5).
inline void RenewLease(const Compound& compound, StateTables& state, const StateRecord& record) {
  if (compound.minor_version == 0) state.clients.Renew(record.client->id, compound.now());
}

// The stateid of a result becomes the current one (RFC 8881 §16.2.3.1.2).
inline void SetCurrentStateId(Compound& compound, const nfs4::stateid4& id) {
  if (compound.minor_version > 0) compound.current_stateid = id;
}

}  // namespace penstock::nfs::v4
