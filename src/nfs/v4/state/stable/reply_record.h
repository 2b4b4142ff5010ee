// A reply as it is kept in a file:
//
//   0               8       12      16              24       28       32
//   +---------------+-------+-------+---------------+--------+--------+----------------+--------+----------+
//   |   checksum    | size  | seqid |    digest     | stream | items  | offset, size   | stream | payloads |
//   +---------------+-------+-------+---------------+--------+--------+----------------+--------+----------+
//                                                                       of each payload
//
// `size` is that of the whole, the checksum that of all that follows it: a record that was written in part is none.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "base/buffer.h"
#include "base/bytes.h"
#include "nfs/v4/state/stable/reply_store.h"

namespace penstock::nfs::v4 {

class ReplyRecord {
 public:
  static constexpr size_t kHeader = 32;

  // The most octets that a record of such a session takes.
  static size_t MaxSize(const ReplyRoom& room) { return kHeader + size_t{8} * room.items + room.reply; }

  // Requires that no payload is still in a file.
  static std::vector<std::byte> Serialize(const KeptReply& reply);
  // Of what begins with such a header: how long the record is. Nothing where there is none.
  static std::optional<size_t> SizeOf(ConstBytes header);
  // Its octets are copied to `pool`'s memory.
  static std::optional<KeptReply> Parse(ConstBytes record, BufferPool& pool);
};

}  // namespace penstock::nfs::v4
