// From ULPDUs to the octets of FPDUs (RFC 5044 §4), without copying payloads: what is to be sent is a list of pieces, of
// headers and trailers made here and of payloads where they are.
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

// Goes through a Gather, piece by piece. The Gather must outlive it.
class GatherCursor {
 public:
  GatherCursor() = default;
  explicit GatherCursor(std::span<const Data> gather) : rest_(gather) {}
  // The next octets, as many as are in one piece but at most `size`. Requires that there are some.
  Data Take(size_t size);
  // Whether the next octets are in a file. Requires that there are some.
  bool in_file() { return Piece().is_file(); }
  // As Take(), but a copy; where none is left of the last one, as many as `ahead` octets are read at once. Requires that all
  // of a piece is taken in this way. The error is that of reading the file.
  Result<Slice, std::error_code> TakeCopy(size_t size, size_t ahead, BufferPool& pool);

 private:
  // The one with the next octets.
  const Data& Piece();

  std::span<const Data> rest_;
  size_t taken_ = 0;  // of rest_[0]
  Slice copied_;      // of rest_[0], from taken_ on
};

// FPDUs are added to a batch; the batch is sent, in as many calls as it takes; then the next one is begun. The memory
// of payloads must stay until they are sent (see sent()), but for HandleInvalidated() and Cut().
class FpduWriter : public StagTable::User {
 public:
  FpduWriter(Framing framing, BufferPool& pool);

  bool batch_sent() const { return next_ == pieces_.size(); }
  // Whether the batch takes one more FPDU.
  bool has_room() const;
  // Adds an FPDU: a DDP header, octets to follow it (`inlined`, copied), then `payload_size` octets of `payload`. The
  // payload is memory of our region `region`, or of none (0). Where the payload's file cannot be read, nothing is added and
  // file_error() says why: then the connection has to end. Requires has_room().
  void Add(ConstBytes ddp_header, ConstBytes inlined, GatherCursor* payload, size_t payload_size, Stag region = {});

  const std::optional<std::error_code>& file_error() const { return file_error_; }

  // What is to be sent next: memory, or part of a file; nothing where the batch is sent.
  struct Part {
    std::span<const iovec> memory;
    const FileDescriptor* file = nullptr;
    uint64_t file_offset = 0;
    size_t size = 0;    // of the file part
    bool more = false;  // another part follows at once
  };
  Part Next();
  void HandleSent(size_t size);
  // The file of the part that is next cannot be sent from where it is: these octets instead. Requires as many as its size.
  void ReplaceFile(BufferRef buffer);

  // Octets added and octets sent since the beginning.
  uint64_t added() const { return added_; }
  uint64_t sent() const { return sent_; }

  // What is still to be sent from this region is copied: the peer was entitled to it when its FPDU was begun, and the
  // memory is about to be somebody else's.
  void HandleInvalidated(Stag region) override;
  // Forgets all FPDUs but the one that is half sent, if there is one, of which it keeps a copy: no memory of others is
  // needed after this. False where that FPDU cannot be completed, because it comes out of a file; then nothing can follow.
  bool Cut();
  // Forgets everything.
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
  // Nothing where the file cannot be read.
  std::optional<Piece> CopiedPiece(GatherCursor& payload, size_t most);
  // Takes the pieces from `first` on away again.
  void TakeBack(size_t first);
  void StartBatch();
  std::byte* Scratch(size_t size);
  Bytes Own(size_t size);
  Piece& Push(const Piece& piece);

  const Framing framing_;
  BufferPool& pool_;
  std::vector<Piece> pieces_;
  size_t next_ = 0;                 // of pieces_; the ones before it are sent, and of it the part that is gone already
  std::vector<std::byte> scratch_;  // headers and trailers of this batch; never reallocated
  size_t scratch_used_ = 0;
  std::vector<BufferRef> owned_;  // what this batch has copies in
  std::vector<iovec> iov_;
  size_t batch_octets_ = 0;
  size_t copied_octets_ = 0;  // of them, out of files
  uint64_t added_ = 0;
  uint64_t sent_ = 0;
  std::optional<std::error_code> file_error_;
};

}  // namespace penstock::rdma::iwarp
