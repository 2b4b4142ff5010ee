// READ_PLUS (RFC 7862 §15.10). Its data is inline, because it is not DDP-eligible (RFC 8267).
#include <algorithm>

#include "nfs/v4/operations/file_status.h"
#include "nfs/v4/operations/io_state.h"
#include "nfs/v4/operations/operations.h"
#include "xdr/encode.h"

namespace penstock::nfs::v4 {

using namespace nfs4;  // NOLINT: the protocol's own names, RFC 7862

namespace {

constexpr size_t kMaxSegments = 64;

// The octets of the result (status, eof, number of segments), and of a segment with data and of one without.
constexpr size_t kHeadSize = 4 + 4 + 4;
constexpr size_t kHoleSize = 4 + 8 + 8;
constexpr size_t kDataHeadSize = 4 + 8 + 4;

bool IsZeros(ConstBytes bytes) {
  return std::ranges::all_of(bytes, [](std::byte octet) { return octet == std::byte{0}; });
}

// Encodes segments one after the other while there is room.
class Segments {
 public:
  Segments(xdr::Encoder& to, size_t room) : to_(to), room_(room) {}

  // The maximum size of the next data segment. Zero means no room for any segment, not even for a hole.
  size_t room_for_data() const {
    if (count_ == kMaxSegments || room_ < std::max(kHoleSize, kDataHeadSize + 4)) return 0;
    return (room_ - kDataHeadSize) & ~size_t{3};
  }
  void AddHole(uint64_t offset, uint64_t length) {
    xdr::Encode(to_, NFS4_CONTENT_HOLE);
    xdr::Encode(to_, data_info4{.di_offset = offset, .di_length = length});
    Count(kHoleSize);
  }
  // Adds data; zeros become a hole. May block if the data is still in a file, although it was just loaded into memory.
  // Returns false if the data cannot be read, and leaves an incomplete segment.
  bool AddData(uint64_t offset, const Data& data) {
    const xdr::Encoder::Mark mark = to_.mark();
    xdr::Encode(to_, NFS4_CONTENT_DATA);
    to_.U64(offset);
    to_.Length(data.size());
    const size_t padded = RoundUp(data.size(), 4);
    const Bytes octets(to_.Extend(padded), padded);
    if (!data.CopyTo(octets.first(data.size()))) return false;
    std::ranges::fill(octets.subspan(data.size()), std::byte{0});
    if (IsZeros(octets)) {
      to_.Rewind(mark);
      AddHole(offset, data.size());
    } else {
      data_octets_ += data.size();
      Count(kDataHeadSize + padded);
    }
    return true;
  }
  uint32_t count() const { return count_; }
  // The octets of the data segments.
  uint64_t data_octets() const { return data_octets_; }

 private:
  void Count(size_t octets) {
    room_ -= octets;
    ++count_;
  }

  xdr::Encoder& to_;
  size_t room_;
  uint32_t count_ = 0;
  uint64_t data_octets_ = 0;
};

struct Extent {
  uint64_t begin = 0;
  uint64_t end = 0;
};

// The result of reading the file: an error, or the offset that was reached.
struct Told {
  nfsstat4 status = NFS4_OK;
  uint64_t end = 0;
  uint64_t size = 0;  // the size of the file
};

// RFC 7862 §15.10.3: directories and symbolic links have their own errors here.
nfsstat4 ReadStatus(fs::Error error, const std::optional<fs::Attributes>& attributes) {
  if (error == fs::Error::kIsDir) return NFS4ERR_ISDIR;
  const nfsstat4 status = FileStatus(error, attributes);
  return status == NFS4ERR_WRONG_TYPE && attributes->type == fs::FileType::kSymlink ? NFS4ERR_SYMLINK : status;
}

// Adds data up to the next hole, but no more than `room` octets. The file may have been truncated meanwhile.
Task<fs::Observed<fs::ReadReply>> ReadData(const Object& file, const Extent& wanted, size_t room) {
  fs::FileSystem& file_system = file.file_system();
  const auto hole = co_await file_system.Seek(file.context(), file.object(), wanted.begin, fs::SeekWhat::kHole);
  const uint64_t end = hole.result ? std::min(hole.result->offset, wanted.end) : wanted.end;
  const auto count = static_cast<uint32_t>(std::min<uint64_t>(end - wanted.begin, room));
  co_return co_await file_system.Read(file.context(), file.object(), wanted.begin, count);
}

// Reports a hole only within the requested range: the reader's locks are unknown here, and a hole must not extend
// beyond them.
Task<Told> Tell(const Object& file, Extent wanted, Segments& segments) {
  for (;;) {
    fs::FileSystem& file_system = file.file_system();
    const auto data = co_await file_system.Seek(file.context(), file.object(), wanted.begin, fs::SeekWhat::kData);
    if (!data.result && data.result.error() == fs::Error::kNxIo) {
      co_return Told{.end = wanted.begin, .size = data.attributes->size};
    }
    if (!data.result) co_return Told{.status = ReadStatus(data.result.error(), data.attributes)};
    const uint64_t size = data.attributes->size;
    const uint64_t end = std::min(wanted.end, size);
    if (wanted.begin >= end || segments.room_for_data() == 0) co_return Told{.end = wanted.begin, .size = size};
    if (const uint64_t data_at = std::min(data.result->offset, end); data_at > wanted.begin) {
      segments.AddHole(wanted.begin, data_at - wanted.begin);
      wanted.begin = data_at;
      continue;
    }
    const auto read = co_await ReadData(file, {wanted.begin, end}, segments.room_for_data());
    if (!read.result) co_return Told{.status = ReadStatus(read.result.error(), read.attributes)};
    if (read.result->data.empty()) co_return Told{.end = wanted.begin, .size = read.attributes->size};
    if (!segments.AddData(wanted.begin, read.result->data)) co_return Told{.status = NFS4ERR_IO};
    wanted.begin += read.result->data.size();
  }
}

}  // namespace

Task<nfsstat4> ReadPlus(Compound& compound, const READ_PLUS4args& arguments, xdr::Encoder& results) {
  std::optional<Object> on_behalf;
  nfsstat4 status = co_await CheckRead(compound, arguments.rpa_stateid, on_behalf);
  const xdr::Encoder::Mark mark = results.mark();
  xdr::Encode(results, status);
  if (status != NFS4_OK) co_return status;

  const Object& file = on_behalf ? *on_behalf : *compound.current;
  const uint64_t limit = file.file_system().GetProperties().max_file_size;
  const uint64_t offset = std::min(arguments.rpa_offset, limit);
  const uint64_t asked = std::min<uint64_t>(arguments.rpa_count, limit - offset);
  const Extent wanted{offset, offset + std::min<uint64_t>(asked, compound.services.settings.max_read)};
  const size_t eof_at = results.reduced_size();
  results.Bool(false);
  results.Length(0);
  Segments segments(results, compound.room - std::min(compound.room, kHeadSize));
  const Told told = co_await Tell(file, wanted, segments);
  if (told.status != NFS4_OK) {
    results.Rewind(mark);
    xdr::Encode(results, told.status);
    co_return told.status;
  }
  results.PatchU32(eof_at, told.end >= told.size || offset >= told.size ? 1 : 0);
  results.PatchU32(eof_at + 4, segments.count());
  compound.call.notes.read_octets += segments.data_octets();
  co_return NFS4_OK;
}

}  // namespace penstock::nfs::v4
