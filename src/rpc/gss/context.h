// A context that a client has established: what its calls are verified and their replies sealed with.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <mutex>

#include "base/timer.h"
#include "rpc/gss/mechanism.h"
#include "rpc/gss/sequence_window.h"

namespace penstock::rpc::gss {

// By which a client names a context. Random: nobody finds another's by trying.
using Handle = std::array<std::byte, 16>;

// Shared by the calls that use it, which may be on different loops.
struct Context {
  Handle handle;
  Initiator initiator;
  TimePoint expires = TimePoint::max();
  // Octets that the mechanism needs: of a checksum, and around a wrapped message.
  size_t mic_size = 0;
  WrapRoom wrap_room;

  // Guards what follows. Held for one use of the mechanism, which may be as long as it takes to encrypt a payload,
  // never across co_await: libraries do not promise that two threads may use one context.
  std::mutex mutex;
  std::unique_ptr<MechanismContext> mechanism;
  SequenceWindow window;
};

}  // namespace penstock::rpc::gss
