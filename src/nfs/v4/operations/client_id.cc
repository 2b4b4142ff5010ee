// SETCLIENTID, SETCLIENTID_CONFIRM, RENEW: the clients of minor version 0.
#include "base/host.h"
#include "nfs/v4/callback/callbacks.h"
#include "nfs/v4/operations/operations.h"
#include "nfs/v4/operations/stateful.h"
#include "nfs/v4/state/state.h"
#include "rpc/universal_address.h"

namespace penstock::nfs::v4 {

using namespace nfs4;  // NOLINT: the protocol's own names, RFC 7530

namespace {

// Returns the callback address, which must be on the host that the client calls from: otherwise a client could make the
// server connect to any host. It is empty for a client whose mechanism gives the server no way to call it.
CallbackAddress AddressOf(const cb_client4& callback, uint32_t identifier, const rpc::CallContext& call) {
  std::optional<CallbackSecurity> security;
  if (const rpc::Credential& sender = call.credential; sender.flavor == rpc::AuthFlavor::RPCSEC_GSS) {
    if (sender.mechanism != rpc::GssMechanism::kKerberos || sender.initiator->acceptor.empty())
      return {.program = callback.cb_program, .identifier = identifier};
    security = {.service = sender.service, .client = sender.initiator->display, .server = sender.initiator->acceptor};
  }
  const rpc::Peer& peer = call.peer;
  // The server calls back over TCP only.
  const auto netid = rpc::ParseNetid(callback.cb_location.na_r_netid);
  const auto endpoint = netid && netid->transport == rpc::TransportKind::kTcp
                            ? rpc::ParseUniversalAddress(*netid, callback.cb_location.na_r_addr)
                            : std::nullopt;
  const bool same = endpoint && Unmapped(endpoint->address()) == Unmapped(peer.address.address());
  return {.program = callback.cb_program,
          .endpoint = same ? endpoint : std::nullopt,
          .identifier = identifier,
          .security = std::move(security)};
}

}  // namespace

// RFC 7530 §16.33
SETCLIENTID4res SetClientId(Compound& compound, const SETCLIENTID4args& arguments) {
  const SetClientIdRequest asked{.verifier = arguments.client.verifier,
                                 .id = AsText(arguments.client.id.bytes()),
                                 .callback = AddressOf(arguments.callback, arguments.callback_ident, compound.call),
                                 .address = compound.call.peer.address.address(),
                                 .dialect = compound.dialect};
  return compound.services.state.Run([&](StateTables& state) {
    const auto set =
        state.Set(asked, Principal::Of(compound.call.credential), compound.services.random(), compound.now());
    // The error may carry the address of the other client. It stays empty, so that it is not disclosed.
    if (!set) return SETCLIENTID4res(set.error());
    return SETCLIENTID4res(NFS4_OK,
                           SETCLIENTID4resok{.clientid = set->id.value(), .setclientid_confirm = set->confirmation});
  });
}

// RFC 7530 §16.34
SETCLIENTID_CONFIRM4res ConfirmClientId(Compound& compound, const SETCLIENTID_CONFIRM4args& arguments) {
  const ClientId id(arguments.clientid);
  const nfsstat4 status = compound.services.state.Run([&](StateTables& state) {
    return state.Confirm(id, arguments.setclientid_confirm, Principal::Of(compound.call.credential), compound.now());
  });
  if (status != NFS4_OK) return {status};
  compound.services.callbacks.Probe(id);
  return {NFS4_OK};
}

// RFC 7530 §16.28
RENEW4res Renew(Compound& compound, const RENEW4args& arguments) {
  const ClientId id(arguments.clientid);
  return compound.services.state.Run([&](StateTables& state) -> RENEW4res {
    const Origin origin = OriginOf(compound);
    if (const nfsstat4 status = state.clients.Check(id, origin); status != NFS4_OK) return {status};
    const bool may =
        origin.principal == state.clients.Find(id)->principal || state.files.owners.HasOpenBy(id, origin.principal);
    if (!may) return {NFS4ERR_ACCESS};
    state.clients.Renew(id, compound.now());
    // The lease is renewed. The error tells the client that it may lose its delegations.
    const bool down = state.clients.Find(id)->path == PathState::kDown && state.files.delegations.HasDelegations(id);
    return {down ? NFS4ERR_CB_PATH_DOWN : NFS4_OK};
  });
}

}  // namespace penstock::nfs::v4
