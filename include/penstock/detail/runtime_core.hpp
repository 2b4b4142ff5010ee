// What is behind a Runtime. Not for programs.
#ifndef PENSTOCK_DETAIL_RUNTIME_CORE_HPP
#define PENSTOCK_DETAIL_RUNTIME_CORE_HPP

#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "penstock/penstock.h"
#include "penstock/result.hpp"
#include "penstock/runtime_options.hpp"

namespace penstock::inline v1::detail {

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
    settings.provider = core->options_.provider.get();
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

}  // namespace penstock::inline v1::detail

#endif
