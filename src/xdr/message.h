// A message: an XDR stream, and its payloads outside the stream.
//
// Payloads may travel by direct data placement; protocol definitions mark them with `ddp` (RFC 8166 §3.4.2). They are
// not copied into the stream. The stream holds only the length word of a payload; the octets and their XDR padding are
// separate. A transport over a byte stream inserts them (see flatten.h). RPC-over-RDMA moves them by RDMA Read and
// Write.
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

// A payload outside of Message::stream. Its padding to a multiple of four is not in the stream either.
struct Item {
  // The place of the payload: an offset in `stream`, which is the reduced stream, and not the unreduced one of RFC
  // 8166.
  size_t offset = 0;
  Data data;
};

// The n-th result, which the peer has placed by RDMA Write (RFC 8166 §4.3.2). Its place in the stream is known only
// when the stream is decoded. Without a value, the n-th payload is in the stream.
using PlacedResult = std::optional<Slice>;

// Either `items` or `placed` is empty.
struct Message {
  // The reduced stream, contiguous. The message owns its octets, or borrows them from an owner that must outlive it.
  Slice stream;
  // In ascending order of offset. Used by encoded messages, and by calls received over RDMA.
  std::vector<Item> items;
  // Used by replies received over RDMA. The decoder matches them to the payloads in their order in the stream.
  std::vector<PlacedResult> placed;

  bool empty() const { return stream.empty(); }
  // Makes a message without items and placed results.
  static Message Whole(Slice stream) {
    Message message;
    message.stream = std::move(stream);
    return message;
  }

  // The size of the unreduced stream. It includes items and their padding, but not placed results.
  size_t flat_size() const;

  // The memory that the message holds. A buffer counts with its whole size, even if the message uses only a part. File
  // data do not count. A buffer counts more than once if several items that are not next to each other are in it.
  size_t memory() const;
};

// Replaces payloads in files by copies in memory. Returns the error of a failed read. May block.
[[nodiscard]] Result<void, std::error_code> LoadFiles(Message& message, BufferPool& pool);

}  // namespace penstock::xdr
