// penstock_mount: a mount of the inner client, on a loop of a runtime.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <string_view>

#include "client/mount.h"
#include "library/activity.h"
#include "library/operation.h"
#include "library/runtime.h"
#include "penstock/penstock.h"

struct penstock_mount {
  // The place counts the mount already (penstock_runtime::TakePlace()).
  penstock_mount(penstock_runtime& at_runtime, penstock::library::Place& at_place)
      : runtime(at_runtime), place(at_place) {}
  ~penstock_mount() {
    --place.mounts;
    if (is_given_) --place.given_mounts;
  }
  penstock_mount(const penstock_mount&) = delete;
  penstock_mount& operator=(const penstock_mount&) = delete;

  // The host has it from now on.
  void NoteGiven() {
    is_given_ = true;
    ++place.given_mounts;
  }

  penstock_runtime& runtime;
  penstock::library::Place& place;
  penstock::library::Activity activity;
  penstock::library::AbandonedWorks abandoned_works;  // also of the files
  // Files that the host has open. Any thread.
  std::atomic<size_t> files = 0;

  // The following members belong to the loop.

  std::unique_ptr<penstock::client::Mount> mount;

 private:
  bool is_given_ = false;
};

namespace penstock::library {

// Converts a path of the host to one below the root of the mount.
std::string PathOf(const penstock_mount& mount, std::string_view path);

// Names the objects that an operation on a mount, or on a file of the mount, uses.
inline Operation::Uses UsesOf(penstock_mount& mount, Activity& activity) {
  return {.place = mount.place,
          .activity = activity,
          .abandoned = mount.abandoned_works,
          .explains = mount.mount.get(),
          .is_final = false};
}

// Starts work on a mount, as Start(). Fails if there is no mount or path, or if it belongs to another process.
// `work` takes the operation and the inner mount.
template <class Function>
int64_t StartOn(penstock_mount* mount, std::initializer_list<const void*> required, const penstock_call* call,
                Function work) {
  return Guarded([&]() -> int64_t {
    if (!mount) return Fail(EINVAL, "there is no mount");
    if (const int wrong = CheckProcess(mount->runtime); wrong != 0) return wrong;
    for (const void* each : required) {
      if (!each) return Fail(EINVAL, "an argument is null");
    }
    return Start(UsesOf(*mount, mount->activity), call, [mount, work = std::move(work)](Operation& operation) mutable {
      return work(operation, *mount->mount);
    });
  });
}

}  // namespace penstock::library
