#include "idmap/lookups.h"

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/host_shares.h"
#include "base/log.h"
#include "base/log_limit.h"
#include "base/result.h"
#include "base/workers.h"
#include "idmap/answer_cache.h"

namespace penstock::idmap {

// A caller that waits for the answer. Belongs to the thread of the caller.
struct Lookups::Waiting {
  explicit Waiting(Loop* where) : loop(where) {}

  Loop* const loop;
  OneShot<Answer> answer;

  void Set(const Answer& given) {
    if (!answer.is_set()) answer.Set(given);
  }
};

class Lookups::State {
 public:
  State(Database database, TimerService& clock, const Settings& settings)
      : database_(std::move(database)),
        clock_(clock),
        settings_(settings),
        cache_(settings.known, settings.unknown),
        shares_({.all = settings.under_way, .per_host = settings.under_way}) {}

  // How a call of Find() goes on: with an answer, or with a wait of at most `limit`.
  struct Beginning {
    std::optional<Answer> answer{};
    std::shared_ptr<Waiting> waiting{};
    Duration limit{};
    bool is_new = false;  // the database is to be asked
  };
  Beginning Begin(const Query& query, Caller& caller) {
    const std::lock_guard lock(mutex_);
    const TimePoint now = clock_.Now();
    if (const auto* entry = cache_.Find(query); entry && entry->until > now) return {.answer = entry->account};
    auto found = pending_.find(query);
    Beginning beginning;
    if (found == pending_.end()) {
      if (!shares_.Take(caller.client.host)) return {.answer = WithoutDatabase(query, now, {EBUSY})};
      if (pending_.empty()) last_sign_ = now;
      found = pending_.emplace(query, Pending{.began = now, .host = caller.client.host, .callers = {}}).first;
      beginning.is_new = true;
    }
    const Duration patience = Hangs(now) ? settings_.patience / 20 : settings_.patience;
    if (!caller.until) caller.until = now + patience;
    const TimePoint end = std::min(*caller.until, found->second.began + patience);
    if (end <= now) {
      beginning.answer = WithoutDatabase(query, now, {ETIMEDOUT});
      return beginning;
    }
    beginning.limit = end - now;
    beginning.waiting = std::make_shared<Waiting>(caller.loop);
    found->second.callers.push_back(beginning.waiting);
    return beginning;
  }

  std::optional<std::optional<Account>> Known(const Query& query) {
    const std::lock_guard lock(mutex_);
    const auto* entry = cache_.Find(query);
    if (!entry || entry->until <= clock_.Now()) return std::nullopt;
    return entry->account;
  }

  // Asks the database. May block.
  Answer Ask(const Query& query) const { return database_(query); }

  void HandleAnswer(const Query& query, Answer answer) {
    std::vector<std::shared_ptr<Waiting>> on_this_thread;
    {
      const std::lock_guard lock(mutex_);
      if (ended_) return;
      const TimePoint now = clock_.Now();
      last_sign_ = now;
      if (answer) {
        const Duration valid_for = *answer ? settings_.known_for : settings_.unknown_for;
        cache_.Keep(query, {.account = *answer, .until = now + valid_for});
      } else {
        answer = WithoutDatabase(query, now, answer.error());
      }
      const auto found = pending_.find(query);
      for (const std::shared_ptr<Waiting>& waiting : found->second.callers) {
        // Under the lock, which a caller takes before it stops to wait: so its loop still runs.
        if (waiting->loop) {
          waiting->loop->Post([waiting, answer] { waiting->Set(answer); });
        } else {
          on_this_thread.push_back(waiting);
        }
      }
      shares_.Return(found->second.host);
      pending_.erase(found);
    }
    for (const auto& waiting : on_this_thread) waiting->Set(answer);
  }

  // A caller stops to wait. Returns the answer that it does with.
  Answer Leave(const Query& query, const std::shared_ptr<Waiting>& waiting) {
    const std::lock_guard lock(mutex_);
    if (const auto found = pending_.find(query); found != pending_.end()) std::erase(found->second.callers, waiting);
    const TimePoint now = clock_.Now();
    // The answer may have come meanwhile.
    if (const auto* entry = cache_.Find(query); entry && entry->until > now) return entry->account;
    return WithoutDatabase(query, now, {ETIMEDOUT});
  }

