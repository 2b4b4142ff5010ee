// A message is an XDR stream with its payloads kept apart.
//
// What may travel by direct data placement (the `ddp` items of a protocol definition, RFC 8166 §3.4.2) is not copied
// into the stream: the stream holds its length word, and the bytes (with their XDR padding) stand beside it. A transport
// over a byte stream puts them back in (Flatten); RPC-over-RDMA moves them by RDMA Read and Write.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "base/buffer.h"
#include "base/data.h"
#include "base/result.h"

namespace penstock::xdr {

// Bytes that are missing from Message::stream, together with their padding to a multiple of four.
struct Item {
  // Octets of `stream` (the reduced stream, not RFC 8166's unreduced one) before the place where the bytes belong.
  size_t offset = 0;
  Data data;
};

// The n-th result that a peer has placed by RDMA Write (RFC 8166 §4.3.2): where it belongs is known only when the stream
// is decoded. Without a value the n-th payload is in the stream.
using PlacedResult = std::optional<Slice>;

struct Message {
  // The reduced stream, contiguous. Owned, or borrowed for as long as the message lives.
  Slice stream;
  // In ascending order of offset. Messages that we encode, and calls received over RDMA, use this.
  std::vector<Item> items;
  // Replies received over RDMA use this instead: matched to the payloads in the order in which they are decoded.
  std::vector<PlacedResult> placed;

  bool empty() const { return stream.empty(); }
  // A message with everything in its stream.
  static Message Whole(Slice stream) {
    Message message;
    message.stream = std::move(stream);
    return message;
  }

  // Octets of the unreduced stream: items and their padding included, placed results not.
  size_t flat_size() const;

  // Octets of memory that the message keeps from being used again: whole buffers, however little of them it needs. Files cost
  // none. A buffer is counted more than once where several items, apart from each other, are in it.
  size_t memory() const;
};

// Replaces payloads that are still in files by copies in memory. The error is that of reading a file. May block.
[[nodiscard]] Result<void, std::error_code> LoadFiles(Message& message, BufferPool& pool);

}  // namespace penstock::xdr
