#include "nfs/nlm/local_monitor.h"

#include <chrono>
#include <concepts>
#include <functional>
#include <string>
#include <utility>

#include "base/host.h"
#include "base/log.h"
#include "base/random.h"
#include "protocol/nlm4.h"
#include "xdr/decode.h"
#include "xdr/encode.h"

namespace penstock::nfs::nlm {

using namespace nsm;  // NOLINT: the protocol's own names, X/Open XNFS

namespace {

// After so many calls without an answer, the monitor is left alone for a while.
constexpr int kMostUnanswered = 3;
// The most addresses in the table. If there are more, those that need no watch any more are removed, although the
// monitor has not answered the request to end it.
constexpr size_t kMostAddresses = 1 << 15;
constexpr Duration kTimeToStop = std::chrono::seconds(1);

// The two names in SM_MON and SM_UNMON: that of the watched address (mon_name), and that of the program that asks
// (my_name). rpc.statd merges two requests if the name service gives both addresses one name, and both programs one
// name. So each address has a my_name of its own, which means nothing. rpc.statd looks it up; the domain "invalid" has
// no names (RFC 6761 §6.4).
class Names {
 public:
  explicit Names(const IpAddress& address) : address_(address.to_string()), asker_(address_) {
    for (char& each : asker_) {
      if (each == '.' || each == ':' || each == '%') each = '-';
    }
    asker_ += ".penstock.invalid.";
  }
  Names(const Names&) = delete;
  Names& operator=(const Names&) = delete;

  // A view.
  mon_id id() const {
    return {.mon_name = address_,
            .id = {.my_name = asker_,
                   .my_prog = nlm4::NLM4_PROGRAM,
                   .my_vers = nlm4::NLM4_VERS,
                   .my_proc = nlm4::NLMPROC4_SM_NOTIFY::kNumber}};
  }

 private:
  const std::string address_;
  std::string asker_;
};

}  // namespace

LocalMonitor::LocalMonitor(HostCalls& calls, TimerService& timers) : calls_(calls), timers_(timers) {}

void LocalMonitor::Use(bool exists) {
  if (std::exchange(exists_, exists) == exists) return;
  if (exists) return EndEarlier(std::exchange(earlier_, {}));
  for (const auto& [address, watched] : watched_) {
    if (watched.may_be_known) earlier_.insert(address);
  }
  watched_.clear();
  by_cookie_.clear();
  waiting_.clear();
}

LocalMonitor::Watched& LocalMonitor::Get(const IpAddress& address) {
  const auto [at, is_new] = watched_.try_emplace(address);
  if (is_new) {
    FillRandomly(at->second.cookie);
    by_cookie_.emplace(at->second.cookie, address);
  }
  return at->second;
}

LocalMonitor::Addresses::iterator LocalMonitor::Forget(Addresses::iterator address) {
  by_cookie_.erase(address->second.cookie);
  if (const auto of_host = waiting_.find(HostOf(address->first)); of_host != waiting_.end()) {
    of_host->second.erase(address->first);
    if (of_host->second.empty()) waiting_.erase(of_host);
  }
  return watched_.erase(address);
}

void LocalMonitor::AskLater(const IpAddress& address) { waiting_[HostOf(address)].insert(address); }

void LocalMonitor::EndEarlier(const std::set<IpAddress>& addresses) {
  if (stops_) return;
  if (!exists_) {
    earlier_.insert(addresses.begin(), addresses.end());
    return;
  }
  for (const IpAddress& each : addresses) {
    if (watched_.contains(each)) continue;
    Watched& watched = Get(each);
    watched.is_wanted = false;
    watched.may_be_known = true;
    AskLater(each);
  }
  Start();
}

void LocalMonitor::Watch(const IpAddress& address) {
  if (!exists_ || stops_) return;
  const bool is_new = !watched_.contains(address);
  Watched& watched = Get(address);
  if (!is_new && std::exchange(watched.is_wanted, true)) return;
  AskLater(address);
  Start();
}

void LocalMonitor::Keep(const std::set<IpAddress>& addresses) {
  if (!exists_ || stops_) return;
  for (const IpAddress& each : addresses) Get(each);
  for (auto at = watched_.begin(); at != watched_.end();) {
    Watched& watched = at->second;
    watched.is_wanted = addresses.contains(at->first);
    if (!watched.is_wanted && (!watched.may_be_known || watched_.size() > kMostAddresses)) {
      at = Forget(at);
      continue;
    }
    if (!watched.is_wanted || !watched.is_watched) AskLater(at->first);
    ++at;
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
  if (asking_.count() == 0) Spawn(AskForAll());
}

Task<> LocalMonitor::AskForAll() {
  asking_.Begin();
  int unanswered = 0;
  while (!waiting_.empty() && unanswered < kMostUnanswered && !cancellation_.cancelled()) {
    auto next = waiting_.upper_bound(last_);
    if (next == waiting_.end()) next = waiting_.begin();
    last_ = next->first;
    std::set<IpAddress>& addresses = next->second;
    const IpAddress address = addresses.extract(addresses.begin()).value();
    if (addresses.empty()) waiting_.erase(next);
    const Answer answer = co_await AskFor(address);
    unanswered = answer == Answer::kNone ? unanswered + 1 : 0;
  }
  asking_.End();
}

Task<LocalMonitor::Answer> LocalMonitor::AskFor(IpAddress address) {
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
  const Names names(address);
  const mon arguments{.id = names.id(), .priv = cookie};
  const Answer answer = co_await Call<SM_MON>(arguments);
  Watched* const watched = StillThere(address, cookie);
  if (!watched) co_return answer;
  watched->is_watched = answer == Answer::kYes;
  if (answer == Answer::kNo) watched->may_be_known = false;
  if (answer != Answer::kYes) Warn(address, answer);
  if (!watched->is_wanted) AskLater(address);
  co_return answer;
}

Task<LocalMonitor::Answer> LocalMonitor::End(IpAddress address, Watched& before) {
  const Cookie cookie = before.cookie;
  Answer answer = Answer::kYes;
  if (before.may_be_known) {
    before.is_watched = false;  // even if the answer does not come
    const Names names(address);
    const mon_id arguments = names.id();
    answer = co_await Call<SM_UNMON>(arguments);
  }
  Watched* const watched = StillThere(address, cookie);
  if (!watched) co_return answer;
  if (watched->is_wanted) {
    AskLater(address);
  } else if (answer != Answer::kNone) {
    Forget(watched_.find(address));
  }
  co_return answer;
}

template <class Procedure>
Task<LocalMonitor::Answer> LocalMonitor::Call(const typename Procedure::Arguments& arguments) {
  // A monitor that is slow would do the work for each copy of a datagram.
  const HostCall call{.host = asio::ip::address_v4::loopback(),
                      .ours = {},
                      .program = SM_PROG,
                      .version = SM_VERS,
                      .procedure = Procedure::kNumber,
                      .by_udp = true,
                      .only_once = true,
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
  if (stops_ || !told_.Allows(timers_.Now())) return;
  log::warn(
      "this host's status monitor (rpc.statd) {} to watch {}, which locks files: if that host starts again, its locks "
      "stay. The server asks again every 30 s",
      answer == Answer::kNo ? "refuses" : "does not answer the request", address.to_string());
}

Task<> LocalMonitor::Stop() {
  const std::unique_ptr<Timer> limit = timers_.MakeTimer([this] { cancellation_.Cancel(); });
  limit->ExpireAfter(kTimeToStop);
  Keep({});
  stops_ = true;
  co_await asking_.Ended();
  cancellation_.Cancel();
}

}  // namespace penstock::nfs::nlm
