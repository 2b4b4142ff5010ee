#include "copying/stream_copy.h"

#include <unistd.h>

#include <cerrno>
#include <memory>
#include <optional>
#include <utility>

#include "base/result.h"
#include "base/under_way.h"

namespace penstock::copying {
namespace {

// Blocks until `into` is full or the stream ends.
Result<size_t> ReadStream(int fd, Bytes into) {
  size_t done = 0;
  while (done < into.size()) {
    const ssize_t count = ::read(fd, into.data() + done, into.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return std::unexpected(LocalError(errno));
    if (count == 0) break;
    done += static_cast<size_t>(count);
  }
  return done;
}

struct Writes {
  File& file;
  UnderWay under_way{};
  std::optional<Error> error{};
};

Task<void> WritePiece(Writes& writes, BufferRef buffer, ConstBytes octets, uint64_t offset, Budget::Share) {
  for (size_t done = 0; done < octets.size() && !writes.error;) {
    const auto count = co_await writes.file.Write(offset + done, octets.subspan(done));
    if (!count && !writes.error) writes.error = count.error();
    done += count.value_or(0);
  }
  buffer.Reset();
  writes.under_way.End();
}

}  // namespace

Task<Result<void>> CopyStreamTo(Run& run, const Stream& stream, Directory& to, const std::string& name,
                                const NewFile& file, uint64_t& size) {
  PENSTOCK_CO_TRY(const auto target, co_await to.Create(name, file));
  Writes writes{*target};
  size = 0;
  for (bool ends = false; !ends && !writes.error;) {
    Budget::Share share = co_await run.memory.Take(kPiece);
    BufferRef buffer = run.loop.buffers().Allocate(kPiece);
    const Bytes room = buffer->bytes().first(kPiece);
    const auto read =
        co_await Offload(run.loop, *stream.workers, [fd = stream.fd, room] { return ReadStream(fd, room); });
    if (!read) writes.error = read.error();
    if (run.stopping) writes.error = Error{"cancelled", std::nullopt, ECANCELED};
    if (writes.error) break;
    co_await run.rate.Wait(*read);
    writes.under_way.Begin();
    Spawn(WritePiece(writes, std::move(buffer), room.first(*read), size, std::move(share)));
    size += *read;
    run.totals.octets_found += *read;
    run.Count(*read);
    ends = *read < kPiece;
  }
  co_await writes.under_way.Ended();
  Result<void> result;
  if (writes.error) {
    result = std::unexpected(*std::move(writes.error));
  } else {
    auto synced = co_await target->Sync();
    if (!synced) result = std::unexpected(std::move(synced).error());
    // What was read from a pipe cannot be read again.
    if (synced && !*synced) {
      result = std::unexpected(Error{"the server has restarted and lost uncommitted data", std::nullopt});
    }
  }
  Result<void> closed = co_await target->Close();
  if (result && !closed) result = std::move(closed);
  co_return result;
}

}  // namespace penstock::copying
