// The handles of objects that were looked at before, so that the kernel need not be asked for them again.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>

#include "base/strong.h"
#include "fs/posix/stat.h"
#include "fs/types.h"

namespace penstock::fs::posix {

// Finds a handle by the inode number and the time of birth of its object, on a volume where Volume::births_differ is
// true and Stat::device zero. An object is kept only if it was born before `now` by more than a tick of its file
// system's clock. So an object that gets the same inode number later was born at another time, and its handle is asked
// for anew. Objects without a time of birth are not kept.
//
// One instance serves all exports of the process. Each inode number of an export has one place, which it shares with
// those that differ by a multiple of kPlaces. The objects of a directory often have successive numbers, so they have
// different places, and small trees take little memory. Any thread.
class KnownHandles {
 public:
  static constexpr size_t kPlaces = 128 << 10;

  // An export, whose handles lead nowhere in another one.
  using Owner = Strong<struct OwnerTag, uint64_t>;
  // Returns a number that no other export has.
  Owner NewOwner() { return Owner(++owners_); }

  std::optional<Handle> Find(Owner owner, const Stat& stat);
  // Whether Find() may return something for an object with this inode number.
  bool MayKnow(Owner owner, uint64_t fileid);
  // `now` is the time after the object was looked at.
  void Keep(Owner owner, const Stat& stat, const Handle& handle, const Timestamp& now);

 private:
  static constexpr size_t kPlacesOfBlock = 512;
  struct Place {
    Owner owner{};
    uint64_t fileid = 0;
    Timestamp born{};
    Handle handle;  // empty if the place is free
  };
  struct Block {
    std::mutex mutex;
    std::unique_ptr<std::array<Place, kPlacesOfBlock>> places;  // null until one is taken
  };
  static size_t PlaceOf(Owner owner, uint64_t fileid) {
    return (fileid + owner.value() * 0x9e37'79b9'7f4a'7c15) % kPlaces;
  }

  std::atomic<uint64_t> owners_ = 0;
  std::array<Block, kPlaces / kPlacesOfBlock> blocks_;
};

}  // namespace penstock::fs::posix
