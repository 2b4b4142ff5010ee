// READ, WRITE, COMMIT.
#include <algorithm>
#include <limits>

#include "nfs/arrival_limit.h"
#include "nfs/v4/attributes/convert.h"
#include "nfs/v4/operations/io_state.h"
#include "nfs/v4/operations/operations.h"

namespace penstock::nfs::v4 {

using namespace nfs4;  // NOLINT: the protocol's own names, RFC 8881

namespace {

// The status of READ, WRITE or COMMIT on an object without data (RFC 8881 §15.1.2, RFC 7530 §16.23.4).
nfsstat4 DataStatus(const Compound& compound, fs::Error error, const std::optional<fs::Attributes>& attributes) {
  if (error != fs::Error::kInvalid || !attributes || attributes->type == fs::FileType::kRegular) return ToStatus(error);
  const ErrorWords& errors = compound.dialect.errors();
  return attributes->type == fs::FileType::kSymlink ? errors.symlink_has_no_data : errors.special_has_no_data;
}

// Returns true if the data must be copied to memory. Later operations of the COMPOUND may change the file (RFC 8881
// §16.2.3), so the data must not stay in the file until the reply is sent. A kept reply must hold its data as well.
bool MustBeLoaded(const Compound& compound) { return compound.following || compound.keeps_reply; }

}  // namespace

// RFC 8881 §18.22. If no operation follows, the file system's data, in memory or as a range of a file, becomes the
// payload without a copy.
Task<READ4res> Read(Compound& compound, const READ4args& arguments) {
  std::optional<Object> on_behalf;
  const nfsstat4 status = co_await CheckRead(compound, arguments.stateid, on_behalf);
  if (status != NFS4_OK) co_return READ4res(status);

  // No file is larger than the maximum size, so a read beyond it is a read at the end.
  const Object& file = on_behalf ? *on_behalf : *compound.current;
  const uint64_t limit = file.file_system().GetProperties().max_file_size;
  const uint64_t offset = std::min(arguments.offset, limit);
  const auto count =
      static_cast<uint32_t>(std::min<uint64_t>({arguments.count, compound.services.settings.max_read, limit - offset}));
  auto observed = co_await file.file_system().Read(file.context(), file.object(), offset, count);
  if (!observed.result) {
    co_return READ4res(DataStatus(compound, observed.result.error(), observed.attributes));
  }
  Data data = std::move(observed.result->data);
  if (MustBeLoaded(compound)) {
    auto loaded = data.Load(compound.buffers());
    if (!loaded) co_return READ4res(NFS4ERR_IO);
    data = *std::move(loaded);
  }
  if (data.size() < arguments.count && !observed.result->eof) compound.incomplete = true;
  compound.call.notes.read_octets += data.size();
  co_return READ4res(NFS4_OK, READ4resok{.eof = observed.result->eof, .data = std::move(data)});
}

// RFC 8881 §18.32. A write above the maximum becomes a short write.
Task<WRITE4res> Write(Compound& compound, const WRITE4args& arguments) {
  const Object& file = *compound.current;
  if (file.read_only()) co_return WRITE4res(NFS4ERR_ROFS);
  const uint64_t limit = file.file_system().GetProperties().max_file_size;
  const size_t count = std::min<size_t>(arguments.data.size(), compound.services.settings.max_write);
  if (arguments.offset > limit || count > limit - arguments.offset) co_return WRITE4res(NFS4ERR_FBIG);
  if (const nfsstat4 status = co_await CheckWrite(compound, arguments.stateid); status != NFS4_OK)
    co_return WRITE4res(status);

  const Data data = arguments.data.data().Sub(0, count);
  const ArrivalLimit limit_of_arrival(compound.call.peer.loop, data);
  const auto changed = co_await file.file_system().Write(file.context(), file.object(), arguments.offset, data,
                                                         FromStability(arguments.stable));
  if (!changed.result) co_return WRITE4res(DataStatus(compound, changed.result.error(), changed.object.after));
  if (changed.result->count < arguments.data.size()) compound.incomplete = true;
  compound.call.notes.written_octets += changed.result->count;
  co_return WRITE4res(NFS4_OK, WRITE4resok{.count = changed.result->count,
                                           .committed = ToStability(changed.result->committed),
                                           .writeverf = ToVerifier(changed.result->verifier)});
}

// RFC 8881 §18.3. The range is the minimum to commit; this commits the whole file.
Task<COMMIT4res> Commit(Compound& compound, const COMMIT4args& arguments) {
  if (arguments.offset > std::numeric_limits<uint64_t>::max() - arguments.count) co_return COMMIT4res(NFS4ERR_INVAL);
  const Object& file = *compound.current;
  const auto changed = co_await file.file_system().Commit(file.context(), file.object());
  if (!changed.result) co_return COMMIT4res(DataStatus(compound, changed.result.error(), changed.object.after));
  co_return COMMIT4res(NFS4_OK, COMMIT4resok{.writeverf = ToVerifier(*changed.result)});
}

}  // namespace penstock::nfs::v4
