// The handles of objects that were looked at before, so that the kernel need not be asked for them again.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>

#include "fs/posix/stat.h"
#include "fs/types.h"

namespace penstock::fs::posix {

// Finds a handle by the inode number and the time of birth of its object. An object is kept only if it was born before
// `now` by more than a tick of its file system's clock. So an object that gets the same inode number later was born at
// another time, and its handle is asked for anew. Objects without a time of birth are not kept.
//
// Each inode number has one place, which its objects share with those whose number differs by a multiple of kPlaces.
// The objects of a directory often have successive numbers, so they have different places, and a small tree takes
// little memory. Any thread.
class KnownHandles {
 public:
  static constexpr size_t kPlaces = 128 << 10;

  std::optional<Handle> Find(const Stat& stat);
  // `now` is the time after the object was looked at.
  void Keep(const Stat& stat, const Handle& handle, const Timestamp& now);

 private:
  static constexpr size_t kPlacesOfBlock = 512;
  struct Place {
    uint64_t device = 0;
    uint64_t fileid = 0;
    Timestamp born{};
    Handle handle;  // empty if the place is free
  };
  struct Block {
    std::mutex mutex;
    std::unique_ptr<std::array<Place, kPlacesOfBlock>> places;  // null until one is taken
  };
  static size_t PlaceOf(const Stat& stat) {
    return (stat.attributes.fileid + stat.device * 0x9e37'79b9'7f4a'7c15) % kPlaces;
  }

  std::array<Block, kPlaces / kPlacesOfBlock> blocks_;
};

}  // namespace penstock::fs::posix
