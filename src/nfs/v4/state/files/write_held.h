// The files that have a write delegation, for readers that must not wait for the lock of State: version 3 asks whenever
// it returns attributes. This is a counting filter: it finds each file that is in it, and sometimes a file that is not.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace penstock::nfs::v4 {

// Call Add() and Remove() within State::Run(), the other methods on any thread.
class WriteHeldFiles {
 public:
  void Add(size_t file_hash) { PlaceOf(file_hash).count.fetch_add(1, std::memory_order_release); }
  void Remove(size_t file_hash) {
    const uint64_t now = ended_.load(std::memory_order_relaxed) + 1;
    Place& place = PlaceOf(file_hash);
    // The order matters: a reader that sees the lower count also sees the new `last_ended`.
    place.last_ended.store(now, std::memory_order_release);
    place.count.fetch_sub(1, std::memory_order_release);
    ended_.store(now, std::memory_order_release);
  }

  // The number of delegations that have ended so far.
  uint64_t ended() const { return ended_.load(std::memory_order_acquire); }
  // Whether the file may have a write delegation.
  bool MayHave(size_t file_hash) const { return PlaceOf(file_hash).count.load(std::memory_order_acquire) != 0; }
  // Whether a delegation of the file may have ended since ended() was `mark`.
  bool MayHaveEnded(size_t file_hash, uint64_t mark) const {
    return PlaceOf(file_hash).last_ended.load(std::memory_order_acquire) > mark;
  }

 private:
  static constexpr size_t kPlaces = 4096;
  struct Place {
    std::atomic<uint64_t> last_ended = 0;
    std::atomic<uint32_t> count = 0;
  };
  Place& PlaceOf(size_t file_hash) { return places_[(file_hash ^ (file_hash >> 32)) % kPlaces]; }
  const Place& PlaceOf(size_t file_hash) const { return places_[(file_hash ^ (file_hash >> 32)) % kPlaces]; }

  std::atomic<uint64_t> ended_ = 0;
  std::array<Place, kPlaces> places_;
};

}  // namespace penstock::nfs::v4
