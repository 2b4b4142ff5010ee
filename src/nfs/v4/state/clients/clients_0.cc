// The client IDs of minor version 0. The cases are those of RFC 7530 §16.33.5 and §16.34.5, with their letters:
// a record is { verifier, id, client ID, callback, confirmation }.
#include "nfs/v4/state/tables.h"

namespace penstock::nfs::v4 {
namespace {

nfs4::verifier4 VerifierOf(uint64_t random) {
  nfs4::verifier4 verifier;
  // One of zeros is what a client has that was given none.
  StoreBig(verifier.data(), random == 0 ? uint64_t{1} : random);
  return verifier;
}

}  // namespace

Result<SetClientIdResult, nfs4::nfsstat4> StateTables::Set(const SetClientIdRequest& asked, const Principal& principal,
                                                           uint64_t random, TimePoint now) {
  const Clients::Records known = clients.OfOwner(0, asked.id);
  Client* confirmed = known.confirmed && !known.confirmed->doomed ? known.confirmed : nullptr;
  const bool same_principal = confirmed && confirmed->principal == principal;

  // A name is its principal's as long as that has something by it (RFC 7530 §9.1.1).
  if (confirmed && !same_principal && files.HasState(confirmed->id) && !clients.LeaseIsOver(*confirmed, now)) {
    return std::unexpected(nfs4::NFS4ERR_CLID_INUSE);
  }
  if (known.confirmed && !confirmed) return std::unexpected(nfs4::NFS4ERR_DELAY);  // it is about to go
  if (!confirmed && clients.IsFull()) return std::unexpected(nfs4::NFS4ERR_RESOURCE);

  // Whatever of this name waits for confirmation is replaced: { v, x, c, *, * }, { w, x, d, m, t } and { u, x, c, l, *
  // }.
  if (known.unconfirmed) clients.RemoveUnconfirmed(*known.unconfirmed);
  if (confirmed) confirmed->update.reset();

  nfs4::verifier4 confirmation = VerifierOf(random);
  if (same_principal && confirmed->verifier == asked.verifier) {
    // { v, x, c, l, s } is confirmed: a new callback for the client that we know, with another confirmation than
    // before.
    if (confirmation == confirmed->confirmation) confirmation = VerifierOf(random + 1);
    confirmed->update = {confirmation, asked.callback, asked.address};
    return SetClientIdResult{confirmed->id, confirmation};
  }
  Client& client = clients.Add(0, asked.id, asked.verifier, principal, now);
  client.callback = asked.callback;
  client.address = asked.address;
  client.confirmation = confirmation;
  return SetClientIdResult{client.id, confirmation};
}

nfs4::nfsstat4 StateTables::Confirm(ClientId id, const nfs4::verifier4& confirmation, const Principal& principal,
                                    TimePoint now) {
  Client* client = clients.FindAny(id);
  if (!client || client->doomed || client->minor_version != 0) return nfs4::NFS4ERR_STALE_CLIENTID;
  const bool updates = client->update && client->update->confirmation == confirmation;
  if (!updates && client->confirmation != confirmation) return nfs4::NFS4ERR_STALE_CLIENTID;
  if (client->principal != principal) return nfs4::NFS4ERR_CLID_INUSE;

  if (client->confirmed) {
    // { v, x, c, k, s } waits beside { v, x, c, l, t }: the callback changes, and nothing else. Or the client asks
    // again, having missed the answer: nothing changes.
    if (updates) {
      client->callback = std::move(client->update->callback);
      client->address = client->update->address;
      client->confirmation = confirmation;
      client->update.reset();
      client->path = PathState::kUnknown;
    }
    return nfs4::NFS4_OK;
  }
  // { *, x, c, k, s } waits: a new client, or a new incarnation of { *, x, d, *, t }, which goes with all that it has.
  const Client* before = clients.OfOwner(0, client->owner).confirmed;
  if (before && before->doomed) return nfs4::NFS4ERR_DELAY;
  if (before && before->principal != principal && files.HasState(before->id) && !clients.LeaseIsOver(*before, now)) {
    return nfs4::NFS4ERR_CLID_INUSE;
  }
  MakeConfirmed(*client, now);
  return nfs4::NFS4_OK;
}

}  // namespace penstock::nfs::v4
