// Decides which thread does which work. Queries of open objects, reads of data in memory, and small writes that need
// not reach the disk run on the caller's loop: a change of threads would cost more than the work. Work that would
// wait goes to the pool, and so does every change of names and attributes. The loop never waits for a disk, because a
// disk that hangs would hold up all its connections.
#include "fs/posix/file_system.h"

#include <fcntl.h>

#include <optional>

#include "base/log.h"
#include "base/loop.h"
#include "base/probes.h"
#include "fs/posix/local_lease.h"
#include "fs/posix/local_locks.h"
#include "fs/posix/page_cache.h"

namespace penstock::fs::posix {
namespace {

// Such a write takes microseconds if it does not wait for the disk.
constexpr size_t kSmallWrite = 32 << 10;
// So much of data that are arriving is written at once: to receive it took the loop as long.
constexpr size_t kWriteAtOnce = 256 << 10;

// Calls `function` between the probes of the file system. `work` and `blocks`: 0 or 1.
template <class Function>
auto Probed(const ClientKey& client, WorkKind work, int blocks, Function&& function) {
  PENSTOCK_PROBE(3, file_system__begin, client.connection, static_cast<int>(work), blocks);
  auto result = function();
  PENSTOCK_PROBE(3, file_system__end, client.connection, static_cast<int>(work), blocks);
  return result;
}

// co_await AtOnceOrElsewhere(context, pool, work, attempt) returns the result of attempt(Patience::kNone) if it has
// one. Otherwise it runs attempt(Patience::kMayBlock) on a thread of the pool.
template <class Attempt>
auto AtOnceOrElsewhere(const RequestContext& context, Workers& pool, WorkKind work, Attempt attempt) {
  using Given = std::invoke_result_t<Attempt, Patience>;
  struct Awaiter {
    const RequestContext& context;
    Workers& pool;
    WorkKind work;
    Attempt attempt;
    Given given;

    bool await_ready() {
      given = Probed(context.client, work, 0, [&] { return attempt(Patience::kNone); });
      return given.has_value();
    }
    void await_suspend(std::coroutine_handle<> waiter) {
      const auto run = [this, waiter] {
        given = Probed(context.client, work, 1, [&] { return attempt(Patience::kMayBlock); });
        context.loop->Post(waiter);
      };
      pool.Post(run, context.client, work);
    }
    typename Given::value_type await_resume() { return std::move(*given); }
  };
  return Awaiter{context, pool, work, std::move(attempt), std::nullopt};
}

template <class Function>
auto OnPool(const RequestContext& context, Workers& pool, WorkKind work, Function function) {
  auto probed = [client = context.client, work, run = std::move(function)]() mutable {
    return Probed(client, work, 1, run);
  };
  return Offload(*context.loop, pool, std::move(probed), context.client, work);
}

// The error of a change that was made and may not last, because the sync failed. The caller must not take it for one of
// a change that was not made, as it would take kDelay or kReadOnly.
Error OfUnsynced(Error sync) { return sync == Error::kNoSpace || sync == Error::kQuota ? sync : Error::kIo; }

}  // namespace

// Runs `change` on a thread of the pool, and then syncs the objects that it touched: on the same visit of the pool, as
// far as that thread may do the work and no call shares the sync. A sync of a directory or of a new file takes a short
// time. Any other file may have much data that is not on the disk yet.
template <class Change>
auto FileSystem::ChangeAndSync(const RequestContext& context, WorkKind work, Change change, WorkKind of_files)
    -> Task<std::invoke_result_t<Change&, Tree::Touches&>> {
  const auto work_of = [&](const Object& object) { return object.is_directory() ? WorkKind::kMetadata : of_files; };
  Tree::Touches unsynced;
  const auto run = [&] {
    Tree::Touches touches;
    auto changed = change(touches);
    for (Tree::Touched& touched : touches) {
      std::optional<Result<void>> synced;
      if (work_of(*touched.object) == work) {
        synced = syncs_.SyncNow(touched.object.get(), touched.file->get(), false);
      }
      if (!synced) {
        unsynced.push_back(std::move(touched));
      } else if (!*synced && changed.result) {
        changed.result = std::unexpected(OfUnsynced(synced->error()));
      }
    }
    return changed;
  };
  auto changed = co_await OnPool(context, pool_, work, run);
  for (const Tree::Touched& touched : unsynced) {
    const WorkKind sync = work_of(*touched.object);
    const Result<void> synced = co_await syncs_.Sync(context, sync, touched.object, touched.file, false);
    if (!synced && changed.result) changed.result = std::unexpected(OfUnsynced(synced.error()));
  }
  co_return changed;
}

Task<Result<Attributes>> FileSystem::GetAttributes(const RequestContext& context, const Handle& object) {
  const auto attempt = [&](Patience patience) { return tree_.GetAttributes(object, patience); };
  co_return co_await AtOnceOrElsewhere(context, pool_, WorkKind::kMetadata, attempt);
}

Task<Changed<void>> FileSystem::SetAttributes(const RequestContext& context, const Handle& object,
                                              const NewAttributes& values, std::optional<Timestamp> guard) {
  const auto set = [&](Tree::Touches& touches) {
    return tree_.SetAttributes(context.credentials, object, values, guard, touches);
  };
  // Truncating a long file takes time.
  const WorkKind work = values.size ? WorkKind::kData : WorkKind::kMetadata;
  co_return co_await ChangeAndSync(context, work, set);
}

Task<Observed<Node>> FileSystem::Lookup(const RequestContext& context, const Handle& directory, std::string_view name) {
  const auto attempt = [&](Patience patience) { return tree_.Lookup(context.credentials, directory, name, patience); };
  co_return co_await AtOnceOrElsewhere(context, pool_, WorkKind::kMetadata, attempt);
}

Task<Observed<AccessMask>> FileSystem::Access(const RequestContext& context, const Handle& object, AccessMask wanted) {
  const auto attempt = [&](Patience patience) { return tree_.Access(context.credentials, object, wanted, patience); };
  co_return co_await AtOnceOrElsewhere(context, pool_, WorkKind::kMetadata, attempt);
}

Task<Observed<std::string>> FileSystem::ReadLink(const RequestContext& context, const Handle& symlink) {
  const auto attempt = [&](Patience patience) { return tree_.ReadLink(symlink, patience); };
  co_return co_await AtOnceOrElsewhere(context, pool_, WorkKind::kMetadata, attempt);
}

Task<Observed<ReadReply>> FileSystem::Read(const RequestContext& context, const Handle& file, uint64_t offset,
                                           uint32_t count) {
  Loop& loop = *context.loop;
  const auto prepare = [&](Patience patience) {
    return tree_.PrepareRead(context.credentials, file, offset, count, patience);
  };
  const Observed<Tree::Extent> prepared = co_await AtOnceOrElsewhere(context, pool_, WorkKind::kMetadata, prepare);
  Observed<ReadReply> reply{std::unexpected(Error::kServerFault), prepared.attributes};
  if (!prepared.result) {
    reply.result = std::unexpected(prepared.result.error());
    co_return reply;
  }
  const Tree::Extent& extent = *prepared.result;
  if (extent.count == 0) {
    reply.result = ReadReply{{}, extent.eof};
    co_return reply;
  }
  const int fd = extent.file->get();

  // Data that could not be read while it was sent is read here, so that the client gets the error.
  if (extent.count >= file_range_from_ && !extent.file->unreadable()) {
    Result<size_t> have = extent.count;
    if (!IsCached(fd, offset, extent.count, tree_.volume())) {
      const auto pull_in = [&] { return PullIn(fd, offset, extent.count); };
      have = co_await OnPool(context, pool_, WorkKind::kData, pull_in);
    }
    if (!have) {
      reply.result = std::unexpected(have.error());
    } else {
      // The file became shorter after PrepareRead().
      reply.result = ReadReply{Data(extent.file, offset, *have), extent.eof || *have < extent.count};
    }
    co_return reply;
  }

  const BufferRef buffer = loop.buffers().Allocate(extent.count);
  const Bytes wanted = buffer->bytes().first(extent.count);
  size_t have = ReadCached(fd, wanted, offset, tree_.volume());
  if (have < wanted.size()) {
    const auto read_rest = [&] { return ReadWaiting(fd, wanted.subspan(have), offset + have); };
    const Result<size_t> rest = co_await OnPool(context, pool_, WorkKind::kData, read_rest);
    if (!rest) {
      reply.result = std::unexpected(rest.error());
      co_return reply;
    }
    have += *rest;
  }
  // The file became shorter after PrepareRead().
  const bool eof = extent.eof || have < extent.count;
  reply.result = ReadReply{Slice(buffer, wanted.first(have)), eof};
  co_return reply;
}

Task<Changed<WriteReply>> FileSystem::Write(const RequestContext& context, const Handle& file, uint64_t offset,
                                            const Data& data, Stability stability) {
  const auto reach = [&](Patience patience) { return tree_.Reach(file, patience); };
  const Result<ObjectRef> object = co_await AtOnceOrElsewhere(context, pool_, WorkKind::kMetadata, reach);
  if (!object) co_return Changed<WriteReply>{std::unexpected(object.error()), {}};
  if (data.arriving()) {
    if (stability == Stability::kUnstable) co_return co_await WriteArriving(context, *object, offset, data);
    (void)co_await data.AllArrived();
    co_return co_await WriteStably(context, *object, offset, data.Sub(0, data.arrived()), stability);
  }
  const auto attempt = [&](Patience patience) {
    return tree_.Write(context.credentials, **object, offset, data, stability, patience);
  };
  if (stability != Stability::kUnstable) co_return co_await WriteStably(context, *object, offset, data, stability);
  const auto write = [&] { return *attempt(Patience::kMayBlock); };
  if (data.size() > kSmallWrite) co_return co_await OnPool(context, pool_, WorkKind::kData, write);
  std::optional<Changed<WriteReply>> done = attempt(Patience::kNone);
  if (!done) done = co_await small_writes_.Run(context, *object, write);
  co_return *std::move(done);
}

namespace {

// Adds what the next part of a write has done. Other calls may have written to the file in between: then the attributes
// before are left out, so that the caller does not take the changes of others for its own (RFC 1813 §2.6, wcc_data).
// The written octets count if a part fails; the client gets the error with its next request, as in one write. The
// verifier is that of the first part, so that a loss of data since then is noticed.
void Append(Changed<WriteReply>& whole, const Changed<WriteReply>& part) {
  const auto& last = whole.object.after;
  const auto& next = part.object.before;
  if (!last || !next || last->change != next->change) whole.object.before.reset();
  whole.object.after = part.object.after;
  if (part.result) whole.result->count += part.result->count;
}

}  // namespace

// Writes what has arrived while more arrives. If no more comes, the octets before count.
Task<Changed<WriteReply>> FileSystem::WriteArriving(const RequestContext& context, const ObjectRef& object,
                                                    uint64_t offset, const Data& data) {
  std::optional<Changed<WriteReply>> whole;
  for (size_t done = 0; done < data.size();) {
    const bool arrived = co_await data.ArrivedBeyond(done);
    if (!arrived) break;
    const Data part = data.Sub(done, data.arrived() - done);
    const auto attempt = [&](Patience patience) {
      return tree_.Write(context.credentials, *object, offset + done, part, Stability::kUnstable, patience);
    };
    std::optional<Changed<WriteReply>> wrote;
    if (part.size() <= kWriteAtOnce) wrote = attempt(Patience::kNone);
    const auto write = [&] { return attempt(Patience::kMayBlock); };
    if (!wrote) wrote = co_await OnPool(context, pool_, WorkKind::kData, write);
    if (whole) {
      Append(*whole, *wrote);
    } else {
      whole = *wrote;
    }
    if (!wrote->result || wrote->result->count < part.size()) break;
    done += part.size();
  }
  co_return whole.value_or(Changed<WriteReply>{std::unexpected(Error::kDelay), {}});
}

// The sync is without the file's lock, so that other calls may write meanwhile and share the next sync.
Task<Changed<WriteReply>> FileSystem::WriteStably(const RequestContext& context, const ObjectRef& object,
                                                  uint64_t offset, const Data& data, Stability stability) {
  const bool data_only = stability == Stability::kDataSync;
  Changed<WriteReply> changed{std::unexpected(Error::kServerFault), {}};
  Result<SharedFile> written = std::unexpected(Error::kIo);
  std::optional<Result<void>> synced;
  // A client writes a small file by one stable call, without a COMMIT. Nothing else tells that it is done with the
  // file, and the host must be able to execute it when the client has the reply.
  const auto is_whole = [&] {
    return changed.result && offset == 0 && changed.object.after && changed.object.after->size == data.size();
  };
  const auto drop = [&] {
    written = std::unexpected(Error::kIo);
    object->DropWriter();
    return true;
  };
  // One visit of the pool does all, unless the sync is shared.
  const auto write = [&] {
    changed = *tree_.Write(context.credentials, *object, offset, data, stability, Patience::kMayBlock);
    if (!changed.result) return true;
    written = object->Writer();
    synced = written ? syncs_.SyncNow(object.get(), (*written)->get(), data_only) : std::unexpected(written.error());
    return synced && *synced && is_whole() ? drop() : synced.has_value();
  };
  const bool is_done = co_await OnPool(context, pool_, WorkKind::kData, write);
  if (!is_done) synced = co_await syncs_.Sync(context, WorkKind::kData, object, *written, data_only);
  if (synced && !*synced) changed.result = std::unexpected(synced->error());
  if (!is_done && is_whole()) co_await OnPool(context, pool_, WorkKind::kMetadata, drop);
  co_return changed;
}

Task<Changed<WriteVerifier>> FileSystem::Commit(const RequestContext& context, const Handle& file) {
  Changed<Tree::Uncommitted> prepared{std::unexpected(Error::kServerFault), {}};
  std::optional<Result<void>> synced;
  std::optional<Tree::Committed> committed;
  const auto finish = [&] {
    committed = tree_.FinishCommit(*prepared.result->object);
    return true;
  };
  // One visit of the pool does all, unless the sync is shared.
  const auto commit = [&] {
    prepared = tree_.PrepareCommit(file);
    if (!prepared.result) return true;
    const Tree::Uncommitted& uncommitted = *prepared.result;
    synced = syncs_.SyncNow(uncommitted.object.get(), uncommitted.file->get(), true);
    return synced && *synced ? finish() : synced.has_value();
  };
  const bool is_done = co_await OnPool(context, pool_, WorkKind::kData, commit);
  Changed<WriteVerifier> changed{std::unexpected(Error::kServerFault), prepared.object};
  if (!prepared.result) {
    changed.result = std::unexpected(prepared.result.error());
    co_return changed;
  }
  if (!is_done) {
    const Tree::Uncommitted& uncommitted = *prepared.result;
    synced = co_await syncs_.Sync(context, WorkKind::kData, uncommitted.object, uncommitted.file, true);
    if (*synced) co_await OnPool(context, pool_, WorkKind::kData, finish);
  }
  if (!*synced) {
    changed.result = std::unexpected(synced->error());
    co_return changed;
  }
  if (committed->after) changed.object.after = committed->after;
  changed.result = committed->verifier;
  co_return changed;
}

Task<Changed<Node>> FileSystem::Create(const RequestContext& context, const Handle& directory, std::string_view name,
                                       const CreateHow& how) {
  // A file that exists and is not changed, as far as the kernel knows it already.
  if (how.mode == CreateMode::kUnchecked && how.attributes.size != 0) {
    const auto found = tree_.Lookup(context.credentials, directory, name, Patience::kNone);
    const auto is_settled = [](const Attributes& file) {
      return file.type == FileType::kRegular && !Tree::IsNew(file);
    };
    if (found && found->result && is_settled(found->result->attributes)) {
      Changed<Node> existing{found->result, {BeforeOf(*found->attributes), found->attributes}};
      existing.result->existed = true;
      co_return existing;
    }
  }
  const auto create = [&](Tree::Touches& touches) {
    return tree_.Create(context.credentials, directory, name, how, touches);
  };
  co_return co_await ChangeAndSync(context, WorkKind::kMetadata, create, WorkKind::kMetadata);
}

Task<Changed<Node>> FileSystem::MakeDirectory(const RequestContext& context, const Handle& directory,
                                              std::string_view name, const NewAttributes& attributes) {
  const auto make = [&](Tree::Touches& touches) {
    return tree_.MakeDirectory(context.credentials, directory, name, attributes, touches);
  };
  co_return co_await ChangeAndSync(context, WorkKind::kMetadata, make);
}

Task<Changed<Node>> FileSystem::MakeSymlink(const RequestContext& context, const Handle& directory,
                                            std::string_view name, std::string_view target,
                                            const NewAttributes& attributes) {
  const auto make = [&](Tree::Touches& touches) {
    return tree_.MakeSymlink(context.credentials, directory, name, target, attributes, touches);
  };
  co_return co_await ChangeAndSync(context, WorkKind::kMetadata, make);
}

Task<Changed<Node>> FileSystem::MakeNode(const RequestContext& context, const Handle& directory, std::string_view name,
                                         const NodeType& type, const NewAttributes& attributes) {
  const auto make = [&](Tree::Touches& touches) {
    return tree_.MakeNode(context.credentials, directory, name, type, attributes, touches);
  };
  co_return co_await ChangeAndSync(context, WorkKind::kMetadata, make);
}

Task<Changed<void>> FileSystem::Remove(const RequestContext& context, const Handle& directory, std::string_view name) {
  const auto remove = [&](Tree::Touches& touches) {
    return tree_.Unlink(context.credentials, directory, name, 0, touches);
  };
  co_return co_await ChangeAndSync(context, WorkKind::kMetadata, remove);
}

Task<Changed<void>> FileSystem::RemoveDirectory(const RequestContext& context, const Handle& directory,
                                                std::string_view name) {
  const auto remove = [&](Tree::Touches& touches) {
    return tree_.Unlink(context.credentials, directory, name, AT_REMOVEDIR, touches);
  };
  co_return co_await ChangeAndSync(context, WorkKind::kMetadata, remove);
}

Task<Renamed> FileSystem::Rename(const RequestContext& context, const Handle& from_directory,
                                 std::string_view from_name, const Handle& to_directory, std::string_view to_name) {
  const auto rename = [&](Tree::Touches& touches) {
    return tree_.Rename(context.credentials, from_directory, from_name, to_directory, to_name, touches);
  };
  co_return co_await ChangeAndSync(context, WorkKind::kMetadata, rename);
}

Task<Linked> FileSystem::Link(const RequestContext& context, const Handle& file, const Handle& directory,
                              std::string_view name) {
  const auto link = [&](Tree::Touches& touches) {
    return tree_.Link(context.credentials, file, directory, name, touches);
  };
  co_return co_await ChangeAndSync(context, WorkKind::kMetadata, link);
}

Task<Observed<ReadDirectoryReply>> FileSystem::ReadDirectory(const RequestContext& context, const Handle& directory,
                                                             const ReadDirectoryArguments& arguments, EntrySink& sink) {
  const auto list = [&] { return tree_.ReadDirectory(context.credentials, directory, arguments, sink); };
  co_return co_await OnPool(context, pool_, WorkKind::kMetadata, list);
}

Task<Observed<Space>> FileSystem::GetSpace(const RequestContext& context, const Handle& object) {
  const auto attempt = [&](Patience patience) { return tree_.GetSpace(object, patience); };
  co_return co_await AtOnceOrElsewhere(context, pool_, WorkKind::kMetadata, attempt);
}

Task<Result<std::optional<Quota>>> FileSystem::GetQuota(const RequestContext& context, QuotaKind kind, uint32_t id) {
  const auto read = [&] { return tree_.GetQuota(kind, id); };
  co_return co_await OnPool(context, pool_, WorkKind::kMetadata, read);
}

Task<Result<Pinned>> FileSystem::Pin(const RequestContext& context, const Handle& file) {
  const auto reach = [&](Patience patience) { return tree_.Reach(file, patience); };
  PENSTOCK_CO_TRY(ObjectRef object, co_await AtOnceOrElsewhere(context, pool_, WorkKind::kMetadata, reach));
  PENSTOCK_CO_CHECK(tree_.Pin(object));
  auto unpin = [this, object](const void*) mutable {
    ObjectRef last = tree_.Unpin(std::move(object));
    if (!last) return;
    pool_.Post([last = std::move(last)] { last->CloseIfUnpinned(); });
  };
  co_return Pinned(object.get(), std::move(unpin));
}

Task<Result<std::shared_ptr<LocalLocks>>> FileSystem::OpenLocks(const RequestContext& context, const Handle& file,
                                                                bool exclusive) {
  if (!tree_.volume().local_locks) co_return nullptr;
  const auto open = [&]() -> Result<SharedFile> {
    PENSTOCK_TRY(const ObjectRef object, *tree_.Reach(file, Patience::kMayBlock));
    return OpenForLocks(*object, exclusive, tree_.all_objects());
  };
  PENSTOCK_CO_TRY(SharedFile opened, co_await OnPool(context, pool_, WorkKind::kMetadata, open));
  if (!opened) co_return nullptr;
  co_return std::make_shared<OfdLocks>(std::move(opened), pool_);
}

LeaseReply FileSystem::TakeLease(const Handle& file) {
  const Result<ObjectRef> object = *tree_.Reach(file, Patience::kMayBlock);
  if (!object || (*object)->type() != FileType::kRegular) return {};
  OpenObjects& objects = tree_.all_objects();
  Result<FileDescriptor> opened = objects.OpenResult([&] { return Reopen((*object)->fd(), O_RDONLY | O_NONBLOCK); });
  if (!opened) return {};
  const SharedFile shared = objects.ShareFor(OpenObjects::Purpose::kLeases, *std::move(opened));
  if (!shared) return {};
  LeaseReply taken = FileLease::Take(shared, pool_);
  if (!taken.contended) return taken;
  // The server itself may have kept the file open after a write.
  (*object)->DropWriter();
  return FileLease::Take(shared, pool_);
}

Task<LeaseReply> FileSystem::OpenLease(const RequestContext& context, const Handle& file) {
  // Changes by other machines to a file of a network file system break no lease, and FUSE has no leases.
  if (!leases_ || !tree_.volume().local_locks) co_return LeaseReply{};
  const auto take = [&] { return TakeLease(file); };
  co_return co_await OnPool(context, pool_, WorkKind::kMetadata, take);
}

std::string FileSystem::PathOf(const Handle& object) { return tree_.PathOf(object); }

Task<Observed<SeekReply>> FileSystem::Seek(const RequestContext& context, const Handle& file, uint64_t offset,
                                           SeekWhat what) {
  const auto seek = [&] { return tree_.Seek(context.credentials, file, offset, what); };
  co_return co_await OnPool(context, pool_, WorkKind::kData, seek);
}

Task<Changed<void>> FileSystem::Allocate(const RequestContext& context, const Handle& file, uint64_t offset,
                                         uint64_t length) {
  const auto allocate = [&](Tree::Touches& touches) {
    return tree_.ChangeSpace(context.credentials, file, offset, length, 0, touches);
  };
  co_return co_await ChangeAndSync(context, WorkKind::kData, allocate);
}

Task<Changed<void>> FileSystem::Deallocate(const RequestContext& context, const Handle& file, uint64_t offset,
                                           uint64_t length) {
  constexpr int kFlags = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
  const auto punch = [&](Tree::Touches& touches) {
    return tree_.ChangeSpace(context.credentials, file, offset, length, kFlags, touches);
  };
  co_return co_await ChangeAndSync(context, WorkKind::kData, punch);
}

Task<Changed<CopyReply>> FileSystem::Copy(const RequestContext& context, const Handle& from, uint64_t from_offset,
                                          const Handle& to, uint64_t to_offset, uint64_t count) {
  const auto copy = [&] { return tree_.Copy(context.credentials, from, from_offset, to, to_offset, count); };
  co_return co_await OnPool(context, pool_, WorkKind::kData, copy);
}

Task<Changed<void>> FileSystem::Clone(const RequestContext& context, const Handle& from, uint64_t from_offset,
                                      const Handle& to, uint64_t to_offset, uint64_t count) {
  const auto clone = [&](Tree::Touches& touches) {
    return tree_.Clone(context.credentials, from, from_offset, to, to_offset, count, touches);
  };
  co_return co_await ChangeAndSync(context, WorkKind::kData, clone);
}

Task<Result<void>> FileSystem::Advise(const RequestContext& context, const Handle& file, uint64_t offset,
                                      uint64_t count, Advice advice) {
  const auto advise = [&] { return tree_.Advise(context.credentials, file, offset, count, advice); };
  co_return co_await OnPool(context, pool_, WorkKind::kData, advise);
}

Task<Observed<std::vector<std::byte>>> FileSystem::GetXattr(const RequestContext& context, const Handle& object,
                                                            std::string_view name) {
  const auto get = [&] { return tree_.GetXattr(context.credentials, object, name); };
  co_return co_await OnPool(context, pool_, WorkKind::kMetadata, get);
}

Task<Changed<void>> FileSystem::SetXattr(const RequestContext& context, const Handle& object, std::string_view name,
                                         ConstBytes value, XattrMode mode) {
  const auto set = [&](Tree::Touches& touches) {
    return tree_.SetXattr(context.credentials, object, name, value, mode, touches);
  };
  co_return co_await ChangeAndSync(context, WorkKind::kMetadata, set);
}

Task<Changed<void>> FileSystem::RemoveXattr(const RequestContext& context, const Handle& object,
                                            std::string_view name) {
  const auto remove = [&](Tree::Touches& touches) {
    return tree_.RemoveXattr(context.credentials, object, name, touches);
  };
  co_return co_await ChangeAndSync(context, WorkKind::kMetadata, remove);
}

Task<Observed<std::vector<std::string>>> FileSystem::ListXattrs(const RequestContext& context, const Handle& object) {
  const auto list = [&] { return tree_.ListXattrs(context.credentials, object); };
  co_return co_await OnPool(context, pool_, WorkKind::kMetadata, list);
}

Task<Observed<Acls>> FileSystem::GetAcls(const RequestContext& context, const Handle& object) {
  const auto get = [&] { return tree_.GetAcls(object); };
  co_return co_await OnPool(context, pool_, WorkKind::kMetadata, get);
}

Task<Changed<void>> FileSystem::SetAcls(const RequestContext& context, const Handle& object, const NewAcls& acls) {
  const auto set = [&](Tree::Touches& touches) { return tree_.SetAcls(context.credentials, object, acls, touches); };
  co_return co_await ChangeAndSync(context, WorkKind::kMetadata, set);
}

}  // namespace penstock::fs::posix
