#include "base/workers.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cassert>
#include <condition_variable>
#include <list>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "base/log.h"
#include "base/thread.h"
#include "base/turns.h"

namespace penstock {
namespace {

std::atomic<bool> have_left = false;  // see Workers::have_left_threads()

constexpr size_t kKinds = 2;
size_t IndexOf(WorkKind work) { return static_cast<size_t>(work); }

}  // namespace

class Workers::Pool : public std::enable_shared_from_this<Workers::Pool> {
 public:
  Pool(size_t count, ThreadSettings settings)
      : count_(count), for_data_(count - (count + 2) / 4), settings_(std::move(settings)) {
    assert(count > 0);
  }

  // Starts the first thread.
  void Begin() {
    const std::lock_guard lock(mutex_);
    Start();
  }

  // Destroys the functions that have not started, and ends the threads.
  void End(AtEnd at_end) {
    std::list<Turns::Function> unrun;  // destroyed without the lock, because a destructor may call Post()
    {
      const std::lock_guard lock(mutex_);
      ends_ = true;
      wanted_ = true;
      for (Turns& turns : turns_) unrun.splice(unrun.end(), turns.Clear());
      if (at_end == AtEnd::kLeave) LeaveBusyThreads();
      wake_.notify_all();
    }
    unrun.clear();
    JoinThreads();
  }

  void Post(Turns::Function function, const ClientKey& client, WorkKind work) {
    {
      const std::lock_guard lock(mutex_);
      if (ends_) return;
      turns_[IndexOf(work)].Push(client, std::move(function));
      wanted_ = true;
      if (!Recruit()) return;
    }
    wake_.notify_one();
  }

  void Join() {
    {
      const std::lock_guard lock(mutex_);
      drains_ = true;
      wake_.notify_all();
    }
    JoinThreads();
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }

  Statistics statistics() {
    const std::lock_guard lock(mutex_);
    return {.threads = members_.size(),
            .busy = turns_[0].held() + turns_[1].held(),
            .most = count_,
            .waiting_metadata = turns_[IndexOf(WorkKind::kMetadata)].size(),
            .waiting_data = turns_[IndexOf(WorkKind::kData)].size()};
  }

  bool is_wanted() const { return wanted_.load(std::memory_order_relaxed); }
  size_t threads_for(WorkKind work) const { return work == WorkKind::kData ? for_data_ : count_; }

 private:
  struct Member {
    std::thread thread{};
    bool is_busy = false;  // with a function
  };

  // The following methods require the lock.

  size_t FreeFor(size_t kind) const {
    const size_t held = turns_[0].held() + turns_[1].held();
    const size_t free = count_ - held;
    return kind == IndexOf(WorkKind::kData) ? std::min(free, for_data_ - turns_[kind].held()) : free;
  }
  bool CanTake() {
    for (size_t kind = 0; kind < kKinds; ++kind) {
      if (turns_[kind].CanTake(FreeFor(kind))) return true;
    }
    return false;
  }
  // Takes a function of each kind in turn.
  std::optional<Turns::Taken> Take(size_t& kind) {
    for (size_t i = 0; i < kKinds; ++i) {
      kind = next_kind_;
      next_kind_ = (next_kind_ + 1) % kKinds;
      if (auto taken = turns_[kind].Take(FreeFor(kind))) return taken;
    }
    return std::nullopt;
  }
  void Start() {
    std::list<Member> added(1);
    Member& member = added.front();
    const auto run = [self = shared_from_this(), &member] {
      if (self->settings_.begin) self->settings_.begin();
      self->Run(member);
    };
    member.thread = StartThread(settings_.name, run, logger_);
    members_.splice(members_.end(), added);
  }
  void LeaveBusyThreads() {
    for (Member& member : members_) {
      if (!member.is_busy) continue;
      member.thread.detach();
      have_left = true;
    }
  }
  // Gets another thread to work if it would find a function to run. If no thread is idle, starts one. Otherwise returns
  // true: the caller then notifies a thread after releasing the lock, which that thread needs first. Threads wake one
  // by one, and each wakes the next before it runs its function: a thread that is awake runs many short functions in
  // the time that it takes to wake another.
  [[nodiscard]] bool Recruit() {
    if (is_waking_ || !CanTake()) return false;
    if (idle_ > 0) return is_waking_ = true;
    if (members_.size() == count_ || drains_) return false;
    try {
      Start();
    } catch (const std::system_error& why) {
      log::debug("the pool goes on with {} of {} threads: {}", members_.size(), count_, why.what());
    }
    return false;
  }
  bool Waits() const { return turns_[0].size() + turns_[1].size() > 0; }

  void Run(Member& member) {
    std::unique_lock lock(mutex_);
    while (!ends_) {
      size_t kind = 0;
      std::optional<Turns::Taken> taken = Take(kind);
      if (!taken) {
        // The waiting functions belong to clients that already have threads; those threads will run them.
        if (drains_ && !Waits()) break;
        ++idle_;
        wake_.wait(lock);
        --idle_;
        is_waking_ = false;
        continue;
      }
      member.is_busy = true;
      wanted_ = Waits();
      // More functions may run now: some were posted before this thread woke, and this client has one thread less.
      const bool notifies = Waits() && Recruit();
      lock.unlock();
      if (notifies) wake_.notify_one();
      taken->function();
      taken->function = nullptr;
      lock.lock();
      member.is_busy = false;
      turns_[kind].Finish(taken->client);
    }
    if (drains_) wake_.notify_all();
  }

  void JoinThreads() {
    for (Member& member : members_) {
      if (member.thread.joinable()) member.thread.join();
    }
  }

  const size_t count_;
  const size_t for_data_;
  const ThreadSettings settings_;
  const std::shared_ptr<log::Logger> logger_ = log::ThreadLogger();

  std::mutex mutex_;           // guards the following members
  std::list<Member> members_;  // at least one; none is added once the pool ends
  std::condition_variable wake_;
  std::array<Turns, kKinds> turns_;
  size_t next_kind_ = 0;
  size_t idle_ = 0;
  bool is_waking_ = false;            // a thread was notified, and does not hold the lock yet
  std::atomic<bool> wanted_ = false;  // functions wait, or the pool ends; written under the lock
  bool drains_ = false;
  bool ends_ = false;
};

Workers::Workers(size_t threads, AtEnd at_end, ThreadSettings settings)
    : pool_(std::make_shared<Pool>(threads, std::move(settings))), at_end_(at_end) {
  pool_->Begin();
}
Workers::~Workers() { pool_->End(at_end_); }

void Workers::Post(std::move_only_function<void()> function, const ClientKey& client, WorkKind work) {
  pool_->Post(std::move(function), client, work);
}
void Workers::Join() { pool_->Join(); }
bool Workers::is_wanted() const { return pool_->is_wanted(); }
size_t Workers::threads_for(WorkKind work) const { return pool_->threads_for(work); }
Workers::Statistics Workers::statistics() const { return pool_->statistics(); }
bool Workers::have_left_threads() { return have_left.load(); }

}  // namespace penstock
