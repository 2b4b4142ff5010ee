// An established security context, which protects the calls of a client and their replies.
#pragma once

#include <array>
#include <atomic>
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
#include "rpc/gss/host_pair.h"
#include "rpc/gss/mechanism.h"
#include "rpc/gss/sequence_window.h"
#include "rpc/gss/strand.h"

namespace penstock::rpc::gss {

// Identifies a context. It is random, so that no client can guess another client's handle.
using Handle = std::array<std::byte, 16>;

// Binds a CCM context to the context of another mechanism, from which it was made, and to its connections.
struct Conjunction {
  Handle inner;
  HostPair hosts;
};

// The protection of messages under a context, at either end and in both directions. Shared by its calls, which may run
// on different loops, so a shared_ptr must own it.
struct ProtectedContext : std::enable_shared_from_this<ProtectedContext> {
  // The octets that the mechanism needs for a checksum, and around a wrapped message.
  size_t mic_size = 0;
  WrapRoom wrap_room;

  // Guards the mechanism, which only InTurn() uses. GSS-API libraries do not promise that two threads may use one
  // context.
  Strand strand;
  std::unique_ptr<MessageProtection> mechanism;

  // The last sequence number of a call in the reverse direction. All users of that direction share it, since the other
  // end may know them by one handle.
  std::atomic<uint32_t> last_reverse_number{0};
};

// A context for calls that this end executes.
struct SecurityContext {
  std::shared_ptr<ProtectedContext> protection = std::make_shared<ProtectedContext>();
  Handle handle;
  Initiator initiator;
  TimePoint expires = TimePoint::max();
  std::optional<Conjunction> conjunction{};  // for a CCM context only
  SequenceWindow window;                     // guarded by the strand of the protection
};

// co_await InTurn(context, loop, pool, takes_long, f) runs f() with exclusive use of `context`, and returns its result.
// A short f() runs at once on the loop if the context is free. Otherwise f() runs on a thread of `pool` in its turn,
// and the loop serves others meanwhile. If `loop` or `pool` is null, there is only one thread, and f() runs at once.
template <class Function>
auto InTurn(ProtectedContext& context, Loop* loop, Workers* pool, bool takes_long, Function function) {
  using T = std::invoke_result_t<Function&>;
  struct Awaiter {
    std::shared_ptr<ProtectedContext> context;
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
  return Awaiter{context.shared_from_this(), loop, pool, takes_long, std::move(function), {}};
}

}  // namespace penstock::rpc::gss
