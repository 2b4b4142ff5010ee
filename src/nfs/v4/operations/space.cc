// ALLOCATE, DEALLOCATE, SEEK, WRITE_SAME, IO_ADVISE.
#include <algorithm>
#include <limits>

#include "nfs/v4/operations/file_status.h"
#include "nfs/v4/operations/io_state.h"
#include "nfs/v4/operations/operations.h"

namespace penstock::nfs::v4 {

using namespace nfs4;  // NOLINT: the protocol's own names, RFC 7862

namespace {

// The maximum size of one WRITE_SAME. Its result reports the written size, like WRITE's.
constexpr uint64_t kLargestFill = 64 << 20;
// The size of one step.
constexpr uint64_t kFillStep = 1 << 20;

// Application data blocks (RFC 7862 §8.1.1). Each block has the pattern, its number, and zeros elsewhere.
class DataBlocks {
 public:
  explicit DataBlocks(const app_data_block4& wanted) : wanted_(wanted) {}

  bool IsValid() const {
    const uint64_t size = wanted_.adb_block_size;
    const auto fits = [&](uint64_t offset, uint64_t length) {
      return offset == NFS4_UINT64_MAX || (offset <= size && length <= size - offset);
    };
    return size != 0 && fits(wanted_.adb_reloff_blocknum, kNumberSize) &&
           fits(wanted_.adb_reloff_pattern, wanted_.adb_pattern.size());
  }
  // The octets of all blocks, limited to the whole blocks that fit into one request.
  uint64_t size() const { return block_size() * std::min(wanted_.adb_block_count, kLargestFill / block_size()); }
  uint64_t block_size() const { return wanted_.adb_block_size; }

  // Fills `to`, which has zeros and begins with the block of that index.
  void Fill(Bytes to, uint64_t index) const {
    for (; !to.empty(); to = to.subspan(block_size()), ++index) {
      if (wanted_.adb_reloff_pattern != NFS4_UINT64_MAX) {
        CopyBytes(to.subspan(wanted_.adb_reloff_pattern), wanted_.adb_pattern.bytes());
      }
      if (wanted_.adb_reloff_blocknum != NFS4_UINT64_MAX) {
        StoreBig(to.data() + wanted_.adb_reloff_blocknum, static_cast<count4>(wanted_.adb_block_num + index));
      }
    }
  }

