#include "client/nfs4/revoked_state.h"

#include <algorithm>

#include "base/log.h"

namespace penstock::client::v4 {

using nfs4::nfsstat4;

namespace {

// The number of stateids in one TEST_STATEID. It keeps the reply small.
constexpr size_t kTestedAtOnce = 64;

}  // namespace

void RevokedState::Free(const nfs4::stateid4& stateid) {
  if (caller_.dialect().has_free_stateid && !caller_.ended()) caller_.SpawnBackground(FreeNow(stateid));
}

Task<void> RevokedState::FreeNow(nfs4::stateid4 stateid) {
  const uint64_t epoch = caller_.epoch();
  const nfs4::FREE_STATEID4args free{stateid};
  const auto freed = co_await caller_.Call([&] { return std::tuple(free); }, "forgetting revoked state");
  if (freed) co_return;
  log::debug("{}", freed.error().message);
  const bool is_held = freed.error().status == static_cast<Status>(nfsstat4::NFS4ERR_LOCKS_HELD);
  if (is_held && epoch == caller_.epoch()) left_.emplace_back(stateid, epoch);
}

void RevokedState::HandleFlag(bool some) {
  if (!some || finding_ || caller_.timers().Now() < find_again_) return;
  finding_ = true;
  caller_.SpawnBackground(Find());
}

// RFC 8881 §10.4.5, §18.48.3
Task<void> RevokedState::Find() {
  for (const auto& [stateid, epoch] : std::exchange(left_, {})) {
    if (epoch == caller_.epoch()) co_await FreeNow(stateid);
  }
  std::vector<nfs4::stateid4> rest = holder_.stateids();
  while (!rest.empty()) {
    const size_t count = std::min(rest.size(), kTestedAtOnce);
    std::vector<nfs4::stateid4> some(rest.end() - static_cast<ptrdiff_t>(count), rest.end());
    rest.resize(rest.size() - count);
    const Result<void> tested = co_await TestSome(std::move(some));
    if (!tested) {
      log::debug("{}", tested.error().message);
      break;
    }
  }
  // The flag may be about state that the client does not know, and stays set as long as that exists.
  find_again_ = caller_.timers().Now() + caller_.lease_time() / 2;
  finding_ = false;
}

Task<Result<void>> RevokedState::TestSome(std::vector<nfs4::stateid4> some) {
  const uint64_t epoch = caller_.epoch();
  const auto build = [&] {
    nfs4::TEST_STATEID4args test;
    for (const nfs4::stateid4& each : some) test.ts_stateids.push_back(each);
    return std::tuple(std::move(test));
  };
  auto reply = co_await caller_.Call(build, "testing state");
  if (!reply) co_return std::unexpected(std::move(reply).error());
  if (epoch != caller_.epoch()) co_return Result<void>();
  const auto& statuses = std::get<0>(reply->results).tsr_resok4().tsr_status_codes;
  for (size_t i = 0; i < std::min(statuses.size(), some.size()); ++i) {
    if (statuses[i] != nfsstat4::NFS4_OK) holder_.HandleTested(some[i], statuses[i]);
  }
  co_return Result<void>();
}

}  // namespace penstock::client::v4
