// Record marking, RFC 5531 §11: RPC messages over a byte stream. These machines do no I/O; rpc/tcp has the socket.
//
//    0                   1                   2                   3
//    0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//   +-+-------------------------------------------------------------+
//   |L|                    length of the fragment                   |   then so many octets; L: last fragment of its
//   record
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

// Assembles records from received octets. Small records are views of a staging buffer, so that one receive call yields
// many. A large record gets its own buffer, which receives its octets directly.
//
//   for (;;) {
//     while (auto record = reader.TakeRecord()) Use(*record);
//     if (reader.failed()) break;
//     if (reader.awaited() > 0) {
//       reader.Admit();  // when the memory is available
//     } else {
//       reader.Received(Receive(reader.Want()));
//     }
//   }
class RecordReader {
 public:
  static constexpr size_t kStagingSize = 64 << 10;
  // The reader allocates memory for the announced length of a record once so many octets of it have arrived.
  static constexpr size_t kBelievedFrom = 16 << 10;

  // `pool` must outlive the reader. The reader fails at a record of more than `max_record` octets.
  RecordReader(BufferPool& pool, size_t max_record) : pool_(pool), max_record_(max_record) {}

  // The place for the next octets; never empty. Requires that TakeRecord() has returned all records, and that awaited()
  // is 0.
  Bytes Want();
  // Reports that the first `count` octets of Want() were received.
  void Received(size_t count);
  // Returns the next complete record, which may be empty, or nullopt.
  std::optional<Slice> TakeRecord();

  // The octets of memory that TakeRecord() needs to continue with a large record, or 0. It asks once for each record,
  // so that a record that was admitted never waits for others.
  size_t awaited() const { return awaited_; }
  void Admit() {
    admitted_ = true;
    awaited_ = 0;
  }

  // True if the peer announced more than max_record. The rest of the stream is then unusable.
  bool failed() const { return failed_; }
  // True if a record has begun and not ended.
  bool mid_record() const { return in_record() || parsed_ < filled_; }
  // True if a fragment has begun whose record has not ended.
  bool in_record() const { return in_fragment_ || record_size_ > 0 || record_open_; }
  // The octets that have arrived and of which nothing is parsed. Valid until the next call of a function of the reader.
  ConstBytes unparsed() const {
    return Staged() > 0 ? ConstBytes(staging_->bytes().subspan(parsed_, Staged())) : ConstBytes();
  }

 private:
  bool StartFragment();
  size_t Staged() const { return filled_ - parsed_; }
  void RenewStaging();
  void MoveToRecord(size_t count);
  Slice FinishRecord();

  BufferPool& pool_;
  const size_t max_record_;

  // Octets [parsed_, filled_) of the staging buffer have arrived and are not parsed. The octets before belong to
  // finished records.
  BufferRef staging_;
  size_t parsed_ = 0;
  size_t filled_ = 0;

  // The record under assembly, unless it is a single fragment within the staging buffer.
  BufferRef record_;
  size_t record_size_ = 0;
  bool record_open_ = false;  // an earlier fragment of the record has ended

  bool in_fragment_ = false;
  bool last_fragment_ = false;
  size_t fragment_left_ = 0;

  size_t awaited_ = 0;
  bool admitted_ = false;  // the record under assembly may be large

  bool direct_ = false;          // Want() pointed into record_
  bool last_was_large_ = false;  // so the next one may be large: stage little of it
  bool failed_ = false;
};

// Queues messages and returns the next octets to send: as many pieces of memory as one system call takes, or a range of
// a file.
class RecordWriter {
 public:
  struct FileRange {
    const Data* data = nullptr;  // `offset` octets of it have been sent
    size_t offset = 0;
    size_t length = 0;
    // More octets follow at once, so use MSG_MORE.
    bool more = false;
  };
  struct Pieces {
    size_t count = 0;
    size_t octets = 0;
    bool more = false;  // a file range follows
  };

  // Returns the number of the message, counted from 1.
  uint64_t Push(xdr::Message message);
  // The number of completely sent messages.
  uint64_t sent() const { return sent_; }
  bool empty() const { return head_ == queue_.size(); }
  // The octets that are queued and not sent, record headers included.
  size_t queued_octets() const { return queued_octets_; }
  // The memory, in octets, that the queued messages occupy: for each message its whole buffer and its place in the
  // queue.
  size_t queued_memory() const { return queued_memory_; }

  // Returns the next range of a file, or nullopt if memory comes next.
  std::optional<FileRange> NextFile() const;
  // Returns the next pieces of memory, up to `to.size()` of them with up to `most_octets`. They stay valid until
  // Sent(), Push() or Clear().
  Pieces Gather(std::span<iovec> to, size_t most_octets = SIZE_MAX) const;
  void Sent(size_t octets);
  // Removes all messages, also a partly sent one.
  void Clear();

 private:
  // A record is a sequence of parts: the header, then the stream and the items (each with its padding) in turn. Part
  // 3i+1 is the stream before item i, part 3i+2 the item, part 3i+3 its padding; the last part is the rest of the
  // stream.
  struct Queued {
    xdr::Message message;
    size_t size;  // header included
    size_t memory;
    std::byte header[kRecordHeaderSize];

    size_t parts() const { return 2 + 3 * message.items.size(); }
    size_t PartSize(size_t part) const;
    // Returns null unless the part is a range of a file.
    const Data* FilePart(size_t part) const;
    ConstBytes MemoryPart(size_t part) const;
  };

  std::vector<Queued> queue_;  // the messages from index head_ on are not sent
  size_t head_ = 0;
  size_t part_ = 0;         // the current part of the head
  size_t part_offset_ = 0;  // the sent octets of that part
  size_t queued_octets_ = 0;
  size_t queued_memory_ = 0;
  uint64_t pushed_ = 0;
  uint64_t sent_ = 0;
};

}  // namespace penstock::rpc