 private:
  static constexpr uint64_t kNumberSize = sizeof(count4);
  const app_data_block4& wanted_;
};

// Writes the blocks in order (RFC 7862 §15.12.3.2). If an error follows the first blocks, the next request reports it.
Task<WRITE_SAME4res> WriteBlocks(Compound& compound, const WRITE_SAME4args& arguments, const DataBlocks& blocks) {
  const Object& file = *compound.current;
  const fs::Stability stability = FromStability(arguments.wsa_stable);
  const uint64_t step = std::max<uint64_t>(kFillStep / blocks.block_size(), 1) * blocks.block_size();
  write_response4 written{.wr_callback_id = {}, .wr_count = 0, .wr_committed = FILE_SYNC4, .wr_writeverf = {}};
  while (written.wr_count < blocks.size()) {
    const auto size = static_cast<size_t>(std::min(step, blocks.size() - written.wr_count));
    const BufferRef buffer = compound.buffers().Allocate(size);
    const Bytes octets = buffer->bytes().first(size);
    std::ranges::fill(octets, std::byte{0});
    blocks.Fill(octets, written.wr_count / blocks.block_size());
    const auto changed = co_await file.file_system().Write(file.context(), file.object(),
                                                           arguments.wsa_adb.adb_offset + written.wr_count,
                                                           Data(Slice(buffer, octets)), stability);
    if (!changed.result && written.wr_count == 0) co_return WRITE_SAME4res(FileStatus(changed));
    if (!changed.result) break;
    // Keep the first verifier: if a later one differs, the data before it may be lost.
    if (written.wr_count == 0) written.wr_writeverf = ToVerifier(changed.result->verifier);
    written.wr_committed = std::min(written.wr_committed, ToStability(changed.result->committed));
    written.wr_count += changed.result->count;
    if (changed.result->count < size) break;
  }
  co_return WRITE_SAME4res(NFS4_OK, written);
}

bool Has(const bitmap4& hints, IO_ADVISE_type4 hint) {
  const auto bit = static_cast<uint32_t>(hint);
  return hints.size() > bit / 32 && (hints[bit / 32] >> bit % 32 & 1) != 0;
}

bitmap4 Only(IO_ADVISE_type4 hint) { return {uint32_t{1} << static_cast<uint32_t>(hint)}; }

// Returns the advice for the hint, or nullopt for a hint that is ignored.
struct Followed {
  IO_ADVISE_type4 hint = IO_ADVISE4_NORMAL;
  std::optional<fs::Advice> advice{};
};

Followed Follow(const bitmap4& hints) {
  if (Has(hints, IO_ADVISE4_WILLNEED)) return {IO_ADVISE4_WILLNEED, fs::Advice::kWillNeed};
  if (Has(hints, IO_ADVISE4_WILLNEED_OPPORTUNISTIC)) {
    return {IO_ADVISE4_WILLNEED_OPPORTUNISTIC, fs::Advice::kWillNeed};
  }
  if (Has(hints, IO_ADVISE4_DONTNEED)) return {IO_ADVISE4_DONTNEED, fs::Advice::kDontNeed};
  return {};
}

}  // namespace

// RFC 7862 §15.1
Task<ALLOCATE4res> Allocate(Compound& compound, const ALLOCATE4args& arguments) {
  const Object& file = *compound.current;
  if (file.read_only()) co_return ALLOCATE4res{NFS4ERR_ROFS};
  const nfsstat4 status = co_await CheckWrite(compound, arguments.aa_stateid);
  if (status != NFS4_OK) co_return ALLOCATE4res{status};
  const auto changed =
      co_await file.file_system().Allocate(file.context(), file.object(), arguments.aa_offset, arguments.aa_length);
  co_return ALLOCATE4res{FileStatus(changed)};
}

// RFC 7862 §15.4
Task<DEALLOCATE4res> Deallocate(Compound& compound, const DEALLOCATE4args& arguments) {
  const Object& file = *compound.current;
  if (file.read_only()) co_return DEALLOCATE4res{NFS4ERR_ROFS};
  const nfsstat4 status = co_await CheckWrite(compound, arguments.da_stateid);
  if (status != NFS4_OK) co_return DEALLOCATE4res{status};
  const auto changed =
      co_await file.file_system().Deallocate(file.context(), file.object(), arguments.da_offset, arguments.da_length);
  co_return DEALLOCATE4res{FileStatus(changed)};
}

// RFC 7862 §15.11. The hole at the end of the file is reported as the end. An offset equal to the size is beyond the
// end, as in lseek(2).
Task<SEEK4res> Seek(Compound& compound, const SEEK4args& arguments) {
  const nfsstat4 status = co_await CheckRead(compound, arguments.sa_stateid);
  if (status != NFS4_OK) co_return SEEK4res(status);
  const Object& file = *compound.current;
  const auto what = arguments.sa_what == NFS4_CONTENT_DATA ? fs::SeekWhat::kData : fs::SeekWhat::kHole;
  const auto sought = co_await file.file_system().Seek(file.context(), file.object(), arguments.sa_offset, what);
  if (!sought.result) co_return SEEK4res(FileStatus(sought));
  const uint64_t end = sought.attributes->size;
  if (arguments.sa_offset >= end) co_return SEEK4res(NFS4ERR_NXIO);
  co_return SEEK4res(NFS4_OK, seek_res4{.sr_eof = sought.result->offset >= end, .sr_offset = sought.result->offset});
}

// RFC 7862 §15.12
Task<WRITE_SAME4res> WriteSame(Compound& compound, const WRITE_SAME4args& arguments) {
  const Object& file = *compound.current;
  if (file.read_only()) co_return WRITE_SAME4res(NFS4ERR_ROFS);
  const nfsstat4 status = co_await CheckWrite(compound, arguments.wsa_stateid);
  if (status != NFS4_OK) co_return WRITE_SAME4res(status);
  const DataBlocks blocks(arguments.wsa_adb);
  if (!blocks.IsValid()) co_return WRITE_SAME4res(NFS4ERR_INVAL);
  // A block that is larger than the maximum of one request.
  if (blocks.block_size() > kLargestFill) co_return WRITE_SAME4res(NFS4ERR_INVAL);
  if (arguments.wsa_adb.adb_offset > std::numeric_limits<uint64_t>::max() - blocks.size()) {
    co_return WRITE_SAME4res(NFS4ERR_FBIG);
  }
  auto written = co_await WriteBlocks(compound, arguments, blocks);
  if (written.is_resok4()) compound.call.notes.written_octets += written.resok4().wr_count;
  co_return written;
}

// RFC 7862 §15.5. Without read permission the advice has no effect; that is not an error.
Task<IO_ADVISE4res> Advise(Compound& compound, const IO_ADVISE4args& arguments) {
  Followed followed = Follow(arguments.iaa_hints);
  const nfsstat4 status = co_await CheckRead(compound, arguments.iaa_stateid);
  if (status == NFS4ERR_OPENMODE) followed = {};
  if (status != NFS4_OK && status != NFS4ERR_OPENMODE) co_return IO_ADVISE4res(status);
  if (followed.advice) {
    const Object& file = *compound.current;
    const auto advised = co_await file.file_system().Advise(file.context(), file.object(), arguments.iaa_offset,
                                                            arguments.iaa_count, *followed.advice);
    if (!advised) co_return IO_ADVISE4res(ToStatus(advised.error()));
  }
  co_return IO_ADVISE4res(NFS4_OK, IO_ADVISE4resok{.ior_hints = Only(followed.hint)});
}

}  // namespace penstock::nfs::v4
