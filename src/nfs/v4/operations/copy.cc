// COPY, within the server and from another one, CLONE, OFFLOAD_STATUS and OFFLOAD_CANCEL.
#include "nfs/v4/operations/copy.h"

#include <algorithm>
#include <functional>
#include <optional>

#include "base/signal.h"
#include "nfs/v4/attributes/convert.h"
#include "nfs/v4/callback/callbacks.h"
#include "nfs/v4/operations/copy_sources.h"
#include "nfs/v4/operations/file_status.h"
#include "nfs/v4/operations/io_state.h"
#include "nfs/v4/operations/operations.h"

namespace penstock::nfs::v4 {

using namespace nfs4;  // NOLINT: the protocol's own names, RFC 7862

namespace {

// The number of octets that are copied before the reply to COPY. A longer copy continues afterwards if the client can
// be notified. Otherwise it is a short copy, and the client continues from there.
constexpr uint64_t kSynchronousAtMost = 32 << 20;
// No further step begins before the reply to COPY after this time, so that a slow disk or server does not make the
// client believe that its call is lost.
constexpr Duration kSynchronousFor = std::chrono::seconds(10);
// How long OFFLOAD_CANCEL waits for the part that is being written, before the client must ask again.
constexpr Duration kCancelWithin = std::chrono::seconds(5);
// The size of a step of a copy through memory, between two file systems or two servers.
constexpr uint32_t kThroughMemory = 1 << 20;

struct Range {
  uint64_t from = 0;
  uint64_t to = 0;
  uint64_t count = 0;

  Range After(uint64_t done) const { return {from + done, to + done, count - done}; }
};

// The file that a copy reads: either one of this server or one of another server.
struct Origin {
  std::optional<Object> file{};
  std::unique_ptr<CopySource> remote{};
  fs::Pinned pinned{};  // the file, for a copy that outlives its call
};

using Step = fs::Result<fs::CopyReply>;

Task<fs::Result<Data>> ReadSome(const Origin& from, BufferPool& buffers, uint64_t offset, uint32_t count) {
  if (from.file) {
    const Object& file = *from.file;
    auto read = co_await file.file_system().Read(file.context(), file.object(), offset, count);
    if (!read.result) co_return std::unexpected(read.result.error());
    co_return std::move(read.result->data);
  }
  const BufferRef buffer = buffers.Allocate(count);
  const auto read = co_await from.remote->ReadAt(offset, buffer->bytes().first(count));
  if (!read) co_return std::unexpected(fs::Error::kIo);
  co_return Data(Slice(buffer, buffer->bytes().first(read->count)));
}

// Copies a part of the range. The data go through memory unless one file system has both files. Writes nothing, as at
// the end of the source, if `may_write()` returns false just before.
Task<Step> CopySome(const Origin& from, const Object& to, BufferPool& buffers, Range range,
                    const std::function<bool()>& may_write) {
  fs::FileSystem& target = to.file_system();
  if (from.file && &from.file->file_system() == &target) {
    if (!may_write()) co_return fs::CopyReply{};
    auto copied =
        co_await target.Copy(to.context(), from.file->object(), range.from, to.object(), range.to, range.count);
    co_return copied.result;
  }
  const auto count = static_cast<uint32_t>(std::min<uint64_t>(range.count, kThroughMemory));
  const auto read = co_await ReadSome(from, buffers, range.from, count);
  if (!read) co_return std::unexpected(read.error());
  if (read->empty() || !may_write()) co_return fs::CopyReply{};
  const auto written = co_await target.Write(to.context(), to.object(), range.to, *read, fs::Stability::kUnstable);
  if (!written.result) co_return std::unexpected(written.result.error());
  co_return fs::CopyReply{written.result->count, written.result->verifier};
}

struct Copied {
  uint64_t count = 0;
  std::optional<fs::WriteVerifier> verifier{};
  nfsstat4 status = NFS4_OK;

