// The client IDs of minor version 1 and later. Comments number the cases of EXCHANGE_ID as RFC 8881 §18.35.4 does.
#include "nfs/v4/state/tables.h"

namespace penstock::nfs::v4 {

Result<ExchangeIdResult, nfs4::nfsstat4> StateTables::Exchange(const ExchangeIdRequest& asked, const Sender& sender,
                                                               TimePoint now) {
  const Clients::Records known = clients.OfOwner(asked.dialect, asked.owner);
  Client* confirmed = known.confirmed;
  if (confirmed && confirmed->doomed) return std::unexpected(nfs4::NFS4ERR_DELAY);  // the server is removing it
  // RFC 8881 §2.4: for a client with a machine credential, only a call with that credential has the same principal.
  const bool same_principal =
      confirmed && confirmed->principal == sender.principal && confirmed->Permits(nfs4::OP_EXCHANGE_ID, sender);
  const bool same_verifier = confirmed && confirmed->verifier == asked.verifier;
  const auto existing = [&] {
    return ExchangeIdResult{.id = confirmed->id,
                            .sequence = confirmed->NextCreate(),
                            .confirmed = true,
                            .protection = confirmed->protection};
  };

  if (asked.update) {
    if (!confirmed) return std::unexpected(nfs4::NFS4ERR_NOENT);         // 7. no confirmed record
    if (!same_verifier) return std::unexpected(nfs4::NFS4ERR_NOT_SAME);  // 8. wrong verifier
    if (!same_principal) return std::unexpected(nfs4::NFS4ERR_PERM);     // 9. wrong principal
    return existing();                                                   // 6. update
  }
  if (same_principal && same_verifier) return existing();  // 2. non-update on existing client ID
  const bool uses = confirmed && (!confirmed->sessions.empty() || files.HasState(confirmed->id));
  if (confirmed && !same_principal && uses && !clients.LeaseIsOver(*confirmed, now)) {
    return std::unexpected(nfs4::NFS4ERR_CLID_INUSE);  // 3. client collision
  }
  if (!confirmed && clients.IsFull()) return std::unexpected(nfs4::NFS4ERR_DELAY);

  // 3. A collision with an owner that is no longer in use: the server removes its client and goes on.
  const bool replaces = confirmed && !same_principal;
  if (replaces) End(confirmed->id, now);
  // 4. The new record replaces an unconfirmed one. It also replaces an unconfirmed record beside a confirmed one (5.),
  // which need not outlive the next EXCHANGE_ID.
  if (known.unconfirmed) clients.RemoveUnconfirmed(*known.unconfirmed);
  // 1. New owner ID, or 5. client restart: the confirmed record stays until CREATE_SESSION confirms the new one.
  Client& client = clients.Add(asked.dialect, asked.owner, asked.verifier, sender.principal, now);
  client.protection = asked.protection;
  return ExchangeIdResult{
      .id = client.id, .sequence = client.NextCreate(), .replaces = replaces, .protection = client.protection};
}

Result<OldRecord, nfs4::nfsstat4> StateTables::Destroy(ClientId id, const Sender& sender, TimePoint now) {
  const auto status = clients.CheckProtection(id, nfs4::OP_DESTROY_CLIENTID, sender);
  if (status != nfs4::NFS4_OK) return std::unexpected(status);
  const Client* client = clients.FindAny(id);
  if (!client || client->doomed || client->dialect.session_kind() != SessionKind::kSlots)
    return std::unexpected(nfs4::NFS4ERR_STALE_CLIENTID);
  const bool busy = !client->sessions.empty() || files.HasState(id);
  if (busy && !clients.LeaseIsOver(*client, now)) return std::unexpected(nfs4::NFS4ERR_CLIENTID_BUSY);
  return EndForGood(id, now);
}

}  // namespace penstock::nfs::v4
