// Checks an operation on a file against opens, share denials and delegations (RFC 8881 §9.1, §9.7, §10.4).
#pragma once

#include "base/task.h"
#include "nfs/v4/callback/callbacks.h"
#include "nfs/v4/engine/compound.h"
#include "nfs/v4/engine/file_uses.h"
#include "nfs/v4/state/state.h"

namespace penstock::nfs::v4 {

// Check whether a file may be read or written under a stateid (RFC 8881 §8.2.5, §9.1.2, RFC 7530 §9.1.6), including
// special stateids. `given` is the stateid of the client (they call Compound::Resolve). They renew the lease. They
// recall conflicting delegations of other clients, and return NFS4ERR_DELAY until these are gone. No client gets a new
// delegation until the operation is done. SETATTR of a size is a write.
Task<nfs4::nfsstat4> CheckRead(Compound& compound, const nfs4::stateid4& given, const Object& file);
Task<nfs4::nfsstat4> CheckWrite(Compound& compound, const nfs4::stateid4& given, const Object& file);

// For READ and READ_PLUS of the current file. Another server that copies the file presents the stateid of a COPY_NOTIFY
// (RFC 7862 §15.3): `on_behalf` then becomes the file as the user of COPY_NOTIFY uses it, and must be read instead.
Task<nfs4::nfsstat4> CheckRead(Compound& compound, const nfs4::stateid4& given, std::optional<Object>& on_behalf);

// For the current file.
inline Task<nfs4::nfsstat4> CheckRead(Compound& compound, const nfs4::stateid4& given) {
  return CheckRead(compound, given, *compound.current);
}
inline Task<nfs4::nfsstat4> CheckWrite(Compound& compound, const nfs4::stateid4& given) {
  return CheckWrite(compound, given, *compound.current);
}

// Call it before `file` is changed otherwise: removed, renamed, replaced, linked, or its attributes set (RFC 8881
// §10.4.4). Returns NFS4ERR_DELAY while it recalls other clients' delegations, and NFS4ERR_GRACE while these may still
// be reclaimed. In version 4.0 the request does not identify its client, so the client's own delegation is recalled
// too, unless its stateid is `given` (SETATTR).
Task<nfs4::nfsstat4> RecallBeforeChange(Compound& compound, const NamedFile& file);
Task<nfs4::nfsstat4> RecallBeforeChange(Compound& compound, const NamedFile& file, const nfs4::stateid4& given);

// If another client holds a write delegation on the file, asks it (CB_GETATTR, RFC 8881 §10.4.3). If that client has
// changed the file, sets new times and a new change attribute, and stores them in `attributes` with the size that the
// client reports. The times are those that the client reports, if it is the authority for them (RFC 9754 §5). Only such
// a client is asked unless `for_version`: the caller needs only the access time.
Task<> AskHolder(Compound& compound, const Object& file, bool for_version, fs::Attributes& attributes);
// Whether AskHolder() may find a delegation. If not, its caller saves the lock of the state.
bool MayHaveHolder(const Compound& compound, const Object& file);

// --- For callers outside of a COMPOUND

// The caller that uses a file.
struct Asker {
  const Services& services;
  Loop* loop;  // to resume on; null in a simulation
  Presenter who;
  FileUses& uses;  // registers the change: no client gets a delegation on the file until the uses end
};

// Like CheckRead and CheckWrite, with a resolved stateid.
Task<nfs4::nfsstat4> CheckIo(Asker asker, Result<nfs4::stateid4, nfs4::nfsstat4> id, NamedFile file, bool write);

// Like RecallBeforeChange, for any use. During grace, only changes get NFS4ERR_GRACE.
Task<nfs4::nfsstat4> Recall(Asker asker, NamedFile file, std::optional<nfs4::stateid4> given, Delegations::Use use);

// --- For operations on state

// The presenter of the stateids in this COMPOUND.
inline Presenter PresenterOf(const Compound& compound) {
  if (!compound.session) return {compound.dialect, std::nullopt};
  return {compound.dialect, compound.session->client};
}
// The presenter for callers that use no NFSv4: other versions of NFS, and local programs. Like a request of RFC 7530,
// they have no session.
Presenter PresenterWithoutSession();

// Returns the stateid that an operation was called with. For the current stateid the seqid is ignored, except in CLOSE
// and OPEN_DOWNGRADE (`exact`, RFC 8881 §8.2.3).
Result<nfs4::stateid4, nfs4::nfsstat4> ResolveStateId(const Compound& compound, const nfs4::stateid4& given,
                                                      bool exact = false);

// Handles clients that conflict with this request. Returns true if the request may be tried again at once, because the
// lease of one of them has expired and the client is forgotten. Returns false if all of them are alive.
Task<bool> ForgetExpiredHolders(const Services& services, Loop* loop, std::vector<ClientId> holders);
inline Task<bool> ForgetExpiredHolders(Compound& compound, std::vector<ClientId> holders) {
  return ForgetExpiredHolders(compound.services, compound.call.peer.loop, std::move(holders));
}

}  // namespace penstock::nfs::v4
