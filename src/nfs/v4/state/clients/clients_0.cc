// The client IDs of minor version 0: SETCLIENTID and SETCLIENTID_CONFIRM. Comments write a record as RFC 7530 §16.33.5
// and §16.34.5 do: { verifier, id, client ID, callback, confirmation }.
#include "nfs/v4/state/tables.h"

namespace penstock::nfs::v4 {
namespace {

nfs4::verifier4 VerifierOf(uint64_t random) {
  nfs4::verifier4 verifier;
  // A client without a confirmation has a verifier of zeros, so no confirmation may consist of zeros.
  StoreBig(verifier.data(), random == 0 ? uint64_t{1} : random);
  return verifier;
}

}  // namespace

Result<SetClientIdResult, nfs4::nfsstat4> StateTables::Set(const SetClientIdRequest& asked, const Principal& principal,
                                                           uint64_t random, TimePoint now) {
  const Clients::Records known = clients.OfOwner(asked.dialect, asked.id);
  Client* confirmed = known.confirmed && !known.confirmed->doomed ? known.confirmed : nullptr;
  const bool same_principal = confirmed && confirmed->principal == principal;

  // An owner belongs to its principal as long as it has state and its lease is not over (RFC 7530 §9.1.1).
  if (confirmed && !same_principal && files.HasState(confirmed->id) && !clients.LeaseIsOver(*confirmed, now)) {
    return std::unexpected(nfs4::NFS4ERR_CLID_INUSE);
  }
  if (known.confirmed && !confirmed) return std::unexpected(nfs4::NFS4ERR_DELAY);  // the server is removing it
  if (!confirmed && clients.IsFull()) return std::unexpected(nfs4::NFS4ERR_RESOURCE);

  // The request replaces each unconfirmed record of this owner: { v, x, c, *, * }, { w, x, d, m, t } and
  // { u, x, c, l, * }.
  if (known.unconfirmed) clients.RemoveUnconfirmed(*known.unconfirmed);
  if (confirmed) confirmed->update.reset();

  nfs4::verifier4 confirmation = VerifierOf(random);
  if (same_principal && confirmed->verifier == asked.verifier) {
    // { v, x, c, l, s } is confirmed: the known client sets a new callback. The new confirmation must differ from the
    // old one.
    if (confirmation == confirmed->confirmation) confirmation = VerifierOf(random + 1);
    confirmed->update = {confirmation, asked.callback, asked.address};
    return SetClientIdResult{confirmed->id, confirmation};
  }
  Client& client = clients.Add(asked.dialect, asked.id, asked.verifier, principal, now);
  client.callback = asked.callback;
  client.address = asked.address;
  client.confirmation = confirmation;
  return SetClientIdResult{client.id, confirmation};
}

nfs4::nfsstat4 StateTables::Confirm(ClientId id, const nfs4::verifier4& confirmation, const Principal& principal,
                                    TimePoint now) {
  Client* client = clients.FindAny(id);
  if (!client || client->doomed || client->dialect.has_sessions()) return nfs4::NFS4ERR_STALE_CLIENTID;
  const bool updates = client->update && client->update->confirmation == confirmation;
  if (!updates && client->confirmation != confirmation) return nfs4::NFS4ERR_STALE_CLIENTID;
  if (client->principal != principal) return nfs4::NFS4ERR_CLID_INUSE;

  if (client->confirmed) {
    // { v, x, c, k, s } is unconfirmed, { v, x, c, l, t } is confirmed: the callback changes, and the state stays.
    // Without an update, the client has missed the reply and repeats the request: nothing changes.
    if (updates) {
      client->callback = std::move(client->update->callback);
      client->address = client->update->address;
      client->confirmation = confirmation;
      client->update.reset();
      client->path = PathState::kUnknown;
    }
    return nfs4::NFS4_OK;
  }
  // { *, x, c, k, s } is unconfirmed: this is a new client, or a new incarnation of { *, x, d, *, t }. The server
  // removes the old incarnation with all of its state.
  const Client* before = clients.OfOwner(client->dialect, client->owner).confirmed;
  if (before && before->doomed) return nfs4::NFS4ERR_DELAY;
  if (before && before->principal != principal && files.HasState(before->id) && !clients.LeaseIsOver(*before, now)) {
    return nfs4::NFS4ERR_CLID_INUSE;
  }
  MakeConfirmed(*client, now);
  return nfs4::NFS4_OK;
}

}  // namespace penstock::nfs::v4
