#include "nfs/nlm/status_monitor.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "protocol/nsm.h"
#include "rpc/handle.h"

namespace penstock::nfs::nlm {

using namespace nsm;  // NOLINT: the protocol's own names, X/Open XNFS

uint32_t StatusMonitor::number() const { return SM_PROG; }

rpc::VersionRange StatusMonitor::versions() const { return {.low = SM_VERS, .high = SM_VERS}; }

rpc::Classification StatusMonitor::Classify(rpc::CallContext& context, xdr::Decoder& /*arguments*/) const {
  return {.keep = context.procedure == SM_NOTIFY::kNumber ? rpc::Keep::kChange : rpc::Keep::kNothing};
}

Task<rpc::AcceptStatus> StatusMonitor::Call(rpc::CallContext& context, xdr::Decoder& arguments, xdr::Encoder& results) {
  switch (context.procedure) {
    case SM_NULL::kNumber:
      return rpc::Handle<SM_NULL>(context, arguments, results,
                                  [](rpc::CallContext&, const xdr::Void&) { return xdr::Void(); });
    case SM_STAT::kNumber:
      return rpc::Handle<SM_STAT>(context, arguments, results, [this](rpc::CallContext&, const sm_name&) {
        return sm_stat_res{.res_stat = STAT_SUCC, .state = state_};
      });
    case SM_NOTIFY::kNumber:
      return rpc::Handle<SM_NOTIFY>(context, arguments, results,
                                    [this](rpc::CallContext& call, const stat_chge& change) -> Task<xdr::Void> {
                                      co_await manager_.EndHost(call, change.mon_name);
                                      co_return xdr::Void();
                                    });
    default:
      return rpc::Refuse(rpc::AcceptStatus::PROC_UNAVAIL);
  }
}

RestartNotices::RestartNotices(HostCalls& calls, TimerService& timers, Settings settings)
    : calls_(calls), clock_(timers), settings_(std::move(settings)), pauses_(timers) {}

void RestartNotices::Send(std::vector<v4::RememberedHost> hosts) {
  for (v4::RememberedHost& host : hosts) Spawn(Tell(std::move(host)));
}

Task<> RestartNotices::Tell(v4::RememberedHost host) {
  constexpr Duration kTurn = std::chrono::milliseconds(100);
  under_way_.Begin();
  const TimePoint end = clock_.Now() + settings_.limit;
  std::vector<std::string> names;
  if (!host.ours.is_unspecified()) names.push_back(host.ours.to_string());
  names.push_back(settings_.name);
  Duration pause = settings_.first_pause;
  while (!names.empty() && !pauses_.ended() && clock_.Now() < end) {
    if (calling_ >= settings_.at_once) {
      co_await pauses_.For(kTurn);
      continue;
    }
    const bool told = co_await TellOnce(host, names.back());
    if (told) {
      names.pop_back();
      continue;
    }
    co_await pauses_.For(pause);
    pause = std::min(pause * 2, settings_.longest_pause);
  }
  if (!names.empty() && !pauses_.ended()) {
    log::warn("{} ({}) held locks before the restart, and does not answer: it may not know that it must reclaim them",
              host.name.name, host.name.address.to_string());
  }
  under_way_.End();
}

Task<bool> RestartNotices::TellOnce(const v4::RememberedHost& host, std::string name) {
  ++calling_;
  const HostCall call{.host = host.name.address,
                      .ours = host.ours,
                      .program = SM_PROG,
                      .version = SM_VERS,
                      .procedure = SM_NOTIFY::kNumber,
                      .by_udp = true};
  const std::function<void(xdr::Encoder&)> write = [&](xdr::Encoder& encoder) {
    xdr::Encode(encoder, stat_chge{.mon_name = name, .state = settings_.state});
  };
  const std::function<bool(xdr::Decoder&)> read = [](xdr::Decoder&) { return true; };
  const HostCalls::Outcome outcome = co_await calls_.Call(call, write, read);
  --calling_;
  co_return outcome == HostCalls::Outcome::kAnswered;
}

Task<> RestartNotices::Stop() {
  pauses_.EndAll();
  co_await under_way_.Ended();
}

}  // namespace penstock::nfs::nlm
