// The protection of arguments and results: RFC 2203 §5.3.2, §5.3.3.2. Integrity and privacy cover the whole stream, so
// sealed messages have no separate payloads (RFC 8166 §8.2.2.3). Without them, payloads stay separate.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/buffer.h"
#include "rpc/auth.h"
#include "rpc/gss/context.h"
#include "xdr/message.h"

namespace penstock::rpc::gss {

using xdr::Message;

// Returns the message without its first `count` octets, in the same memory. No payload may lie within these octets.
Message Behind(const Message& message, size_t count);

// ---- calls ----

// Return the plain arguments. Return nullopt if the sealed ones are malformed, if the seal is wrong, or if they belong
// to another sequence number. They may take as long as decryption, and require the context's turn.
std::optional<Message> UnsealIntegrity(SecurityContext& context, uint32_t sequence, const Message& sealed);
// Decrypts into `room`, which must have at least the size of `sealed`.
std::optional<Message> UnsealPrivacy(SecurityContext& context, uint32_t sequence, const Message& sealed,
                                     const BufferRef& room);

// ---- replies ----

// Return whether the reply `plain`, with an empty verifier, accepts the call, and whether it has results.
bool IsAccepted(const Message& plain);
bool HasResults(const Message& plain);

// Returns an accepted reply with its empty verifier replaced by `verifier`, and with the rest unchanged.
Message WithVerifier(BufferPool& pool, const Message& plain, const Mic& verifier);

// The sizes of a reply with sealed results.
struct SealPlan {
  GssService service = GssService::kIntegrity;
  size_t results = 0;  // octets of the results, with payloads in their stream
  WrapRoom wrap;       // for privacy
  size_t size = 0;     // the maximum size of the reply
};
// Requires the context's turn.
Result<SealPlan> PlanSeal(SecurityContext& context, GssService service, const Message& plain, const Mic& verifier);
// Writes the reply without its seal to `room`, which must have plan.size octets. Reads payloads from files, so it may
// block, and fails if a file cannot be read. Any thread, without the context's turn.
Result<void> WriteResults(const SealPlan& plan, uint32_t sequence, const Message& plain, const Mic& verifier,
                          const BufferRef& room);
// Seals the reply that WriteResults() has written. May take as long as encryption; requires the context's turn.
Result<Message> SealResults(SecurityContext& context, const SealPlan& plan, const Mic& verifier, const BufferRef& room);

// The maximum number of octets that the seal adds to a reply.
size_t SealOverhead(const SecurityContext& context, GssService service);

}  // namespace penstock::rpc::gss
