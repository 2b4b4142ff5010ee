#include "nfs/nlm/local_monitor.h"

#include <concepts>
#include <functional>
#include <string>

#include "base/log.h"
#include "base/random.h"
#include "protocol/nlm4.h"
#include "xdr/decode.h"
#include "xdr/encode.h"

namespace penstock::nfs::nlm {

using namespace nsm;  // NOLINT: the protocol's own names, X/Open XNFS

namespace {

// After so many calls without an answer, the monitor is left alone until Keep() or Watch().
constexpr int kMostUnanswered = 3;

}  // namespace

void LocalMonitor::Use(bool exists) {
  if (std::exchange(exists_, exists) == exists) return;
  watched_.clear();
  by_cookie_.clear();
  waiting_.clear();
  has_ended_all_ = false;
}

void LocalMonitor::Watch(const IpAddress& address) {
  if (!exists_) return;
  Add(address);
  Start();
}

void LocalMonitor::Add(const IpAddress& address) {
  const auto [at, is_new] = watched_.try_emplace(address);
  Watched& watched = at->second;
  if (is_new) {
    FillRandomly(watched.cookie);
    by_cookie_.emplace(watched.cookie, address);
  }
  if (is_new || !watched.is_wanted) waiting_.insert(address);
  watched.is_wanted = true;
}

void LocalMonitor::Keep(const std::set<IpAddress>& addresses) {
  if (!exists_) return;
  for (const IpAddress& each : addresses) Add(each);
  for (auto& [address, watched] : watched_) {
    watched.is_wanted = addresses.contains(address);
    if (!watched.is_wanted || !watched.is_watched) waiting_.insert(address);
  }
  Start();
}

std::optional<IpAddress> LocalMonitor::Find(ConstBytes cookie) const {
  Cookie key{};
  if (cookie.size() != key.size()) return std::nullopt;
  CopyBytes(key, cookie);
  const auto found = by_cookie_.find(key);
  if (found == by_cookie_.end()) return std::nullopt;
  return found->second;
}

void LocalMonitor::Start() {
  if (asking_.count() == 0 && !cancellation_.cancelled()) Spawn(AskForAll());
}

Task<> LocalMonitor::AskForAll() {
  asking_.Begin();
  int unanswered = 0;
  while (!waiting_.empty() && unanswered < kMostUnanswered && !cancellation_.cancelled()) {
    auto next = waiting_.upper_bound(last_);
    if (next == waiting_.end()) next = waiting_.begin();
    last_ = *next;
    waiting_.erase(next);
    const Answer answer = co_await AskFor(last_);
    unanswered = answer == Answer::kNone ? unanswered + 1 : 0;
  }
  asking_.End();
}

Task<LocalMonitor::Answer> LocalMonitor::AskFor(IpAddress address) {
  if (!has_ended_all_) {
    const Answer answer = co_await EndAll();
    if (answer == Answer::kNone) co_return answer;
    has_ended_all_ = exists_;
  }
  const auto found = watched_.find(address);
  if (found == watched_.end()) co_return Answer::kYes;
  if (found->second.is_wanted) co_return co_await Begin(address, found->second);
  co_return co_await End(address, found->second);
}

LocalMonitor::Watched* LocalMonitor::StillThere(const IpAddress& address, const Cookie& cookie) {
  const auto found = watched_.find(address);
  return found != watched_.end() && found->second.cookie == cookie ? &found->second : nullptr;
}

Task<LocalMonitor::Answer> LocalMonitor::Begin(IpAddress address, Watched& before) {
  if (before.is_watched) co_return Answer::kYes;
  before.may_be_known = true;
  const Cookie cookie = before.cookie;
  const std::string name = address.to_string();
  const mon arguments{.id = {.mon_name = name, .id = Id()}, .priv = cookie};
  const Answer answer = co_await Call<SM_MON>(arguments);
  Watched* const watched = StillThere(address, cookie);
  if (!watched) co_return answer;
  watched->is_watched = answer == Answer::kYes;
  if (answer == Answer::kNo) watched->may_be_known = false;
  if (answer != Answer::kYes) Warn(address, answer);
  if (!watched->is_wanted) waiting_.insert(address);
  co_return answer;
}

Task<LocalMonitor::Answer> LocalMonitor::End(IpAddress address, Watched& before) {
  const Cookie cookie = before.cookie;
  Answer answer = Answer::kYes;
  if (before.may_be_known) {
    const std::string name = address.to_string();
    const mon_id arguments{.mon_name = name, .id = Id()};
    answer = co_await Call<SM_UNMON>(arguments);
  }
  Watched* const watched = StillThere(address, cookie);
  if (!watched || answer == Answer::kNone) co_return answer;
  watched->is_watched = watched->may_be_known = false;
  if (watched->is_wanted) {
    waiting_.insert(address);
  } else {
    by_cookie_.erase(cookie);
    watched_.erase(address);
  }
  co_return answer;
}

my_id LocalMonitor::Id() const {
  return {.my_name = own_name_,
          .my_prog = nlm4::NLM4_PROGRAM,
          .my_vers = nlm4::NLM4_VERS,
          .my_proc = nlm4::NLMPROC4_SM_NOTIFY::kNumber};
}

Task<LocalMonitor::Answer> LocalMonitor::EndAll() {
  const my_id arguments = Id();
  co_return co_await Call<SM_UNMON_ALL>(arguments);
}

template <class Procedure>
Task<LocalMonitor::Answer> LocalMonitor::Call(const typename Procedure::Arguments& arguments) {
  const HostCall call{.host = asio::ip::address_v4::loopback(),
                      .ours = {},
                      .program = SM_PROG,
                      .version = SM_VERS,
                      .procedure = Procedure::kNumber,
                      .by_udp = true,
                      .cancellation = &cancellation_};
  typename Procedure::Results results{};
  const std::function<void(xdr::Encoder&)> write = [&](xdr::Encoder& encoder) { xdr::Encode(encoder, arguments); };
  const std::function<bool(xdr::Decoder&)> read = [&](xdr::Decoder& decoder) {
    return xdr::Decode(decoder, results) && decoder.Finish();
  };
  switch (co_await calls_.Call(call, write, read)) {
    case HostCalls::Outcome::kAnswered:
      if constexpr (std::same_as<typename Procedure::Results, sm_stat_res>) {
        co_return results.res_stat == STAT_SUCC ? Answer::kYes : Answer::kNo;
      }
      co_return Answer::kYes;
    case HostCalls::Outcome::kRefused:
      co_return Answer::kNo;
    default:
      co_return Answer::kNone;
  }
}

void LocalMonitor::Warn(const IpAddress& address, Answer answer) {
  if (cancellation_.cancelled() || !told_.Allows(clock_.Now())) return;
  log::warn(
      "this host's status monitor (rpc.statd) {} to watch {}, which locks files: if that host starts again, its locks "
      "stay. The server asks again every 30 s",
      answer == Answer::kNo ? "refuses" : "does not answer the request", address.to_string());
}

Task<> LocalMonitor::Stop() {
  waiting_.clear();
  cancellation_.Cancel();
  co_await asking_.Ended();
}

}  // namespace penstock::nfs::nlm
