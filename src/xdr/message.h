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

#include "base/buffer.h"
#include "base/data.h"
#include "base/rare_vector.h"
#include "base/result.h"

namespace penstock::xdr {

// A payload outside of Message::stream. Its padding to a multiple of four is not in the stream either.
struct Item {
  // The place of the payload: an offset in `stream`, which is the reduced stream, and not the unreduced one of RFC
  // 8166.
  size_t offset = 0;
  Data data;
};

using Items = RareVector<Item>;

// The n-th result, which the peer has placed by RDMA Write (RFC 8166 §4.3.2). Its place in the stream is known only
// when the stream is decoded. Without a value, the n-th payload is in the stream.
using PlacedResult = std::optional<Slice>;

// The pads of a call that RDMA_MSGP has conveyed (RFC 5666 §3.9). A pad stands between the length and the octets of a
// payload, so that the octets begin on a boundary of the receive buffer. The decoder skips the pads.
struct Padding {
  uint32_t boundary = 0;   // a power of two, at least 4; 0 if the message has no pads
  uint32_t threshold = 0;  // payloads of at least this size have a pad
  uint32_t offset = 0;     // of the stream in the received Send, from whose first octet the boundary counts

  // Returns the size of the pad in front of a payload of `size` octets. The payload would begin at `position` of the
  // stream if it had no pad. The position counts the pads before it.
  size_t PadAt(size_t position, size_t size) const {
    if (boundary == 0 || size < threshold) return 0;
    return (0 - (size_t{offset} + position)) & (size_t{boundary} - 1);
  }
  bool operator==(const Padding&) const = default;
};

// Either `items` or `placed` is empty.
struct Message {
  // The reduced stream, contiguous. The message owns its octets, or borrows them from an owner that must outlive it.
  Slice stream;
  // In ascending order of offset. Used by encoded messages, and by calls received over RDMA.
  Items items;
  // Used by replies received over RDMA. The decoder matches them to the payloads in their order in the stream.
  RareVector<PlacedResult> placed;
  // Used by calls received over RDMA, which then have no items. The pads are a part of the stream and of every size of
  // this message.
  Padding padding{};

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
