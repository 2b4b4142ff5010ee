// DELEGRETURN, DELEGPURGE, WANT_DELEGATION, GET_DIR_DELEGATION.
#include <tuple>

#include "nfs/v4/attributes/convert.h"
#include "nfs/v4/operations/lease.h"
#include "nfs/v4/operations/local_leases.h"
#include "nfs/v4/operations/share_arguments.h"
#include "nfs/v4/operations/stateful.h"

namespace penstock::nfs::v4 {

using namespace nfs4;  // NOLINT: the protocol's own names, RFC 8881

namespace {

open_delegation4 Refuse(why_no_delegation4 why) {
  return open_delegation4(OPEN_DELEGATE_NONE_EXT, open_none_delegation4(why));
}

// RFC 8881 §18.49.3: the reason why an object of this type gets no delegation.
std::optional<open_delegation4> RefuseType(fs::FileType type, Want want) {
  switch (type) {
    case fs::FileType::kRegular:
      return std::nullopt;
    case fs::FileType::kDirectory:
      return Refuse(WND4_IS_DIR);
    default:
      return Refuse(want == Want::kWrite ? WND4_WRITE_DELEG_NOT_SUPP_FTYPE : WND4_NOT_SUPP_FTYPE);
  }
}

// The caller's rights to a file.
struct Rights {
  nfsstat4 status = NFS4_OK;  // NFS4_OK if the other members are valid
  fs::FileType type = fs::FileType::kRegular;
  bool read = false;
  bool write = false;
};

Task<Rights> RightsTo(const Object& file) {
  constexpr fs::AccessMask kBoth = fs::kAccessRead | fs::kAccessModify;
  const auto access = co_await file.file_system().Access(file.context(), file.object(), kBoth);
  Rights rights;
  if (!access.result) {
    rights.status = ToStatus(access.result.error());
    co_return rights;
  }
  rights.type = access.attributes->type;
  rights.read = (*access.result & fs::kAccessRead) != 0;
  rights.write = !file.read_only() && (*access.result & fs::kAccessModify);
  co_return rights;
}

// Grants a delegation on a file that the client need not have open. It requires read permission.
Task<WANT_DELEGATION4res> GiveWanted(Compound& compound, Want want) {
  const Object& file = *compound.current;
  const Rights rights = co_await RightsTo(file);
  if (rights.status != NFS4_OK) co_return WANT_DELEGATION4res(rights.status);
  if (auto refused = RefuseType(rights.type, want)) co_return WANT_DELEGATION4res(NFS4_OK, *refused);
  if (!rights.read) co_return WANT_DELEGATION4res(NFS4ERR_ACCESS);
  const ClientId client = compound.session->client;
  const auto recorded = co_await RecordClient(compound.services, compound.call.peer.loop, client);
  if (recorded != NFS4_OK) co_return WANT_DELEGATION4res(recorded);

  Delegations::DelegationRequest request{
      .client = client,
      .file = file.name(),
      .dialect = compound.dialect,
      .by = Principal::Of(compound.call.credential),
      .facts = {.want = want, .offered = OffersDelegations(compound), .writable = rights.write},
      .asked_by = compound.request_name()};
  request.lease = co_await OpenLeaseFor(compound, request, file.object());

  co_return compound.services.state.Run([&](StateTables& state) {
    if (const nfsstat4 status = state.clients.CheckNew(client); status != NFS4_OK) return WANT_DELEGATION4res(status);
    request.facts.can_call_back = state.CanCall(client);
    return WANT_DELEGATION4res(NFS4_OK, state.files.delegations.Delegate(request, compound.now()));
  });
}

Task<WANT_DELEGATION4res> GiveBack(Compound& compound, open_delegation_type4 type) {
  if (type != OPEN_DELEGATE_READ && type != OPEN_DELEGATE_WRITE) co_return WANT_DELEGATION4res(NFS4ERR_INVAL);
  const bool write = type == OPEN_DELEGATE_WRITE;
  const Object& file = *compound.current;
  const Rights rights = co_await RightsTo(file);
  if (rights.status != NFS4_OK) co_return WANT_DELEGATION4res(rights.status);
  if (rights.type != fs::FileType::kRegular) co_return WANT_DELEGATION4res(NFS4ERR_WRONG_TYPE);
  if (!rights.read || (write && !rights.write)) co_return WANT_DELEGATION4res(NFS4ERR_ACCESS);
  const ClientId client = compound.session->client;
  const nfsstat4 status =
      compound.services.state.Run([&](StateTables& state) { return state.clients.CheckReclaim(client); });
  if (status != NFS4_OK) co_return WANT_DELEGATION4res(status);
  const auto recorded = co_await RecordClient(compound.services, compound.call.peer.loop, client);
  if (recorded != NFS4_OK) co_return WANT_DELEGATION4res(recorded);

  co_return compound.services.state.Run([&](StateTables& state) {
    // The period may have ended meanwhile.
    if (const nfsstat4 now = state.clients.CheckReclaim(client); now != NFS4_OK) return WANT_DELEGATION4res(now);
    if (!state.files.delegations.MayReclaimDelegation(client, file.name(), write)) {
      return WANT_DELEGATION4res(NFS4ERR_RECLAIM_CONFLICT);
    }
    const bool may_stay = state.CanCall(client) && OffersDelegations(compound);
    return WANT_DELEGATION4res(NFS4_OK, state.files.delegations.ReclaimDelegation(
                                            client, file.name(), {.write = write}, may_stay, compound.dialect,
                                            Principal::Of(compound.call.credential), compound.now()));
  });
}

}  // namespace

// RFC 8881 §18.6
DELEGRETURN4res ReturnDelegation(Compound& compound, const DELEGRETURN4args& arguments) {
  const auto id = ResolveStateId(compound, arguments.deleg_stateid);
  if (!id) return {.status = id.error()};
  const Presenter who = PresenterOf(compound);
  return compound.services.state.Run([&](StateTables& state) -> DELEGRETURN4res {
    const auto found = FindOwn<DelegationState>(compound, state, *id, Principals::kMakers);
    if (!found) return {.status = found.error()};
    const nfsstat4 status = state.files.CheckSeqid(who, **found, *id);
    if (status == NFS4_OK) state.files.delegations.Return(**found, compound.now());
    return {.status = status};
  });
}

// RFC 8881 §18.5.3: not supported, because the server does not support CLAIM_DELEGATE_PREV: delegations do not outlive
// their client.
DELEGPURGE4res PurgeDelegations(Compound& compound, const DELEGPURGE4args& arguments) {
  if (compound.session) {
    const Sender sender = Sender::Of(compound.call.credential);
    const nfsstat4 status = compound.services.state.Run([&](StateTables& state) {
      return state.clients.CheckProtection(compound.session->client, OP_DELEGPURGE, sender);
    });
    if (status != NFS4_OK) return {.status = status};
  } else {
    // Renews the lease of the client (RFC 7530 §9.5).
    compound.services.state.Run(
        [&](StateTables& state) { std::ignore = ClientOf(compound, state, arguments.clientid); });
  }
  return {.status = NFS4ERR_NOTSUPP};
}

// RFC 8881 §18.49
Task<WANT_DELEGATION4res> WantDelegation(Compound& compound, const WANT_DELEGATION4args& arguments) {
  // Other flags are ignored. A request without a wanted delegation is invalid.
  const auto want = WantOf(compound.dialect, arguments.wda_want & ~OPEN4_SHARE_ACCESS_BOTH);
  if (!want || *want == Want::kNoPreference || *want == Want::kNone) co_return WANT_DELEGATION4res(NFS4ERR_INVAL);
  switch (arguments.wda_claim.dc_claim()) {
    case CLAIM_FH:
      co_return co_await GiveWanted(compound, *want);
    case CLAIM_PREVIOUS:
      co_return co_await GiveBack(compound, arguments.wda_claim.dc_delegate_type());
    default:
      co_return WANT_DELEGATION4res(NFS4ERR_NOTSUPP);
  }
}

// RFC 8881 §18.39: an optional feature (§17, "DDELG").
Task<GET_DIR_DELEGATION4res> GetDirectoryDelegation(Compound& /*compound*/,
                                                    const GET_DIR_DELEGATION4args& /*arguments*/) {
  co_return GET_DIR_DELEGATION4res(NFS4ERR_NOTSUPP);
}

}  // namespace penstock::nfs::v4
