// An object that is replaced while others use it.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <utility>

namespace penstock {

// Holds the current version of an object that never changes itself. A user takes the version that is current, and keeps
// it until it is done, whatever is published meanwhile. Thread-safe.
//
// Threads take their references from different places, so that they do not wait for each other, and do not share the
// cache line of a reference count.
template <class T>
class Published {
 public:
  using Reference = std::shared_ptr<const T>;

  Published() = default;
  explicit Published(Reference first) { Set(std::move(first)); }

  // Returns the current version; null before the first Set().
  Reference Get() const {
    const Place& place = places_[OfThread()];
    const std::lock_guard lock(place.mutex);
    return place.current;
  }

  // Publishes another version, and returns the one before. Once that reference is its only one (use_count()), nobody
  // uses it any more.
  Reference Set(Reference next) {  // NOLINT(performance-unnecessary-value-param): the caller's may change meanwhile
    const std::lock_guard one_at_a_time(set_mutex_);
    Reference last = std::exchange(latest_, next);
    for (Place& place : places_) {
      // A reference with a count of its own, which holds `next`.
      Reference mine = next ? Reference(next.get(), [next](const T*) {}) : nullptr;
      const std::lock_guard lock(place.mutex);
      std::swap(place.current, mine);
    }
    return last;
  }

 private:
  static constexpr size_t kPlaces = 16;
  struct alignas(64) Place {
    mutable std::mutex mutex;
    Reference current;
  };

  static size_t OfThread() {
    static std::atomic<size_t> last{0};
    thread_local const size_t mine = last.fetch_add(1, std::memory_order_relaxed) % kPlaces;
    return mine;
  }

  std::array<Place, kPlaces> places_;
  std::mutex set_mutex_;
  Reference latest_;
};

}  // namespace penstock
