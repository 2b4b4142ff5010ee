// Checks of an operation on a file against opens, share denials and delegations (RFC 8881 §9.1, §9.7, §10.4).
#pragma once

#include "base/task.h"
#include "nfs/v4/callback/callbacks.h"
#include "nfs/v4/engine/compound.h"
#include "nfs/v4/engine/file_uses.h"
#include "nfs/v4/state/state.h"

namespace penstock::nfs::v4 {

// Whether a file may be read or written under a stateid, as RFC 8881 §8.2.5 and §9.1.2 (RFC 7530 §9.1.6) have it,
// special stateids included; `given` is as the client wrote it (Compound::Resolve is done here). Renews the lease.
// Delegations of other clients that stand in the way are recalled, and the answer is NFS4ERR_DELAY until they are gone;
// until the operation is done nobody gets another. A size in SETATTR is a write.
Task<nfs4::nfsstat4> CheckRead(Compound& compound, const nfs4::stateid4& given, const Object& file);
Task<nfs4::nfsstat4> CheckWrite(Compound& compound, const nfs4::stateid4& given, const Object& file);

// The same for the current file.
inline Task<nfs4::nfsstat4> CheckRead(Compound& compound, const nfs4::stateid4& given) {
  return CheckRead(compound, given, *compound.current);
}
inline Task<nfs4::nfsstat4> CheckWrite(Compound& compound, const nfs4::stateid4& given) {
  return CheckWrite(compound, given, *compound.current);
}

// Before `file` is changed otherwise: removed, renamed, replaced, linked, its attributes set (RFC 8881 §10.4.4).
// NFS4ERR_DELAY while other clients' delegations on it are being recalled, NFS4ERR_GRACE while they might still be
// reclaimed. In version 4.0 nobody can tell whose request it is: there the holder's own is recalled, too, unless its
// stateid is `given` (SETATTR).
Task<nfs4::nfsstat4> RecallBeforeChange(Compound& compound, const NamedFile& file);
Task<nfs4::nfsstat4> RecallBeforeChange(Compound& compound, const NamedFile& file, const nfs4::stateid4& given);

// Where another client holds a write delegation on the file, it is asked (CB_GETATTR, RFC 8881 §10.4.3). If it has
// changed it, the file's times and change attribute become new ones, and `attributes` are those, with the size that the
// holder says.
Task<> AskHolder(Compound& compound, const Object& file, fs::Attributes& attributes);

// --- For requests outside a COMPOUND

// The sender of a request that uses a file.
struct Asker {
  const Services& services;
  Loop* loop;  // to resume on; null in a simulation
  Presenter who;
  FileUses& uses;  // notes the file that is to be changed: no client gets a delegation of it until the uses end
};

// As CheckRead and CheckWrite, with a stateid that is already resolved.
Task<nfs4::nfsstat4> CheckIo(Asker asker, Result<nfs4::stateid4, nfs4::nfsstat4> id, NamedFile file, bool write);

// As RecallBeforeChange. Uses other than kChange are allowed even while clients may still reclaim delegations.
Task<nfs4::nfsstat4> Recall(Asker asker, NamedFile file, std::optional<nfs4::stateid4> given, Delegations::Use use);

// --- For operations on state

// The presenter of the stateids in this COMPOUND.
inline Presenter PresenterOf(const Compound& compound) {
  if (!compound.slot) return {compound.dialect, std::nullopt};
  return {compound.dialect, compound.slot->client};
}
// The presenter for callers that use no NFSv4: other versions of NFS, and local programs. Like a request of RFC 7530,
// they have no session.
Presenter PresenterWithoutSession();

// The stateid that an operation was called with. Where it is the current one, its seqid does not count, except in CLOSE
// and OPEN_DOWNGRADE (`exact`, RFC 8881 §8.2.3).
Result<nfs4::stateid4, nfs4::nfsstat4> ResolveStateId(const Compound& compound, const nfs4::stateid4& given,
                                                      bool exact = false);

// Handles clients that conflict with this request. Returns true if the request may be tried again at once, because the lease of one of
// them has expired and the client is forgotten. Returns false if all of them are alive.
Task<bool> ForgetExpiredHolders(const Services& services, Loop* loop, std::vector<ClientId> holders);
inline Task<bool> ForgetExpiredHolders(Compound& compound, std::vector<ClientId> holders) {
  return ForgetExpiredHolders(compound.services, compound.call.peer.loop, std::move(holders));
}

}  // namespace penstock::nfs::v4
