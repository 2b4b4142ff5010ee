// A lock in parts, for data of which a part can be changed alone. A thread takes one part, or all parts. Two threads
// that take different parts do not wait for each other, and write no common cache line.
//
// LockAll() takes the parts in the order of their numbers, and a thread that has a part takes no other. So no two
// threads wait for each other.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>

namespace penstock {

class ShardedLock {
 public:
  // Requires parts > 0.
  explicit ShardedLock(size_t parts) : count_(parts), parts_(std::make_unique<Part[]>(parts)) {}
  ShardedLock(const ShardedLock&) = delete;
  ShardedLock& operator=(const ShardedLock&) = delete;

  size_t parts() const { return count_; }

  void Lock(size_t part) { parts_[part].tally.Count(Take(parts_[part].mutex)); }
  void Unlock(size_t part) { parts_[part].mutex.unlock(); }
  void LockAll() {
    std::chrono::nanoseconds waited{};
    for (Part& part : all()) waited += Take(part.mutex);
    all_tally_.Count(waited);
  }
  void UnlockAll() {
    for (Part& part : all()) part.mutex.unlock();
  }

  // How often the lock was taken, how often the thread had to wait, and for how long.
  struct Waits {
    uint64_t taken = 0;
    uint64_t waited = 0;
    std::chrono::nanoseconds time{};
  };
  struct Counts {
    Waits one{};  // of Lock()
    Waits all{};  // of LockAll()
  };
  // The counts so far. Any thread; takes no lock.
  Counts counts() const;

 private:
  // Only a thread that holds the lock writes it, so that it needs no atomic additions.
  struct Tally {
    void Count(std::chrono::nanoseconds took) {
      Add(taken, 1);
      if (took == std::chrono::nanoseconds{}) [[likely]]
        return;
      Add(waited, 1);
      Add(time, static_cast<uint64_t>(took.count()));
    }
    static void Add(std::atomic<uint64_t>& to, uint64_t more) {
      to.store(to.load(std::memory_order_relaxed) + more, std::memory_order_relaxed);
    }
    void AddTo(Waits& sum) const;

    std::atomic<uint64_t> taken = 0;
    std::atomic<uint64_t> waited = 0;
    std::atomic<uint64_t> time = 0;  // in nanoseconds
  };
  static constexpr size_t kCacheLine = 64;
  static constexpr size_t kTwoLines = 2 * kCacheLine;  // processors fetch lines in pairs
  struct alignas(kTwoLines) Part {
    std::mutex mutex;
    Tally tally;
  };

  std::span<Part> all() { return {parts_.get(), count_}; }
  // Locks a mutex. Returns how long the thread had to wait; zero if it did not.
  static std::chrono::nanoseconds Take(std::mutex& mutex) {
    return mutex.try_lock() ? std::chrono::nanoseconds{} : Wait(mutex);
  }
  // The same for a mutex that another thread holds. The time is not zero.
  static std::chrono::nanoseconds Wait(std::mutex& mutex);

  const size_t count_;
  const std::unique_ptr<Part[]> parts_;
  alignas(kTwoLines) Tally all_tally_;  // a thread that holds all parts writes it
};

}  // namespace penstock
