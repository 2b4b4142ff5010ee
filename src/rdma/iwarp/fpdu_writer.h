// FpduWriter makes FPDUs from ULPDUs (RFC 5044 §4) without copying payloads. The octets to send are a list of pieces:
// headers and trailers in memory of the writer, and payloads in memory of the caller.
#pragma once

#include <sys/uio.h>

#include <cstdint>
#include <optional>
#include <span>
#include <system_error>
#include <vector>

#include "base/buffer.h"
#include "base/data.h"
#include "rdma/iwarp/mpa.h"
#include "rdma/iwarp/stag_table.h"

namespace penstock::rdma::iwarp {

// A position in a Gather, which must outlive the cursor.
class GatherCursor {
 public:
  GatherCursor() = default;
  explicit GatherCursor(std::span<const Data> gather) : rest_(gather) {}
  // Takes the next octets: at most `size`, and only from one piece. Requires that octets are left.
  Data Take(size_t size);
  // True if the next octets are in a file. Requires that octets are left.
  bool in_file() { return Piece().is_file(); }
  // Like Take(), but returns a copy. Reads `ahead` octets of the piece at once, if that is more than `size`, and uses
  // them in later calls. A whole piece must be taken by this function. The error is that of reading the file.
  Result<Slice, std::error_code> TakeCopy(size_t size, size_t ahead, BufferPool& pool);

 private:
  // The piece with the next octets.
  const Data& Piece();

  std::span<const Data> rest_;
  size_t taken_ = 0;  // the number of taken octets of rest_[0]
  Slice copied_;      // octets of rest_[0] that were read ahead, from taken_ on
};

// The writer adds FPDUs to a batch. When the batch is sent, in one or more calls, it begins the next one. The memory of
// a payload must not change before it is sent (see sent()); HandleInvalidated() and Cut() end this requirement earlier.
class FpduWriter : public StagTable::User {
 public:
  FpduWriter(Framing framing, BufferPool& pool);

  bool batch_sent() const { return next_ == pieces_.size(); }
  // True if the batch has room for one more FPDU.
  bool has_room() const;
  // Adds an FPDU: a DDP header, then a copy of `inlined`, then `payload_size` octets of `payload`. `region` is the
  // region of this side that contains the payload, or 0. If the payload's file cannot be read, this adds no FPDU and
  // sets file_error(); the connection must end then. Requires has_room().
  void Add(ConstBytes ddp_header, ConstBytes inlined, GatherCursor* payload, size_t payload_size, Stag region = {});

  const std::optional<std::error_code>& file_error() const { return file_error_; }

  // The next octets to send: memory or a part of a file. Empty if the batch is sent.
  struct Part {
    std::span<const iovec> memory;
    const FileDescriptor* file = nullptr;
    uint64_t file_offset = 0;
    size_t size = 0;    // octets of the file
    bool more = false;  // the batch has another part
  };
  Part Next();
  // Handles the sending of the next `size` octets.
  void HandleSent(size_t size);
  // Replaces the next part, which is part of a file, by the octets of `buffer`. The buffer has at least the size of the
  // part.
  void ReplaceFile(BufferRef buffer);

  // The numbers of octets that were added and sent since the beginning.
  uint64_t added() const { return added_; }
  uint64_t sent() const { return sent_; }

  // Copies the octets of this region that are not sent yet. The peer had the right to them when their FPDU was begun,
  // and the owner may reuse the memory after the invalidation.
  void HandleInvalidated(Stag region) override;
  // Removes all FPDUs except one that is partly sent, and copies the rest of that one, so that the writer uses no
  // memory of others any more. Returns false if the rest is in a file: then that FPDU cannot be completed, and no other
  // can follow.
  bool Cut();
  // Removes all FPDUs.
  void Drop() { StartBatch(); }

 private:
  struct Piece {
    const std::byte* data = nullptr;
    size_t size = 0;
    const FileDescriptor* file = nullptr;
    uint64_t file_offset = 0;
    Stag region;
    bool begins_fpdu = false;
  };
  void AddAssembled(ConstBytes ddp_header, ConstBytes inlined, GatherCursor* payload, size_t payload_size);
  static Piece PieceInPlace(GatherCursor& payload, size_t most);
  // Returns nullopt and sets file_error_ if the file cannot be read.
  std::optional<Piece> CopiedPiece(GatherCursor& payload, size_t most);
  // Removes the pieces from `first` on.
  void TakeBack(size_t first);
  void StartBatch();
  // Memory for a header or trailer of this batch.
  std::byte* Scratch(size_t size);
  // A new buffer that lasts as long as this batch.
  Bytes Own(size_t size);
  Piece& Push(const Piece& piece);

  const Framing framing_;
  BufferPool& pool_;
  std::vector<Piece> pieces_;
  size_t next_ = 0;                 // the first of pieces_ that is not completely sent
  std::vector<std::byte> scratch_;  // headers and trailers of this batch; never reallocated
  size_t scratch_used_ = 0;
  std::vector<BufferRef> owned_;  // the buffers with copies of this batch
  std::vector<iovec> iov_;
  size_t batch_octets_ = 0;
  size_t copied_octets_ = 0;  // the part of batch_octets_ that was copied from files
  uint64_t added_ = 0;
  uint64_t sent_ = 0;
  std::optional<std::error_code> file_error_;
};

}  // namespace penstock::rdma::iwarp
