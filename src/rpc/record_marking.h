// Record marking, RFC 5531 §11: RPC messages over a byte stream, as machines over bytes. The socket is rpc/tcp's.
//
//    0                   1                   2                   3
//    0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//   +-+-------------------------------------------------------------+
//   |L|                    length of the fragment                   |   then so many octets; L: last fragment of its record
//   +-+-------------------------------------------------------------+
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/buffer.h"
#include "xdr/message.h"

namespace penstock::rpc {

inline constexpr size_t kRecordHeaderSize = 4;
inline constexpr uint32_t kLastFragment = 0x8000'0000;

// Makes records of what arrives. Small records are views of a staging buffer, so that one receive call yields many; a large
// one gets a buffer of its own, into which its bytes are received directly.
//
//   for (;;) {
//     while (auto record = reader.TakeRecord()) Use(*record);
//     if (reader.failed()) break;
//     if (reader.awaited() > 0) {
//       reader.Admit();  // when there is so much memory
//     } else {
//       reader.Received(Receive(reader.Want()));
//     }
//   }
class RecordReader {
 public:
  static constexpr size_t kStagingSize = 64 << 10;
  // A record's announced length is believed, and memory found for it, once so much of it has arrived.
  static constexpr size_t kBelievedFrom = 16 << 10;

  // `pool` outlives the reader. Records of more than `max_record` octets are refused.
  RecordReader(BufferPool& pool, size_t max_record) : pool_(pool), max_record_(max_record) {}

  // Where the next octets belong; never empty. Requires that TakeRecord() has given all it had, and awaits no memory.
  Bytes Want();
  // The first `count` octets of Want() have been filled.
  void Received(size_t count);
  // The next whole record, if it is there. It may be empty.
  std::optional<Slice> TakeRecord();

  // Octets of memory without which TakeRecord() does not go on with a large record; 0 where it does not need them. Once for each
  // record, so that one which has begun never waits for others that have begun as well.
  size_t awaited() const { return awaited_; }
  void Admit() {
    admitted_ = true;
    awaited_ = 0;
  }

  // The peer announced more than max_record: nothing that follows can be understood.
  bool failed() const { return failed_; }
  // True where a record has begun and not ended.
  bool mid_record() const { return in_fragment_ || record_size_ > 0 || record_open_ || parsed_ < filled_; }

 private:
  bool StartFragment();
  size_t Staged() const { return filled_ - parsed_; }
  void RenewStaging();
  void MoveToRecord(size_t count);
  Slice FinishRecord();

  BufferPool& pool_;
  const size_t max_record_;

  // Octets [parsed_, filled_) of the staging buffer have arrived and not been looked at. Those before belong to the
  // records that were made of them.
  BufferRef staging_;
  size_t parsed_ = 0;
  size_t filled_ = 0;

  // The record being put together, where it is not a single fragment within the staging buffer.
  BufferRef record_;
  size_t record_size_ = 0;
  bool record_open_ = false;  // an earlier fragment of the record has ended

  bool in_fragment_ = false;
  bool last_fragment_ = false;
  size_t fragment_left_ = 0;

  size_t awaited_ = 0;
  bool admitted_ = false;  // the record being put together may be large

  bool direct_ = false;          // Want() pointed into record_
  bool last_was_large_ = false;  // so the next one may be: stage little of it
  bool failed_ = false;
};

// Queues messages and says what to send next: as many pieces of memory as one system call takes, or a range of a file.
class RecordWriter {
 public:
  struct FileRange {
    const Data* data = nullptr;  // of which `offset` octets have been sent
    size_t offset = 0;
    size_t length = 0;
    // More follows at once (MSG_MORE is worth while).
    bool more = false;
  };
  struct Pieces {
    size_t count = 0;
    size_t octets = 0;
    bool more = false;  // a file range follows
  };

  // Counts messages from 1 on.
  uint64_t Push(xdr::Message message);
  // How many messages have been sent whole.
  uint64_t sent() const { return sent_; }
  bool empty() const { return head_ == queue_.size(); }
  // Octets queued and not sent, record headers included.
  size_t queued_octets() const { return queued_octets_; }
  // Octets of memory that are in use until the queued messages are sent whole: however small a message is, the buffer that it
  // is in, and its place in the queue.
  size_t queued_memory() const { return queued_memory_; }

  // What comes next is a range of a file.
  std::optional<FileRange> NextFile() const;
  // The pieces of memory that come next, up to `to.size()` of them. They stay valid until Sent(), Push() or Clear().
  Pieces Gather(std::span<iovec> to) const;
  void Sent(size_t octets);
  // Forgets everything, half-sent messages included.
  void Clear();

 private:
  // The record as a row of parts: header, then stretches of the stream and items (each with its padding) in turn. Part
  // 3i+1 is the stream before item i, 3i+2 the item, 3i+3 its padding; the last is the rest of the stream.
  struct Queued {
    xdr::Message message;
    size_t size;  // header included
    size_t memory;
    std::byte header[kRecordHeaderSize];

    size_t parts() const { return 2 + 3 * message.items.size(); }
    size_t PartSize(size_t part) const;
    // Null for a part that is a range of a file.
    const Data* FilePart(size_t part) const;
    ConstBytes MemoryPart(size_t part) const;
  };

  std::vector<Queued> queue_;  // from head_ on
  size_t head_ = 0;
  size_t part_ = 0;         // of the head
  size_t part_offset_ = 0;  // octets of it already sent
  size_t queued_octets_ = 0;
  size_t queued_memory_ = 0;
  uint64_t pushed_ = 0;
  uint64_t sent_ = 0;
};

}  // namespace penstock::rpc
