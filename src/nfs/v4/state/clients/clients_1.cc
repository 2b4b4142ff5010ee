// The client IDs of minor version 1 and later. The cases of EXCHANGE_ID are numbered as in RFC 8881 §18.35.4.
#include "nfs/v4/state/clients/clients.h"

namespace penstock::nfs::v4 {

Result<Clients::ExchangeIdResult, nfs4::nfsstat4> Clients::Exchange(const ExchangeId& asked, const Sender& sender,
                                                                    TimePoint now, const HasState& has_state) {
  const auto found = owners_.find(OwnerKey(1, asked.owner));
  const Owner known = found == owners_.end() ? Owner() : found->second;
  Client* confirmed = known.confirmed;
  if (confirmed && confirmed->doomed) return std::unexpected(nfs4::NFS4ERR_DELAY);  // it is about to go
  // RFC 8881 §2.4: of a client with a machine credential nobody is the same but that.
  const bool same_principal =
      confirmed && confirmed->principal == sender.principal && confirmed->Permits(nfs4::OP_EXCHANGE_ID, sender);
  const bool same_verifier = confirmed && confirmed->verifier == asked.verifier;
  const auto existing = [&] {
    return ExchangeIdResult{.id = confirmed->id,
                            .sequence = NextCreate(*confirmed),
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
  const bool uses = confirmed && (!confirmed->sessions.empty() || has_state(confirmed->id));
  if (confirmed && !same_principal && uses && !LeaseIsOver(*confirmed, now)) {
    return std::unexpected(nfs4::NFS4ERR_CLID_INUSE);  // 3. client collision
  }
  if (!confirmed && IsFull()) return std::unexpected(nfs4::NFS4ERR_DELAY);

  // 3. a collision with one that is not used any more: as if there had been none.
  Gone gone;
  if (confirmed && !same_principal) {
    gone = confirmed->id;
    Remove(confirmed->id);
  }
  // 4. replacement of an unconfirmed record; also of one beside a confirmed record, which need not outlive the next
  // EXCHANGE_ID (5.).
  if (known.unconfirmed) Remove(known.unconfirmed->id);
  // 1. new owner ID, or 5. client restart: the confirmed record stays until CREATE_SESSION confirms this one.
  Client& client = Add(asked.minor_version, asked.owner, asked.verifier, sender.principal, now);
  client.protection = asked.protection;
  return ExchangeIdResult{
      .id = client.id, .sequence = NextCreate(client), .gone = gone, .protection = client.protection};
}

SequenceId Clients::NextCreate(const Client& client) { return SequenceId(client.create_sequence.value() + 1); }

nfs4::nfsstat4 Clients::CheckProtection(ClientId id, nfs4::nfs_opnum4 operation, const Sender& sender) const {
  const auto found = clients_.find(id);
  const bool permitted = found == clients_.end() || found->second->Permits(operation, sender);
  return permitted ? nfs4::NFS4_OK : nfs4::NFS4ERR_WRONG_CRED;
}

nfs4::nfsstat4 Clients::CheckProtection(const SessionId& id, nfs4::nfs_opnum4 operation, const Sender& sender) const {
  const Session* session = FindSession(id);
  return session ? CheckProtection(session->client->id, operation, sender) : nfs4::NFS4_OK;
}

bool Clients::MachineMay(ClientId id, nfs4::nfs_opnum4 operation, const Sender& sender) const {
  const Client* client = Find(id);
  return client && client->protection.allowed.Has(operation) && client->IsMachine(sender);
}

Result<OldRecord, nfs4::nfsstat4> Clients::Destroy(ClientId id, const Sender& sender, TimePoint now,
                                                   const HasState& has_state) {
  const auto status = CheckProtection(id, nfs4::OP_DESTROY_CLIENTID, sender);
  if (status != nfs4::NFS4_OK) return std::unexpected(status);
  const Client* client = FindAny(id);
  if (!client || client->doomed || client->minor_version == 0) return std::unexpected(nfs4::NFS4ERR_STALE_CLIENTID);
  const bool busy = !client->sessions.empty() || has_state(id);
  if (busy && !LeaseIsOver(*client, now)) return std::unexpected(nfs4::NFS4ERR_CLIENTID_BUSY);
  OldRecord record = client->confirmed ? RecordOf(*client) : std::nullopt;
  // Whoever goes has nothing to reclaim.
  if (record) grace_.Complete(*record, client->principal);
  Remove(id);
  return record;
}

nfs4::nfsstat4 Clients::CompleteReclaim(ClientId id) {
  Client* client = FindAny(id);
  // Its new incarnation may have come over another connection since SEQUENCE.
  if (!client || client->doomed) return nfs4::NFS4ERR_DEADSESSION;
  if (client->reclaim_complete) return nfs4::NFS4ERR_COMPLETE_ALREADY;
  client->reclaim_complete = true;
  grace_.Complete(client->key(), client->principal);
  return nfs4::NFS4_OK;
}

}  // namespace penstock::nfs::v4
