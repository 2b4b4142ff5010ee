// What is behind a Mount and a File. Not for programs.
#ifndef PENSTOCK_DETAIL_OPENED_HPP
#define PENSTOCK_DETAIL_OPENED_HPP

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string_view>
#include <utility>

#include "penstock/detail/operation_state.hpp"
#include "penstock/detail/runtime_core.hpp"
#include "penstock/operation.hpp"
#include "penstock/penstock.h"
#include "penstock/result.hpp"

namespace penstock::inline v1::detail {

template <class T>
Operation<T> Refuse(Error error) {
  return Operation<T>(std::make_unique<RefusedState<T>>(std::move(error)));
}

template <class T, class Out, class BeginFunction, class TakeFunction>
Operation<T> MakeOperation(RuntimeReference runtime, std::shared_ptr<Object> object, Out out, BeginFunction begin,
                           TakeFunction take) {
  return Operation<T>(std::make_unique<FunctionState<T, Out, BeginFunction, TakeFunction>>(
      std::move(runtime), std::move(object), std::move(out), std::move(begin), std::move(take)));
}

// Texts end at a NUL in the C API, so that a NUL inside would change what they name.
inline bool HasNul(std::initializer_list<std::string_view> texts) noexcept {
  for (const std::string_view text : texts) {
    if (text.find('\0') != std::string_view::npos) return true;
  }
  return false;
}
inline Error NulError() { return {EINVAL, "a text contains a NUL"}; }

// The time limit of the operations of destructors that close mounts and files.
inline constexpr std::chrono::milliseconds kCloseLimit = std::chrono::seconds(10);

// An open mount or file of the C API. The last of its references closes it.
template <class Handle, int (*kClose)(Handle*, const penstock_call*)>
class Opened final : public Object {
 public:
  // `parent` lives until this object is closed.
  Opened(RuntimeReference runtime, std::shared_ptr<Object> parent) noexcept
      : Object(std::move(runtime)), parent_(std::move(parent)) {}
  ~Opened() override {
    if (!handle || runtime()->is_copy()) return;
    penstock_call call = PENSTOCK_CALL_INIT;
    call.timeout_ms = kCloseLimit.count();
    RuntimeCore* const core = runtime().get();
    if (!callback_runtime) {
      kClose(handle, &call);
      core->EndDispatch();
      return;
    }
    // A callback must not block.
    auto* const closing = new Closing{runtime(), std::move(parent_)};
    call.done = &Closing::Done;
    call.context = closing;
    core->BeginOperation();
    if (kClose(handle, &call) < 0) {
      delete closing;
      core->EndOperation();
    }
  }

  bool is_open() const noexcept override { return handle != nullptr; }

  // Makes the operation that closes an object.
  static Operation<void> Close(std::shared_ptr<Opened> object) {
    if (!object) return Refuse<void>({EBADF, "the mount or file is closed"});
    return Operation<void>(std::make_unique<CloseState>(std::move(object)));
  }

  // Null: not open yet, or closed.
  Handle* handle = nullptr;

 private:
  struct Closing {
    RuntimeReference runtime;
    std::shared_ptr<Object> parent;

    static void Done(void* context, int64_t /*number*/, const char* /*error*/) noexcept {
      auto* const closing = static_cast<Closing*>(context);
      RuntimeCore* const core = closing->runtime.get();
      {
        const CallbackScope scope(core);
        delete closing;
      }
      core->EndOperation();
    }
  };

  class CloseState final : public OperationState<void> {
   public:
    explicit CloseState(std::shared_ptr<Opened> closed)
        : OperationState<void>(closed->runtime(), closed), opened_(std::move(closed)) {}

   private:
    int64_t Begin(const penstock_call* call) noexcept override {
      // No other operation may begin with this handle.
      handle_ = std::exchange(opened_->handle, nullptr);
      return kClose(handle_, call);
    }
    Result<void> Take(int64_t /*number*/) override { return {}; }
    void Failed(int64_t number) noexcept override {
      if (number == -EBUSY) Refused();
    }
    // The object stays, and is closed when its last operation or file is gone.
    void Refused() noexcept override { opened_->handle = handle_; }

    const std::shared_ptr<Opened> opened_;
    Handle* handle_ = nullptr;
  };

  std::shared_ptr<Object> parent_;
};

using OpenedMount = Opened<penstock_mount, penstock_mount_close>;
using OpenedFile = Opened<penstock_file, penstock_close>;

}  // namespace penstock::inline v1::detail

#endif