  // Keep the first verifier: if a later one differs, the data before it may be lost.
  bool Add(const Step& step) {
    if (!step) status = ToStatus(step.error());
    if (!step || step->count == 0) return false;
    count += step->count;
    if (!verifier) verifier = step->verifier;
    return true;
  }
  write_response4 Response() const {
    return {.wr_callback_id = {},
            .wr_count = count,
            .wr_committed = UNSTABLE4,
            .wr_writeverf = ToVerifier(verifier.value_or(fs::WriteVerifier()))};
  }
};

Task<Copied> CopyNow(Compound& compound, const Origin& from, Range range) {
  Copied copied;
  range.count = std::min(range.count, kSynchronousAtMost);
  const TimePoint end = compound.now() + kSynchronousFor;
  const std::function<bool()> may_write = [] { return true; };
  while (copied.count < range.count && compound.now() < end) {
    const Step step =
        co_await CopySome(from, *compound.current, compound.buffers(), range.After(copied.count), may_write);
    if (!copied.Add(step)) break;
  }
  co_return copied;
}

// The data of a copy that continues after the reply.
struct Offloaded {
  std::shared_ptr<const Namespace> names;  // holds the exports of the two files
  Origin from;
  Object to;
  BufferPool& buffers;
  Range range;
  ClientId client;
  stateid4 stateid;
  fs::Pinned pinned_target;
  FileUses uses;  // of the target, whose open may be closed before the copy ends
};

Offloads::Order Advance(const Services& services, const stateid4& stateid, uint64_t done) {
  return services.state.Run([&](StateTables& state) { return state.offloads.Advance(stateid, done); });
}
bool End(const Services& services, const stateid4& stateid, nfsstat4 result) {
  return services.state.Run(
      [&](StateTables& state) { return state.offloads.End(stateid, result, services.clock.Now()); });
}

offload_info4 InformationOn(const Copied& copied) {
  if (copied.status != NFS4_OK) return {copied.status, copied.count};
  return {NFS4_OK, copied.Response()};
}

// The result of a copy that the server's stop ends early: a short copy, from whose end the client goes on. Its data are
// stable, or else the client would copy all of it again when it finds another write verifier. Returns nothing if
// nothing was copied, because a copy of no octets means the end of the source.
Task<std::optional<offload_info4>> CutShort(const Object& to, Copied copied) {
  if (copied.count == 0) co_return std::nullopt;
  const auto stable = co_await to.file_system().Commit(to.context(), to.object());
  copied.status = FileStatus(stable);
  if (stable.result && *stable.result != copied.verifier) copied.status = NFS4ERR_IO;  // a part of the data was lost
  if (copied.status != NFS4_OK) co_return InformationOn(copied);
  write_response4 response = copied.Response();
  response.wr_committed = FILE_SYNC4;
  co_return offload_info4(NFS4_OK, response);
}

// Returns what the client is to be told, if anything.
Task<std::optional<offload_info4>> CopyToTheEnd(Services services, Offloaded job) {
  Copied copied;
  const std::function<bool()> may_write = [&] {
    return services.state.Run([&](StateTables& state) { return state.offloads.BeginWrite(job.stateid); });
  };
  for (bool more = true; more;) {
    const Step step = co_await CopySome(job.from, job.to, job.buffers, job.range.After(copied.count), may_write);
    more = copied.Add(step) && copied.count < job.range.count;
    const Offloads::Order order = Advance(services, job.stateid, copied.count);
    if (order == Offloads::Order::kAbandon) co_return std::nullopt;
    // A server that stops ends its connections to other servers, which is no failure of theirs.
    if (order == Offloads::Order::kEnd && (copied.status == NFS4_OK || job.from.remote)) {
      co_return co_await CutShort(job.to, copied);
    }
  }
  if (!End(services, job.stateid, copied.status)) co_return std::nullopt;
  co_return InformationOn(copied);
}

// This coroutine outlives the call, whose reply was sent before. The files are free before the client is told.
Task<void> CopyLater(Services services, Offloaded job) {
  const ClientId client = job.client;
  const FileHandle file = job.to.handle();
  const stateid4 stateid = job.stateid;
  const std::optional<offload_info4> information = co_await CopyToTheEnd(services, std::move(job));
  if (information) co_await services.callbacks.OffloadDone(client, file, stateid, *information);
  services.state.Run([&](StateTables& state) { state.offloads.Leave(stateid); });
}

// Starts a copy that continues after the reply, and takes `from`. Returns nothing if the client cannot be notified, or
// if there are too many copies.
Task<std::optional<stateid4>> StartOffload(Compound& compound, Origin& from, Range range) {
  const Object& to = *compound.current;
  if (!compound.session) co_return std::nullopt;
  const ClientId client = compound.session->client;
  if (from.file) {
    auto pinned = co_await from.file->file_system().Pin(from.file->context(), from.file->object());
    if (!pinned) co_return std::nullopt;
    from.pinned = from.file->in().Hold(*std::move(pinned));
  }
  auto target = co_await to.file_system().Pin(to.context(), to.object());
  if (!target) co_return std::nullopt;
  target = to.in().Hold(*std::move(target));
  FileUses uses;
  const auto stateid = compound.services.state.Run([&](StateTables& state) -> std::optional<stateid4> {
    if (!state.CanCall(client)) return std::nullopt;
    const auto started = state.offloads.Start(client, to.handle(), compound.services.random(), compound.now());
    if (started) uses.Begin(compound.services.state, state, to.name());
    return started;
  });
  if (stateid) {
    Offloaded job{compound.names,     std::move(from), to, compound.buffers(), range, client, *stateid,
                  *std::move(target), std::move(uses)};
    Spawn(CopyLater(compound.services, std::move(job)));
  }
  co_return stateid;
}

// Returns the size of a regular file.
Task<Result<uint64_t, nfsstat4>> SizeOf(const Object& file) {
  const auto attributes = co_await file.file_system().GetAttributes(file.context(), file.object());
  if (!attributes) co_return std::unexpected(ToStatus(attributes.error()));
  if (attributes->type != fs::FileType::kRegular) co_return std::unexpected(NFS4ERR_WRONG_TYPE);
  co_return attributes->size;
}

Task<nfsstat4> CheckTarget(const Object& to) {
  if (to.read_only()) co_return NFS4ERR_ROFS;
  const auto size = co_await SizeOf(to);
  co_return size ? NFS4_OK : size.error();
}

// Replaces a count of zero by that of the octets up to the end of the source (RFC 7862 §15.2.3, §15.13.3).
nfsstat4 FitRange(Range& range, uint64_t source_size) {
  if (range.from > source_size || range.count > source_size - range.from) return NFS4ERR_INVAL;
  if (range.count == 0) range.count = source_size - range.from;
  return NFS4_OK;
}

// The common checks of COPY and CLONE within the server.
Task<nfsstat4> CheckRange(Compound& compound, Range& range) {
  // Operations that use a saved filehandle do not return NFS4ERR_WRONGSEC (RFC 8881 §2.6.3.1.1.7).
  if (compound.RequireFlavor(*compound.saved) != NFS4_OK) co_return NFS4ERR_ACCESS;
  if (const nfsstat4 status = co_await CheckTarget(*compound.current); status != NFS4_OK) co_return status;
  const auto size = co_await SizeOf(*compound.saved);
  co_return size ? FitRange(range, *size) : size.error();
}

Task<nfsstat4> CheckStateIds(Compound& compound, const stateid4& source, const stateid4& target) {
  const nfsstat4 status = co_await CheckRead(compound, source, *compound.saved);
  if (status != NFS4_OK) co_return status;
  co_return co_await CheckWrite(compound, target, *compound.current);
}

Range RangeOf(const COPY4args& arguments) {
  return {arguments.ca_src_offset, arguments.ca_dst_offset, arguments.ca_count};
}

// The server copies in order, so it accepts ca_consecutive. Callers name `from` before they move it: g++ 12 destroys a
// braced temporary twice that is an argument of an awaited call.
Task<COPY4res> CopyRange(Compound& compound, Origin from, Range range, bool synchronous) {
  if (!synchronous && range.count > kSynchronousAtMost) {
    if (const std::optional<stateid4> stateid = co_await StartOffload(compound, from, range)) {
      write_response4 response = Copied{}.Response();
      response.wr_callback_id = *stateid;
      co_return COPY4res(NFS4_OK, COPY4resok{.cr_response = response,
                                             .cr_requirements = {.cr_consecutive = true, .cr_synchronous = false}});
    }
  }
  const Copied copied = co_await CopyNow(compound, from, range);
  if (copied.status != NFS4_OK && copied.count == 0) co_return COPY4res(copied.status);
  co_return COPY4res(NFS4_OK, COPY4resok{.cr_response = copied.Response(),
                                         .cr_requirements = {.cr_consecutive = true, .cr_synchronous = true}});
}

Task<COPY4res> CopyWithin(Compound& compound, const COPY4args& arguments) {
  if (!compound.saved) co_return COPY4res(compound.saved_foreign->status);
  if (compound.saved->name() == compound.current->name()) co_return COPY4res(NFS4ERR_INVAL);
  Range range = RangeOf(arguments);
  if (const nfsstat4 status = co_await CheckRange(compound, range); status != NFS4_OK) co_return COPY4res(status);
  const nfsstat4 status = co_await CheckStateIds(compound, arguments.ca_src_stateid, arguments.ca_dst_stateid);
  if (status != NFS4_OK) co_return COPY4res(status);
  Origin from{.file = compound.saved};
  co_return co_await CopyRange(compound, std::move(from), range, arguments.ca_synchronous);
}

// The source server judges the filehandle and the stateid of the source.
Task<COPY4res> CopyFromServer(Compound& compound, const COPY4args& arguments) {
  CopySources* const sources = compound.services.copy_sources;
  if (!sources) co_return COPY4res(NFS4ERR_NOTSUPP);
  if (const nfsstat4 status = co_await CheckTarget(*compound.current); status != NFS4_OK) co_return COPY4res(status);
  // The other server takes this one's word for the user, so only a stateid that it has given may reach it.
  const stateid4& source_stateid = arguments.ca_src_stateid;
  if (IsAnonymous(source_stateid) || IsReadBypass(source_stateid) || IsCurrent(source_stateid)) {
    co_return COPY4res(NFS4ERR_BAD_STATEID);
  }
  const nfsstat4 status = co_await CheckWrite(compound, arguments.ca_dst_stateid);
  if (status != NFS4_OK) co_return COPY4res(status);
  // The other server may be this one, under another address.
  const nfs_fh4 file = compound.saved ? ToFileHandle(compound.saved->handle()) : compound.saved_foreign->handle;
  const CopySources::Request wanted{.servers = arguments.ca_source_server,
                                    .file = file,
                                    .stateid = arguments.ca_src_stateid,
                                    .user = compound.current->context().credentials};
  auto source = co_await sources->Open(compound.call.peer, wanted);
  // The client then copies the data itself (RFC 7862 §11.1.2.1). The error does not tell why no server can be reached,
  // so that a client learns nothing of networks that only this server can reach.
  if (!source) co_return COPY4res(NFS4ERR_OFFLOAD_DENIED);
  Range range = RangeOf(arguments);
  const nfsstat4 fits = FitRange(range, source->size());
  if (fits != NFS4_OK) co_return COPY4res(fits);
  Origin from{.remote = std::move(source)};
  co_return co_await CopyRange(compound, std::move(from), range, arguments.ca_synchronous);
}

}  // namespace

// RFC 7862 §15.2
Task<COPY4res> Copy(Compound& compound, const COPY4args& arguments) {
  if (arguments.ca_source_server.empty()) return CopyWithin(compound, arguments);
  return CopyFromServer(compound, arguments);
}

// RFC 7862 §15.13
Task<CLONE4res> Clone(Compound& compound, const CLONE4args& arguments) {
  Range range{arguments.cl_src_offset, arguments.cl_dst_offset, arguments.cl_count};
  if (const nfsstat4 status = co_await CheckRange(compound, range); status != NFS4_OK) co_return CLONE4res{status};
  const Object& from = *compound.saved;
  const Object& to = *compound.current;
  if (&from.file_system() != &to.file_system()) co_return CLONE4res{NFS4ERR_XDEV};
  const nfsstat4 status = co_await CheckStateIds(compound, arguments.cl_src_stateid, arguments.cl_dst_stateid);
  if (status != NFS4_OK) co_return CLONE4res{status};
  if (range.count == 0) co_return CLONE4res{NFS4_OK};
  const auto changed =
      co_await to.file_system().Clone(to.context(), from.object(), range.from, to.object(), range.to, range.count);
  co_return CLONE4res{FileStatus(changed)};
}

// RFC 7862 §15.9
OFFLOAD_STATUS4res OffloadStatus(Compound& compound, const OFFLOAD_STATUS4args& arguments) {
  if (!compound.session) return OFFLOAD_STATUS4res(NFS4ERR_OP_NOT_IN_SESSION);
  return compound.services.state.Run([&](StateTables& state) {
    const auto* offload =
        state.offloads.Find(compound.session->client, compound.current->handle(), arguments.osa_stateid);
    if (!offload) return OFFLOAD_STATUS4res(NFS4ERR_BAD_STATEID);
    return OFFLOAD_STATUS4res(NFS4_OK,
                              OFFLOAD_STATUS4resok{.osr_count = offload->done, .osr_complete = offload->result});
  });
}

// RFC 7862 §15.8. After a successful reply the copy writes nothing more, so that it cannot overwrite what the client
// then writes.
Task<OFFLOAD_CANCEL4res> CancelOffload(Compound& compound, const OFFLOAD_CANCEL4args& arguments) {
  using Cancelled = Offloads::Cancelled;
  if (!compound.session) co_return OFFLOAD_CANCEL4res{NFS4ERR_OP_NOT_IN_SESSION};
  const auto cancel = [&](StateTables& state) {
    const ClientId client = compound.session->client;
    const FileHandle file = compound.current->handle();
    if (CopyNotices::IsOne(arguments.oca_stateid)) {
      return state.copy_notices.Cancel(client, file, arguments.oca_stateid) ? Cancelled::kYes : Cancelled::kUnknown;
    }
    return state.offloads.Cancel(client, file, arguments.oca_stateid);
  };
  Loop* const loop = compound.call.peer.loop;
  const TimePoint end = compound.now() + kCancelWithin;
  Cancelled cancelled = compound.services.state.Run(cancel);
  if (cancelled == Cancelled::kUnknown) co_return OFFLOAD_CANCEL4res{NFS4ERR_BAD_STATEID};
  while (cancelled == Cancelled::kWriting) {
    if (!loop || compound.now() >= end) co_return OFFLOAD_CANCEL4res{NFS4ERR_DELAY};
    co_await Sleep(*loop, std::chrono::milliseconds(10));
    cancelled = compound.services.state.Run(cancel);  // unknown if the copy has left
  }
  co_return OFFLOAD_CANCEL4res{NFS4_OK};
}

namespace {

size_t CountRunning(State& state) {
  return state.Run([&](StateTables& tables) { return tables.offloads.running(); });
}

}  // namespace

Task<> EndCopies(State& state, TimerService& timers, TimePoint end) {
  state.Run([&](StateTables& tables) { tables.offloads.EndAll(); });
  while (CountRunning(state) > 0 && timers.Now() < end) co_await Sleep(timers, std::chrono::milliseconds(10));
}

}  // namespace penstock::nfs::v4
