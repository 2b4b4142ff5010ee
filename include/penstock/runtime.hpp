/**
 * @file
 * Runtimes: the event loops on which the operations of mounts and files run.
 */
#ifndef PENSTOCK_RUNTIME_HPP
#define PENSTOCK_RUNTIME_HPP

#include <cerrno>
#include <chrono>
#include <climits>
#include <cmath>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include <unistd.h>

#include "penstock/penstock.h"
#include "penstock/result.hpp"

namespace penstock::inline v1 {

/** Returns the version of the library that runs, such as "1.0.0". Any thread. */
inline std::string_view LibraryVersion() noexcept { return penstock_version(); }

/** How important a message is. */
enum class LogLevel {
  kDebug = PENSTOCK_LOG_DEBUG,     /**< For developers. */
  kInfo = PENSTOCK_LOG_INFO,       /**< Something normal has happened. */
  kWarning = PENSTOCK_LOG_WARNING, /**< Something is wrong, and the library goes on. */
  kError = PENSTOCK_LOG_ERROR      /**< Something has failed. */
};

/** The settings of a Runtime. */
struct RuntimeOptions {
  /**
   * The number of event loops, each on a thread of its own. Mounts are spread over them. Zero: there is one loop, which
   * the program drives by Runtime::descriptor() and Runtime::Dispatch(). At most 256.
   */
  unsigned threads = 1;
  /**
   * The most threads for calls of the system that block: the look-up of a server's name, Kerberos, local files.
   * Zero: 16. From 4 to 1024.
   */
  unsigned blocking_threads = 0;
  /**
   * Receives the messages of the runtime: one line each, without a line break. `module` names the part of the library,
   * such as "rdma.iwarp". All threads of the runtime call the function, one at a time. It must not use objects of this
   * library and should not block. An exception that leaves it ends the process. Empty: messages are dropped.
   */
  std::function<void(LogLevel level, std::string_view module, std::string_view message)> log{};
  /** The least important messages that `log` gets. */
  LogLevel log_level = LogLevel::kWarning;
  /**
   * How connections over RDMA are made: "verbs" by an RDMA adapter, "iwarp" in software, "auto" by an adapter if one
   * leads to the server, otherwise in software. Empty: "auto".
   */
  std::string rdma{};
  /** The only RDMA adapter to use, such as "mlx5_0". Empty: any. */
  std::string rdma_device{};
};

/** A duration that stands for no time limit, where a function takes a time limit. So does any longer duration. */
inline constexpr std::chrono::milliseconds kNoLimit = std::chrono::hours(24 * 365 * 100);

/** @cond internal */
namespace detail {

class RuntimeCore;

// The runtime in whose callback this thread is, or null. Shared by all parts of the program.
#if defined(__GNUC__)
__attribute__((visibility("default")))
#endif
inline constinit thread_local RuntimeCore* callback_runtime = nullptr;

class CallbackScope {
 public:
  explicit CallbackScope(RuntimeCore* runtime) noexcept : outer_(std::exchange(callback_runtime, runtime)) {}
  ~CallbackScope() { callback_runtime = outer_; }
  CallbackScope(const CallbackScope&) = delete;
  CallbackScope& operator=(const CallbackScope&) = delete;

 private:
  RuntimeCore* const outer_;
};

// Converts a time limit for the C API. The operation has at least the time that the program gives.
template <class Rep, class Period>
int64_t ToMilliseconds(std::chrono::duration<Rep, Period> time) noexcept {
  const double milliseconds = std::chrono::duration<double, std::milli>(time).count();
  if (!(milliseconds < std::chrono::duration<double, std::milli>(kNoLimit).count())) return -1;
  return milliseconds <= 0 ? 0 : static_cast<int64_t>(std::ceil(milliseconds));
}

// Makes the error of a function of the C API that has just failed on this thread.
inline Error LastError(int64_t result) { return {static_cast<int>(-result), penstock_error_text()}; }

// Returns the text, or null for an empty one.
inline const char* TextOrNull(const std::string& text) noexcept { return text.empty() ? nullptr : text.c_str(); }

// A runtime of the C API. It is freed when it has neither references nor operations under way.
class RuntimeCore {
 public:
  static Result<RuntimeCore*> Make(RuntimeOptions&& options) {
    auto* const core = new RuntimeCore(std::move(options));
    penstock_runtime_options settings = PENSTOCK_RUNTIME_OPTIONS_INIT;
    settings.threads = core->options_.threads;
    settings.blocking_threads = core->options_.blocking_threads;
    if (core->options_.log) {
      settings.log = &Log;
      settings.log_context = core;
    }
    settings.log_level = static_cast<penstock_log_level>(core->options_.log_level);
    settings.rdma = TextOrNull(core->options_.rdma);
    settings.rdma_device = TextOrNull(core->options_.rdma_device);
    const int made = penstock_runtime_new(&settings, &core->handle_);
    if (made < 0) {
      Error error = LastError(made);
      delete core;
      return error;
    }
    return core;
  }
  RuntimeCore(const RuntimeCore&) = delete;
  RuntimeCore& operator=(const RuntimeCore&) = delete;