  // Tells the operator that a caller got no answer.
  void Warn(const NoAnswer& why) {
    if (!log_limit_.Allows(clock_.Now())) return;
    log::warn("users and groups of this host cannot be looked up ({}): NFSv4 has numbers in place of their names",
              DescribeErrno(why.error));
  }

  void End() {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }

  size_t under_way() {
    const std::lock_guard lock(mutex_);
    return pending_.size();
  }
  size_t remembered() {
    const std::lock_guard lock(mutex_);
    return cache_.size();
  }

 private:
  struct Pending {
    TimePoint began;
    uint64_t host;  // of the first caller
    std::vector<std::shared_ptr<Waiting>> callers;
  };
  struct Hash {
    size_t operator()(const Query& query) const {
      return std::hash<decltype(query.of)>{}(query.of) * 2 + static_cast<size_t>(query.kind);
    }
  };

  // The following methods require the lock.

  // Whether no look-up has ended for so long that others will hardly end.
  bool Hangs(TimePoint now) const { return now - last_sign_ >= settings_.patience; }

  Answer WithoutDatabase(const Query& query, TimePoint now, NoAnswer why) {
    const auto* entry = query.is_by_id() ? cache_.Find(query) : nullptr;
    if (entry && entry->account && entry->until + settings_.outage > now) return entry->account;
    return std::unexpected(why);
  }

  const Database database_;
  TimerService& clock_;  // until End()
  const Settings settings_;
  LogLimit log_limit_;
  std::mutex mutex_;  // guards the following members; held briefly
  AnswerCache cache_;
  std::unordered_map<Query, Pending, Hash> pending_;
  Shares<uint64_t> shares_;  // pending look-ups, by ClientKey::host
  TimePoint last_sign_{};    // the last answer, or the begin of the first pending look-up
  bool ended_ = false;
};

Lookups::Run Lookups::OnThreads(size_t count) {
  return [workers = std::make_shared<Workers>(count, Workers::AtEnd::kLeave,
                                              Workers::ThreadSettings{.name = "penstock-idmap"})](
             std::move_only_function<void()> function, const ClientKey& client) {
    workers->Post(std::move(function), client);
  };
}

Lookups::Lookups(Database database, TimerService& clock, Run run, const Settings& settings)
    : state_(std::make_shared<State>(std::move(database), clock, settings)), clock_(clock), run_(std::move(run)) {}

Lookups::~Lookups() { state_->End(); }

std::optional<std::optional<Account>> Lookups::Known(const Query& query) const { return state_->Known(query); }
size_t Lookups::under_way() const { return state_->under_way(); }
size_t Lookups::remembered() const { return state_->remembered(); }

Task<Answer> Lookups::Find(Query query, Caller& caller) {
  State::Beginning beginning = state_->Begin(query, caller);
  if (beginning.is_new) {
    auto look_up = [state = state_, query] { state->HandleAnswer(query, state->Ask(query)); };
    run_ ? run_(std::move(look_up), caller.client) : look_up();
  }
  if (!beginning.answer) {
    beginning.answer = co_await Wait(query, caller, std::move(beginning.waiting), beginning.limit);
  }
  if (!*beginning.answer) state_->Warn(beginning.answer->error());
  co_return *std::move(beginning.answer);
}

Task<Answer> Lookups::Wait(const Query& query, const Caller& caller, std::shared_ptr<Waiting> waiting, Duration limit) {
  if (waiting->answer.is_set()) co_return co_await waiting->answer;
  bool in_time = true;
  TimerService& timers = caller.loop ? static_cast<TimerService&>(*caller.loop) : clock_;
  const auto timer = timers.MakeTimer([waiting, &in_time] {
    if (waiting->answer.is_set()) return;
    in_time = false;
    waiting->Set(std::unexpected(NoAnswer{ETIMEDOUT}));
  });
  timer->ExpireAfter(limit);
  Answer answer = co_await waiting->answer;
  if (in_time) co_return answer;
  co_return state_->Leave(query, waiting);
}

}  // namespace penstock::idmap
