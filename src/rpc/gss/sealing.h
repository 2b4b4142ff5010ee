// The protection of arguments and results: RFC 2203 §5.3.2, §5.3.3.2. Both have the same form. Integrity and privacy
// cover the whole stream, so sealed messages have no separate payloads (RFC 8166 §8.2.2.3). Without them, payloads stay
// separate.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/buffer.h"
#include "base/client_key.h"
#include "base/loop.h"
#include "base/task.h"
#include "base/workers.h"
#include "rpc/auth.h"
#include "rpc/gss/context.h"
#include "xdr/message.h"

namespace penstock::rpc::gss {

using xdr::Message;

// Messages from this size on are processed by the pool, not by the loop. Processing them takes longer than switching to
// another thread and back.
inline constexpr size_t kLong = 32 << 10;

// Where a message is sealed or unsealed.
struct SealingPlace {
  BufferPool& buffers;
  Loop* loop = nullptr;     // null in a simulation
  Workers* pool = nullptr;  // null: everything runs at once
  ClientKey client{};       // whose turn on the pool it is
};

// Returns the message without its first `count` octets, in the same memory. No payload may lie within these octets.
Message Behind(const Message& message, size_t count);

// The part of a message before its arguments or results: a header with its verifier. At most so many octets.
inline constexpr size_t kMaxHead = 1024;
struct Head {
  std::array<std::byte, kMaxHead> room;
  size_t size = 0;

  ConstBytes bytes() const { return ConstBytes(room).first(size); }
  // Requires room for them.
  void Append(ConstBytes octets);
  void AppendVerifier(const Mic& mic);
};

// Returns `head` with `body` behind it. The payloads of `body` stay separate.
Message Joined(BufferPool& buffers, const Head& head, const Message& body);

// Returns `head` with `body` behind it, sealed by `service`, which is not kNone. Reads payloads from files. Fails if a
// file cannot be read, or if the mechanism fails. `context` and `head` must outlive the task.
Task<Result<Message>> Seal(ProtectedContext& context, GssService service, uint32_t sequence, const Head& head,
                           const Message& body, SealingPlace place);

// Returns the plain arguments or results of `sealed`, with `room_before` octets of writable memory directly before its
// stream, which belong to the same buffer. Fails if `sealed` is malformed, if the seal is wrong, or if it belongs to
// another sequence number. `context` and `sealed` must outlive the task.
Task<Result<Message>> Unseal(ProtectedContext& context, GssService service, uint32_t sequence, const Message& sealed,
                             size_t room_before, SealingPlace place);

// The maximum number of octets that a verifier and the seal add to a reply.
size_t SealOverhead(const ProtectedContext& context, GssService service);

// ---- replies ----

// Return whether a reply accepts the call, and whether it has results.
bool IsAccepted(const Message& plain);
bool HasResults(const Message& plain);

// The head of the accepted reply `plain`, whose verifier is empty, with `verifier` in its place.
Head ReplyHead(const Message& plain, const Mic& verifier);
// The part of the accepted reply `plain` behind its head with an empty verifier.
Message BehindHead(const Message& plain);

}  // namespace penstock::rpc::gss
