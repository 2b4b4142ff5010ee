// What tells one call from another of the same XID: a checksum of its arguments, payloads included, wherever these are. A call
// may come again over a transport that places them differently.
#pragma once

#include <cstddef>
#include <cstdint>

#include "xdr/message.h"

namespace penstock::rpc {

// Short arguments count whole. Of long ones the beginning counts, and samples up to the very end: data that a client writes
// to the same place once more, under an XID that comes again, differs there.
inline constexpr size_t kChecksummedHead = 256;
inline constexpr size_t kChecksummedSamples = 16;
inline constexpr size_t kChecksummedSample = 64;

// Of what follows the first `arguments_at` octets of the call's stream. Against accidents, not against forgery: only a
// client's own calls can collide.
uint64_t ArgumentChecksum(const xdr::Message& call, size_t arguments_at);

}  // namespace penstock::rpc
