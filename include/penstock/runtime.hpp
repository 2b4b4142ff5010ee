/**
 * @file
 * Runtimes: the event loops on which the operations of mounts and files run.
 */
#ifndef PENSTOCK_RUNTIME_HPP
#define PENSTOCK_RUNTIME_HPP

#include <chrono>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

#include "penstock/detail/runtime_core.hpp"
#include "penstock/penstock.h"
#include "penstock/result.hpp"
#include "penstock/runtime_options.hpp"

namespace penstock::inline v1 {

/** Returns the version of the library that runs, such as "1.0.0". Any thread. */
inline std::string_view LibraryVersion() noexcept { return penstock_version(); }

/**
 * Event loops, their threads, and what mounts share.
 *
 * A runtime that has threads of its own may be used by any thread, and so may everything that belongs to it. A runtime
 * that the program drives (RuntimeOptions::threads is zero), and everything that belongs to it, may be used by one
 * thread at a time.
 *
 * Mounts, files and operations keep their runtime alive: they may be destroyed after the Runtime object.
 */
class Runtime {
 public:
  /**
   * Makes a runtime and starts its threads, which block all signals.
   *
   * Errors: EINVAL for wrong options; EAGAIN, EMFILE or ENOMEM if the system has no threads, descriptors or memory
   * left.
   */
  static Result<Runtime> Make(RuntimeOptions options = {}) {
    auto core = detail::RuntimeCore::Make(std::move(options));
    if (!core) return std::move(core).error();
    return Runtime(detail::RuntimeReference(*core));
  }

  /** Moves the runtime. The other object is empty afterwards, and can only be destroyed or assigned to. */
  Runtime(Runtime&&) noexcept = default;
  /** Destroys the runtime of this object as the destructor does, and moves the other one here. */
  Runtime& operator=(Runtime&& other) noexcept {
    Runtime old(std::exchange(core_, {}));
    core_ = std::move(other.core_);
    return *this;
  }
  /**
   * Blocks until all operations of the runtime have ended that are under way. In a runtime that the program drives, it
   * calls their callbacks. In a callback of the runtime it does not block; if the program drives the runtime, the
   * function that calls the callback blocks instead.
   *
   * If mounts, files or operations of the runtime are left, the runtime lives on until the last of them is destroyed.
   */
  ~Runtime() {
    if (core_) core_->EndUse();
  }

  /**
   * Returns a descriptor that is readable (POLLIN) when Dispatch() has something to do. For poll(), epoll and event
   * libraries. It belongs to the runtime: do not read it, and do not close it.
   *
   * Errors: EINVAL if the runtime has threads of its own.
   */
  Result<int> descriptor() const {
    const int descriptor = penstock_runtime_fd(core_->handle());
    if (descriptor < 0) return detail::LastError(descriptor);
    return descriptor;
  }

  /**
   * Does what is to be done now, in a runtime that the program drives: sends, receives, resumes coroutines and calls
   * the functions of operations that have ended. Call it when descriptor() is readable, or instead of waiting for that.
   *
   * @param timeout  How long the function waits until an operation ends. Zero: it does not wait. kNoLimit: until one
   *     ends. It never waits if no operation is under way.
   * @return The number of operations that have ended. Errors: EINVAL if the runtime has threads of its own; EDEADLK in
   * a callback of the runtime.
   */
  template <class Rep = int64_t, class Period = std::milli>
  Result<size_t> Dispatch(std::chrono::duration<Rep, Period> timeout = {}) {
    const int64_t limit = detail::ToMilliseconds(timeout);
    const detail::RuntimeReference kept = core_;  // a callback may destroy or move this object
    const int ended = penstock_runtime_dispatch(kept->handle(), limit > INT_MAX ? -1 : static_cast<int>(limit));
    if (ended < 0) return detail::LastError(ended);
    kept->EndDispatch();
    return static_cast<size_t>(ended);
  }

  /** Tells whether the program drives the runtime (RuntimeOptions::threads is zero). */
  bool is_driven() const noexcept { return core_->is_driven(); }

  /** Returns the runtime for functions of the C API. It belongs to this object: do not free it. */
  penstock_runtime* handle() const noexcept { return core_->handle(); }

 private:
  friend class Mount;
  explicit Runtime(detail::RuntimeReference core) noexcept : core_(std::move(core)) {}

  detail::RuntimeReference core_;
};

}  // namespace penstock::inline v1

#endif
