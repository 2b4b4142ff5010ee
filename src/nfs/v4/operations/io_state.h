// Checks of an operation on a file against opens, share denials and delegations (RFC 8881 §9.1, §9.7, §10.4).
#pragma once

#include "base/task.h"
#include "nfs/v4/callback/callbacks.h"
#include "nfs/v4/engine/compound.h"
#include "nfs/v4/engine/file_uses.h"
#include "nfs/v4/state/state.h"

namespace penstock::nfs::v4 {

// Check whether a file may be read or written under a stateid (RFC 8881 §8.2.5, §9.1.2, RFC 7530 §9.1.6); special
// stateids are allowed. `given` is the stateid as the client sent it; it is resolved here (Compound::Resolve). They
// renew the lease. Conflicting delegations of other clients are recalled, and the answer is NFS4ERR_DELAY until they
// are returned; until the operation is done, no client gets another one. SETATTR of the size is a write.
Task<nfs4::nfsstat4> CheckRead(Compound& compound, const nfs4::stateid4& given, const Object& file);
Task<nfs4::nfsstat4> CheckWrite(Compound& compound, const nfs4::stateid4& given, const Object& file);

// The same for the current file.
inline Task<nfs4::nfsstat4> CheckRead(Compound& compound, const nfs4::stateid4& given) {
  return CheckRead(compound, given, *compound.current);
}
inline Task<nfs4::nfsstat4> CheckWrite(Compound& compound, const nfs4::stateid4& given) {
  return CheckWrite(compound, given, *compound.current);
}

// Call these before `file` is changed in another way: removed, renamed, replaced or linked, or its attributes are set
// (RFC 8881 §10.4.4). NFS4ERR_DELAY while other clients' delegations of it are being recalled, NFS4ERR_GRACE while
// clients may still reclaim delegations. In version 4.0 the server cannot tell which client sent the request, so the
// delegation of the sender is recalled, too, unless its stateid is `given` (SETATTR).
Task<nfs4::nfsstat4> RecallBeforeChange(Compound& compound, const NamedFile& file);
Task<nfs4::nfsstat4> RecallBeforeChange(Compound& compound, const NamedFile& file, const nfs4::stateid4& given);

// If another client holds a write delegation of the file, asks it for its attributes (CB_GETATTR, RFC 8881 §10.4.3). If
// the holder has changed the file, the file gets new times and a new change attribute, and `attributes` become these,
// with the size that the holder reports.
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

// The client that presents stateids in this COMPOUND.
inline Presenter PresenterOf(const Compound& compound) {
  if (!compound.slot) return {compound.minor_version, std::nullopt};
  return {compound.minor_version, compound.slot->client};
}

// Returns the stateid that an operation was called with. If the operation names the current stateid, the seqid does not
// count, except in CLOSE and OPEN_DOWNGRADE (`exact`, RFC 8881 §8.2.3).
Result<nfs4::stateid4, nfs4::nfsstat4> ResolveStateId(const Compound& compound, const nfs4::stateid4& given,
                                                      bool exact = false);

// Handles clients that are in the way of a request. Forgets those whose leases are over. Returns true if it has
// forgotten one, so that the request may be tried again at once; false if all of them are alive.
Task<bool> ForgetExpiredHolders(const Services& services, Loop* loop, std::vector<ClientId> holders);
inline Task<bool> ForgetExpiredHolders(Compound& compound, std::vector<ClientId> holders) {
  return ForgetExpiredHolders(compound.services, compound.call.peer.loop, std::move(holders));
}

}  // namespace penstock::nfs::v4