  penstock_runtime* handle() const noexcept { return handle_; }
  bool is_driven() const noexcept { return options_.threads == 0; }
  // Whether this process is a child that has only a copy of the runtime.
  bool is_copy() const noexcept { return ::getpid() != process_; }

  void AddReference() noexcept {
    const std::lock_guard lock(mutex_);
    ++references_;
  }
  void RemoveReference() noexcept {
    bool is_last;
    {
      const std::lock_guard lock(mutex_);
      is_last = --references_ == 0 && operations_ == 0;
    }
    if (is_last) Free();
  }

  // Surround an operation that does not block. The caller of BeginOperation() has a reference.
  void BeginOperation() noexcept {
    const std::lock_guard lock(mutex_);
    ++operations_;
  }
  void EndOperation() noexcept {
    bool is_last;
    {
      const std::lock_guard lock(mutex_);
      is_last = --operations_ == 0 && references_ == 0;
      // Under the lock, because a waiter may free this object when it gets the lock.
      if (operations_ == 0) idle_.notify_all();
    }
    if (is_last) Free();
  }

  // The Runtime object is destroyed, while the caller has a reference.
  void EndUse() noexcept {
    if (callback_runtime != this) {
      WaitForOperations();
    } else if (is_driven()) {
      has_to_wait_ = true;
    }
  }
  // A function ends that may have called callbacks of a driven runtime. The caller has a reference.
  void EndDispatch() noexcept {
    if (has_to_wait_ && callback_runtime != this) {
      has_to_wait_ = false;
      WaitForOperations();
    }
  }

 private:
  // In no callback of this runtime.
  void WaitForOperations() noexcept {
    if (is_copy()) return;
    std::unique_lock lock(mutex_);
    if (!is_driven()) {
      idle_.wait(lock, [this] { return operations_ == 0; });
      return;
    }
    while (operations_ > 0) {
      lock.unlock();
      const int ended = penstock_runtime_dispatch(handle_, -1);
      lock.lock();
      if (ended <= 0) return;
    }
  }

  explicit RuntimeCore(RuntimeOptions&& options) : options_(std::move(options)), process_(::getpid()) {}
  ~RuntimeCore() = default;

  static void Log(void* context, penstock_log_level level, const char* module, const char* message) noexcept {
    static_cast<RuntimeCore*>(context)->options_.log(static_cast<LogLevel>(level), module, message);
  }

  void Free() noexcept {
    if (is_copy()) return;
    if (callback_runtime != this) {
      FreeNow();
    } else if (!is_driven()) {
      // A thread of the runtime cannot end itself. If the system has no thread left, the runtime stays.
      try {
        std::thread([this] { FreeNow(); }).detach();
      } catch (const std::system_error&) {
      }
    }
    // In a callback of a driven runtime, the function that calls the callback has a reference.
  }
  void FreeNow() noexcept {
    // The callback of the last operation may still be returning.
    for (int tries = 0; penstock_runtime_free(handle_) == -EBUSY; ++tries) {
      if (tries == 5000) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    delete this;
  }

  const RuntimeOptions options_;
  const pid_t process_;
  penstock_runtime* handle_ = nullptr;
  // In a driven runtime: a callback has destroyed the Runtime object, which waits when the callback has returned.
  bool has_to_wait_ = false;

  std::mutex mutex_;  // guards the following members
  std::condition_variable idle_;
  size_t references_ = 0;
  size_t operations_ = 0;
};

// A counted reference to a runtime, or null.
class RuntimeReference {
 public:
  RuntimeReference() = default;
  explicit RuntimeReference(RuntimeCore* core) noexcept : core_(core) {
    if (core_) core_->AddReference();
  }
  RuntimeReference(const RuntimeReference& other) noexcept : RuntimeReference(other.core_) {}
  RuntimeReference(RuntimeReference&& other) noexcept : core_(std::exchange(other.core_, nullptr)) {}
  RuntimeReference& operator=(RuntimeReference other) noexcept {
    std::swap(core_, other.core_);
    return *this;
  }
  ~RuntimeReference() {
    if (core_) core_->RemoveReference();
  }

  RuntimeCore* get() const noexcept { return core_; }
  RuntimeCore* operator->() const noexcept { return core_; }
  explicit operator bool() const noexcept { return core_ != nullptr; }

 private:
  RuntimeCore* core_ = nullptr;
};

}  // namespace detail
/** @endcond */

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
