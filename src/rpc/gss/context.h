// A context that a client has established: what its calls are verified and their replies sealed with.
#pragma once

#include <array>
#include <cassert>
#include <coroutine>
#include <cstddef>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include "base/loop.h"
#include "base/timer.h"
#include "base/workers.h"
#include "rpc/gss/mechanism.h"
#include "rpc/gss/sequence_window.h"
#include "rpc/gss/strand.h"

namespace penstock::rpc::gss {

// By which a client names a context. Random: nobody finds another's by trying.
using Handle = std::array<std::byte, 16>;

// Shared by the calls that use it, which may be on different loops.
struct SecurityContext {
  Handle handle;
  Initiator initiator;
  TimePoint expires = TimePoint::max();
  // Octets that the mechanism needs: of a checksum, and around a wrapped message.
  size_t mic_size = 0;
  WrapRoom wrap_room;

  // Guards what follows: it is used by InTurn() alone. Libraries do not promise that two threads may use one context.
  Strand strand;
  std::unique_ptr<MechanismContext> mechanism;
  SequenceWindow window;
};

// co_await InTurn(context, loop, pool, takes_long, f): what f() returns, which has `context` for itself as it runs. On
// the loop, at once, where that is short and nothing else uses the context; else on a thread of `pool`, in its turn: the
// loop goes on meanwhile. Where `loop` or `pool` is null there is but one thread, and f() runs at once.
template <class Function>
auto InTurn(std::shared_ptr<SecurityContext> context, Loop* loop, Workers* pool, bool takes_long, Function function) {
  using T = std::invoke_result_t<Function&>;
  struct Awaiter {
    std::shared_ptr<SecurityContext> context;
    Loop* loop;
    Workers* pool;
    bool takes_long;
    Function function;
    std::optional<T> result;

    bool await_ready() {
      const bool threads = loop && pool;
      if (threads && takes_long) return false;
      if (!context->strand.TryEnter()) {
        assert(threads);
        return false;
      }
      result.emplace(function());
      context->strand.Leave(pool);
      return true;
    }
    void await_suspend(std::coroutine_handle<> waiter) {
      context->strand.Post(*pool, [this, waiter, owner = context] {
        result.emplace(function());
        loop->Post(waiter);
      });
    }
    T await_resume() { return std::move(*result); }
  };
  return Awaiter{std::move(context), loop, pool, takes_long, std::move(function), {}};
}

}  // namespace penstock::rpc::gss
