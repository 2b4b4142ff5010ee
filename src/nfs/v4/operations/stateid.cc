// TEST_STATEID, FREE_STATEID.
#include "nfs/v4/operations/stateful.h"

namespace penstock::nfs::v4 {

using namespace nfs4;  // NOLINT: the protocol's own names, RFC 8881

// RFC 8881 §18.48: special stateids, including the current one, are never valid here.
TEST_STATEID4res TestStateIds(Compound& compound, const TEST_STATEID4args& arguments) {
  const Presenter who = PresenterOf(compound);
  TEST_STATEID4resok answer;
  answer.tsr_status_codes.reserve(arguments.ts_stateids.size());
  return compound.services.state.Run([&](StateTables& state) {
    for (const stateid4& id : arguments.ts_stateids) answer.tsr_status_codes.push_back(state.files.Test(who, id));
    return TEST_STATEID4res(NFS4_OK, std::move(answer));
  });
}

// RFC 8881 §18.38
FREE_STATEID4res FreeStateId(Compound& compound, const FREE_STATEID4args& arguments) {
  const auto id = ResolveStateId(compound, arguments.fsa_stateid);
  if (!id) return {.fsr_status = id.error()};
  return compound.services.state.Run([&](StateTables& state) -> FREE_STATEID4res {
    return {.fsr_status = state.files.Free(PresenterOf(compound), *id)};
  });
}

}  // namespace penstock::nfs::v4
