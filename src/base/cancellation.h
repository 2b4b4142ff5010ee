// Lets the owner of work that is under way end all of it early, when the owner stops or no longer needs it.
//
//   Cancellation::Entry entry(cancellation, [&] { socket.close(); });
//   co_await ...  // ends early with Cancel()
#pragma once

#include <functional>
#include <list>
#include <utility>

namespace penstock {

// Belongs to one loop. It outlives its entries.
class Cancellation {
 public:
  Cancellation() = default;
  Cancellation(const Cancellation&) = delete;
  Cancellation& operator=(const Cancellation&) = delete;
  ~Cancellation() {
    if (destroyed_) *destroyed_ = true;
  }

  // Work that is under way, for the lifetime of the entry.
  class Entry {
   public:
    // Cancel() calls `end` once, which may destroy the entry and the cancellation. If it was called before, the entry
    // does nothing: check cancelled() first. A null `cancellation` never ends anything.
    Entry(Cancellation* cancellation, std::function<void()> end)
        : owner_(cancellation && !cancellation->cancelled_ ? cancellation : nullptr), end_(std::move(end)) {
      if (owner_) place_ = owner_->entries_.insert(owner_->entries_.end(), this);
    }
    Entry(const Entry&) = delete;
    Entry& operator=(const Entry&) = delete;
    ~Entry() {
      if (owner_) owner_->entries_.erase(place_);
    }

   private:
    friend Cancellation;

    Cancellation* owner_;  // null once the entry is not in its list
    std::function<void()> end_;
    std::list<Entry*>::iterator place_{};
  };

  // Ends all work that is under way. Does nothing when it is called again.
  void Cancel() {
    if (std::exchange(cancelled_, true)) return;
    bool destroyed = false;
    destroyed_ = &destroyed;
    while (!destroyed && !entries_.empty()) {
      Entry& first = *entries_.front();
      entries_.pop_front();
      first.owner_ = nullptr;
      const std::function<void()> end = std::move(first.end_);
      end();
    }
    if (!destroyed) destroyed_ = nullptr;
  }
  bool cancelled() const { return cancelled_; }

 private:
  std::list<Entry*> entries_;
  bool cancelled_ = false;
  bool* destroyed_ = nullptr;  // tells Cancel() that it runs in a destroyed object
};

// Whether work with this cancellation, which may be null, is to end.
inline bool IsCancelled(const Cancellation* cancellation) { return cancellation && cancellation->cancelled(); }

}  // namespace penstock
