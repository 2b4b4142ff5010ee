// How arguments and results are protected: RFC 2203 §5.3.2, §5.3.3.2. Integrity and privacy are of whole streams, so
// that what they protect has no payloads beside it (RFC 8166 §8.2.2.3); under neither, payloads stay where they are.
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

// What follows the first `count` octets, in the same memory. No payload belongs within these.
Message Behind(const Message& message, size_t count);

// ---- calls ----

// What sealed arguments stand for. Nothing where they are malformed, not those that the client sealed, or sealed for
// another call than that of the sequence number. All may take as long as decrypting does; in the context's turn.
std::optional<Message> UnsealIntegrity(SecurityContext& context, uint32_t sequence, const Message& sealed);
// `room`, of as many octets as `sealed` has at least, is where they are decrypted.
std::optional<Message> UnsealPrivacy(SecurityContext& context, uint32_t sequence, const Message& sealed,
                                     const BufferRef& room);

// ---- replies ----

// `plain`, which begins with a reply's header and an empty verifier, says whether the call was accepted, and whether
// results follow.
bool IsAccepted(const Message& plain);
bool HasResults(const Message& plain);

// An accepted reply with a verifier in place of the empty one, and what follows as it is.
Message WithVerifier(BufferPool& pool, const Message& plain, const Mic& verifier);

// How large a reply with sealed results is going to be.
struct SealPlan {
  GssService service = GssService::kIntegrity;
  size_t results = 0;  // octets of them with everything in their stream
  WrapRoom wrap;       // for privacy
  size_t size = 0;     // of the reply, at most
};
// In the context's turn.
Result<SealPlan> PlanSeal(SecurityContext& context, GssService service, const Message& plain, const Mic& verifier);
// Writes the reply to `room`, of plan.size octets at least, but for its seal. May take as long as reading payloads that
// are still in files, and fails where they cannot be read; any thread, out of turn.
Result<void> WriteResults(const SealPlan& plan, uint32_t sequence, const Message& plain, const Mic& verifier,
                          const BufferRef& room);
// Seals what WriteResults() has written. May take as long as encryption does; in the context's turn.
Result<Message> SealResults(SecurityContext& context, const SealPlan& plan, const Mic& verifier, const BufferRef& room);

// Octets that a reply with sealed results is longer than without, at most.
size_t SealOverhead(const SecurityContext& context, GssService service);

}  // namespace penstock::rpc::gss
