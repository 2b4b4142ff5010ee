#include "client/nfs4/compound_caller.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <utility>

#include "base/log.h"
#include "base/random.h"
#include "client/set_up.h"

namespace penstock::client::v4 {

namespace {

Verifier RandomVerifier() {
  Verifier verifier;
  FillRandomly(verifier);
  return verifier;
}

}  // namespace

CallerOptions UniqueCaller(const Dialect& dialect) {
  CallerOptions options;
  options.dialect = &dialect;
  options.verifier = RandomVerifier();
  options.owner =
      fmt::format("penstock {} {} {:016x}", HostName(), ::getpid(), LoadBig<uint64_t>(RandomVerifier().data()));
  return options;
}

Error ErrorOf(nfs4::nfsstat4 status, std::string_view what) {
  return client::ErrorOf(static_cast<Status>(status), what);
}
Error ErrorOf(const rpc::Error& error, std::string_view what) { return client::ErrorOf(error, what); }

CompoundCaller::CompoundCaller(TimerService& timers, rpc::Client& client, CallerOptions options)
    : timers_(timers), client_(client), options_(std::move(options)), renewal_(timers.MakeTimer([this] {
        if (!closing()) SpawnBackground(Renew());
      })) {}

CompoundCaller::~CompoundCaller() { assert(background_ == 0); }

Task<Result<void>> CompoundCaller::Establish(std::string_view what) {
  PENSTOCK_CO_CHECK(co_await Ready(what));
  used_ = timers_.Now();
  ArmRenewal();
  co_return Result<void>();
}

void CompoundCaller::LogDelay(nfs4::nfsstat4 status, std::string_view what) {
  log::debug("{}: the client tries again later", ErrorOf(status, what).message);
}

Task<Result<void>> CompoundCaller::Ready(std::string_view what) {
  while (!ready()) {
    if (ended()) co_return std::unexpected(Closing(what));
    if (recovering_) {
      co_await recovered_;
      continue;
    }
    recovering_ = true;
    Result<void> result = co_await Recover(what);
    recovering_ = false;
    recovered_.Notify();
    if (!result) co_return result;
  }
  co_return Result<void>();
}

Task<Result<void>> CompoundCaller::Recover(std::string_view what) {
  const TimePoint give_up = timers_.Now() + options_.give_up_after;
  while (!ready()) {
    if (ended()) co_return std::unexpected(Closing(what));
    const int before = step();
    PENSTOCK_CO_CHECK(co_await TakeStep(what));
    if (timers_.Now() >= give_up) co_return std::unexpected(ErrorOf(obstacle(), what));
    // No progress: the server is busy, or has lost state that it had just granted.
    if (step() <= before) co_await Pause(timers_, std::chrono::milliseconds(100), ending());
  }
  co_return Result<void>();
}

Task<void> CompoundCaller::Reclaim() {
  if (reclaim_) co_await reclaim_();
}

void CompoundCaller::SpawnBackground(Task<void> task) {
  ++background_;
  Spawn([](CompoundCaller& self, Task<void> inner) -> Task<void> {
    co_await std::move(inner);
    --self.background_;
    self.background_changed_.Notify();
  }(*this, std::move(task)));
}

Task<void> CompoundCaller::EndBackground() {
  closing_ = true;
  renewal_->Cancel();
  while (background_ > 0) co_await background_changed_;
}

void CompoundCaller::set_lease_time(Duration time) {
  HandleLeaseTime(time);
  ArmRenewal();
}

void CompoundCaller::ArmRenewal() {
  if (!closing()) renewal_->ExpireAfter(std::max<Duration>(renew_at() - timers_.Now(), std::chrono::seconds(1)));
}

bool CompoundCaller::MayRest() const {
  return uses_ == 0 && timers_.Now() >= used_ + options_.rest_after && may_rest_ && may_rest_();
}

Task<void> CompoundCaller::Renew() {
  rests_ = MayRest();
  if (rests_) co_return;
  if (renew_at() <= timers_.Now()) co_await RenewLease();
  ArmRenewal();
}

}  // namespace penstock::client::v4
