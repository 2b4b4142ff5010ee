// A checksum of a call's arguments, payloads included. It distinguishes two calls with the same XID. The place of a
// payload does not matter, because a retransmission may use a transport that places payloads differently.
#pragma once

#include <cstddef>
#include <cstdint>

#include "xdr/message.h"

namespace penstock::rpc {

// The checksum covers short arguments completely. It covers the beginning of long arguments, and samples of the rest of
// their first kChecksummedSpan octets: a long WRITE begins before all of its data have arrived. A new WRITE to the same
// place under a reused XID differs from the earlier one in the samples.
inline constexpr size_t kChecksummedSpan = 64 << 10;
inline constexpr size_t kChecksummedHead = 256;
inline constexpr size_t kChecksummedSamples = 16;
inline constexpr size_t kChecksummedSample = 64;

// Returns the checksum of the call's stream after its first `arguments_at` octets. It is not secure against forgery,
// which is not needed: only calls of the same client can collide.
uint64_t ArgumentChecksum(const xdr::Message& call, size_t arguments_at);

}  // namespace penstock::rpc
