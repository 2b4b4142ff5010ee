#include "nfs/nlm/status_monitor.h"

#include <algorithm>
#include <utility>

#include "base/host.h"
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
                                      co_await manager_.EndHost(call, change.mon_name, change.state);
                                      co_return xdr::Void();
                                    });
    default:
      return rpc::Refuse(rpc::AcceptStatus::PROC_UNAVAIL);
  }
}

RestartNotices::RestartNotices(HostCalls& calls, TimerService& timers, Settings settings)
    : calls_(calls), clock_(timers), settings_(std::move(settings)), timer_(timers.MakeTimer([this] { Start(); })) {}

std::deque<RestartNotices::Notice> RestartNotices::NoticesFor(const std::vector<v4::RememberedHost>& hosts) const {
  std::vector<Notice> notices;
  std::map<IpAddress, size_t> by_address;  // indices
  for (const v4::RememberedHost& host : hosts) {
    const auto [place, is_new] = by_address.try_emplace(host.name.address, notices.size());
    if (is_new) notices.push_back({.host = host.name, .messages = {}});
    std::vector<Notice::Message>& messages = notices[place->second].messages;
    if (std::ranges::find(messages, host.ours, &Notice::Message::ours) != messages.end()) continue;
    if (!host.ours.is_unspecified()) messages.push_back({host.ours, host.ours.to_string()});
    messages.push_back({host.ours, settings_.name});
  }
  std::map<IpAddress, size_t> of_host;
  std::multimap<size_t, Notice> by_turn;
  for (Notice& notice : notices) {
    const size_t turn = of_host[HostOf(notice.host.address)]++;
    by_turn.emplace(turn, std::move(notice));
  }
  std::deque<Notice> in_order;
  for (auto& [turn, notice] : by_turn) in_order.push_back(std::move(notice));
  return in_order;
}

void RestartNotices::Send(const std::vector<v4::RememberedHost>& hosts) {
  end_ = clock_.Now() + settings_.limit;
  new_ = NoticesFor(hosts);
  Start();
}

void RestartNotices::Start() {
  // A call that ends at once comes back to here.
  if (std::exchange(starting_, true)) return;
  while (under_way_.count() < settings_.at_once) {
    if (!new_.empty()) {
      Notice next = std::move(new_.front());
      new_.pop_front();
      Spawn(Tell(std::move(next)));
      continue;
    }
    if (again_.empty() || calling_again_ >= settings_.again_at_once) break;
    const auto first = again_.begin();
    const TimePoint now = clock_.Now();
    if (first->first > now) {
      timer_->ExpireAfter(first->first - now);
      break;
    }
    Notice next = std::move(first->second);
    again_.erase(first);
    Spawn(Tell(std::move(next)));
  }
  starting_ = false;
}

Task<> RestartNotices::Tell(Notice notice) {
  const bool is_again = notice.pause > Duration::zero();
  under_way_.Begin();
  if (is_again) ++calling_again_;
  while (!notice.messages.empty()) {
    const bool told = co_await TellOnce(notice.host.address, notice.messages.back());
    if (!told) break;
    notice.messages.pop_back();
  }
  if (is_again) --calling_again_;
  if (!cancellation_.cancelled() && !notice.messages.empty()) CallAgainLater(std::move(notice));
  under_way_.End();
  if (!cancellation_.cancelled()) Start();
}

void RestartNotices::CallAgainLater(Notice notice) {
  const bool is_first = notice.pause == Duration::zero();
  notice.pause = is_first ? settings_.first_pause : std::min(notice.pause * 2, settings_.longest_pause);
  const TimePoint next = clock_.Now() + notice.pause;
  if (next < end_) {
    again_.emplace(next, std::move(notice));
    return;
  }
  log::warn("{} ({}) held locks before the restart, and does not answer: it may not know that it must reclaim them",
            notice.host.name, notice.host.address.to_string());
}

Task<bool> RestartNotices::TellOnce(const IpAddress& host, const Notice::Message& message) {
  const HostCall call{.host = host,
                      .ours = message.ours,
                      .program = SM_PROG,
                      .version = SM_VERS,
                      .procedure = SM_NOTIFY::kNumber,
                      .by_udp = true,
                      .cancellation = &cancellation_};
  const std::function<void(xdr::Encoder&)> write = [&](xdr::Encoder& encoder) {
    xdr::Encode(encoder, stat_chge{.mon_name = message.name, .state = settings_.state});
  };
  const std::function<bool(xdr::Decoder&)> read = [](xdr::Decoder&) { return true; };
  const HostCalls::Outcome outcome = co_await calls_.Call(call, write, read);
  co_return outcome == HostCalls::Outcome::kAnswered;
}

Task<> RestartNotices::Stop() {
  new_.clear();
  again_.clear();
  timer_->Cancel();
  cancellation_.Cancel();
  co_await under_way_.Ended();
}

}  // namespace penstock::nfs::nlm
