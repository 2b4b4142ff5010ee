// READ, WRITE, COMMIT.
#include <algorithm>

#include "nfs/arrival_limit.h"
#include "nfs/v3/convert.h"
#include "nfs/v3/procedures.h"

namespace penstock::nfs::v3 {

using namespace nfs3;  // NOLINT: the protocol's own names, RFC 1813

namespace {

// An object without data, such as a directory, is an invalid argument here (RFC 1813 §3.3.6, §3.3.7).
nfsstat3 DataStatus(fs::Error error) { return error == fs::Error::kIsDir ? NFS3ERR_INVAL : ToStatus(error); }

stable_how ToStability(fs::Stability stability) {
  switch (stability) {
    case fs::Stability::kUnstable:
      return UNSTABLE;
    case fs::Stability::kDataSync:
      return DATA_SYNC;
    case fs::Stability::kFileSync:
      return FILE_SYNC;
  }
  return UNSTABLE;
}

fs::Stability FromStability(stable_how how) {
  switch (how) {
    case UNSTABLE:
      return fs::Stability::kUnstable;
    case DATA_SYNC:
      return fs::Stability::kDataSync;
    case FILE_SYNC:
      return fs::Stability::kFileSync;
  }
  return fs::Stability::kFileSync;
}

}  // namespace

// RFC 1813 §3.3.6. The file system's data, in memory or as a range of a file, becomes the payload without a copy.
Task<READ3res> Read(Request request, const READ3args& arguments) {
  Target target(request, arguments.file);
  if (!target) co_return READ3res(target.status());
  if (target.may_be_claimed()) {
    const nfsstat3 status = co_await target.CheckClaims(FileClaims::Use::kRead);
    if (status != NFS3_OK) co_return READ3res(status, READ3resfail{});
  }

  // No file is larger than the maximum size, so a read beyond it is a read at the end.
  const uint64_t limit = target.file_system().GetProperties().max_file_size;
  const uint64_t offset = std::min(arguments.offset, limit);
  const auto count =
      static_cast<uint32_t>(std::min<uint64_t>({arguments.count, request.settings.max_read, limit - offset}));

  auto observed = co_await target.file_system().Read(target.context(), target.object(), offset, count);
  const post_op_attr attributes = target.PostAttributes(observed.attributes);
  if (!observed.result) {
    co_return READ3res(DataStatus(observed.result.error()), READ3resfail{.file_attributes = attributes});
  }
  const auto length = static_cast<uint32_t>(observed.result->data.size());
  request.call.notes.read_octets = length;
  co_return READ3res(NFS3_OK, READ3resok{.file_attributes = attributes,
                                         .count = length,
                                         .eof = observed.result->eof,
                                         .data = std::move(observed.result->data)});
}

// RFC 1813 §3.3.7. A write above the maximum becomes a short write.
Task<WRITE3res> Write(Request request, const WRITE3args& arguments) {
  Target target(request, arguments.file);
  if (!target) co_return WRITE3res(target.status());

  const uint64_t limit = target.file_system().GetProperties().max_file_size;
  const uint32_t count = std::min(arguments.count, request.settings.max_write);
  nfsstat3 refusal = NFS3_OK;
  if (target.read_only()) {
    refusal = NFS3ERR_ROFS;
  } else if (arguments.count != arguments.data.size()) {
    refusal = NFS3ERR_INVAL;  // `count` and the length of the data must agree
  } else if (arguments.offset > limit || count > limit - arguments.offset) {
    refusal = NFS3ERR_FBIG;
  } else if (target.may_be_claimed()) {
    refusal = co_await target.CheckClaims(FileClaims::Use::kWrite);
  }
  if (refusal != NFS3_OK) {
    const auto unchanged = co_await target.Unchanged();
    co_return WRITE3res(refusal, WRITE3resfail{.file_wcc = target.ConsistencyData(unchanged)});
  }

  const Data data = arguments.data.data().Sub(0, count);
  const ArrivalLimit limit_of_arrival(request.call.peer.loop, data);
  const auto changed = co_await target.file_system().Write(target.context(), target.object(), arguments.offset, data,
                                                           FromStability(arguments.stable));
  const wcc_data wcc = target.ConsistencyData(changed.object);
  if (!changed.result) co_return WRITE3res(DataStatus(changed.result.error()), WRITE3resfail{.file_wcc = wcc});
  request.call.notes.written_octets = changed.result->count;
  co_return WRITE3res(NFS3_OK, WRITE3resok{.file_wcc = wcc,
                                           .count = changed.result->count,
                                           .committed = ToStability(changed.result->committed),
                                           .verf = ToVerifier(changed.result->verifier)});
}

// RFC 1813 §3.3.21. The range is the minimum to commit; this commits the whole file.
Task<COMMIT3res> Commit(Request request, const COMMIT3args& arguments) {
  Target target(request, arguments.file);
  if (!target) co_return COMMIT3res(target.status());

  const auto changed = co_await target.file_system().Commit(target.context(), target.object());
  const wcc_data wcc = target.ConsistencyData(changed.object);
  if (!changed.result) co_return COMMIT3res(DataStatus(changed.result.error()), COMMIT3resfail{.file_wcc = wcc});
  co_return COMMIT3res(NFS3_OK, COMMIT3resok{.file_wcc = wcc, .verf = ToVerifier(*changed.result)});
}

}  // namespace penstock::nfs::v3
