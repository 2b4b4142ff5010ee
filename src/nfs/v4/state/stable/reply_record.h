// The format of a reply that is kept in a file:
//
//   0               8       12      16              24       28       32
//   +---------------+-------+-------+---------------+--------+--------+----------------+--------+----------+
//   |   checksum    | size  | seqid |    digest     | stream | items  | offset, size   | stream | payloads |
//   +---------------+-------+-------+---------------+--------+--------+----------------+--------+----------+
//                                                                       of each payload
//
// `size` is the size of the whole record. The checksum covers all octets after it, so a record that was written in part
// is recognized as invalid.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/buffer.h"
#include "base/bytes.h"
#include "nfs/v4/state/stable/reply_store.h"

namespace penstock::nfs::v4 {

class ReplyRecord {
 public:
  static constexpr size_t kHeader = 32;
  // No session of this server has more slots, or larger records: a store that has is damaged.
  static constexpr uint32_t kMostSlots = 64 << 10;
  static constexpr uint32_t kMostOctets = 16 << 20;

  // Returns the largest size of a record of a session with this room.
  static size_t MaxSize(const ReplyRoom& room) { return kHeader + size_t{8} * room.items + room.reply; }

  // Returns the record of a reply. Requires that no payload is in a file.
  static std::vector<std::byte> Serialize(const KeptReply& reply);
  // Returns the size of the record that begins with this header; nothing if the header is invalid.
  static std::optional<size_t> SizeOf(ConstBytes header);
  // Copies the octets to memory of `pool`. Returns nothing if the record is invalid.
  static std::optional<KeptReply> Parse(ConstBytes record, BufferPool& pool);
};

}  // namespace penstock::nfs::v4
