#include "fs/ceph/file_system.h"

#include <algorithm>
#include <atomic>
#include <coroutine>
#include <optional>
#include <semaphore>
#include <type_traits>
#include <utility>

#include "base/log.h"
#include "base/loop.h"
#include "base/timer.h"
#include "fs/errno.h"

namespace penstock::fs::ceph {
namespace {

// The result of a call that was not executed.
template <class T>
struct Refusal;
template <class T>
struct Refusal<Result<T>> {
  static Result<T> Of(Error error) { return std::unexpected(error); }
};
template <class T>
struct Refusal<Observed<T>> {
  static Observed<T> Of(Error error) { return {std::unexpected(error), {}}; }
};
template <class T>
struct Refusal<Changed<T>> {
  static Changed<T> Of(Error error) { return {std::unexpected(error), {}}; }
};
template <>
struct Refusal<Renamed> {
  static Renamed Of(Error error) { return {std::unexpected(error), {}, {}}; }
};
template <>
struct Refusal<Linked> {
  static Linked Of(Error error) { return {std::unexpected(error), {}, {}}; }
};

// A function that waits for a thread, and may be given up until it begins.
template <class Function>
class Waiting {
  using T = std::invoke_result_t<Function&>;

 public:
  Waiting(Loop& loop, Function function) : loop_(loop), function_(std::move(function)) {}

  // On the loop.
  void Start(Workers& pool, const ClientKey& client, WorkKind work, Duration limit, std::coroutine_handle<> waiter) {
    waiter_ = waiter;
    state_ = std::make_shared<std::atomic<State>>(State::kWaits);
    timer_ = loop_.MakeTimer([this] {
      if (!Move(*state_, State::kGivenUp)) return;
      result_.emplace(Refusal<T>::Of(Error::kDelay));
      loop_.Post(waiter_);  // this object, with the timer, ends when the waiter resumes
    });
    timer_->ExpireAfter(limit);
    pool.Post(
        [this, state = state_] {
          // This object may be gone by now.
          if (!Move(*state, State::kRuns)) return;
          result_.emplace(function_());
          loop_.Post(waiter_);
        },
        client, work);
  }
  T Take() { return std::move(*result_); }

 private:
  enum class State : uint8_t { kWaits, kRuns, kGivenUp };
  static bool Move(std::atomic<State>& state, State to) {
    State expected = State::kWaits;
    return state.compare_exchange_strong(expected, to);
  }

  Loop& loop_;
  Function function_;
  std::coroutine_handle<> waiter_;
  std::shared_ptr<std::atomic<State>> state_;
  std::unique_ptr<Timer> timer_;
  std::optional<T> result_;
};

}  // namespace

template <class Function>
auto FileSystem::OnThread(const RequestContext& context, WorkKind work, Function function) {
  struct Awaiter {
    Waiting<Function> waiting;
    Workers& pool;
    ClientKey client;
    WorkKind work;
    Duration limit;

    bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<> waiter) { waiting.Start(pool, client, work, limit, waiter); }
    auto await_resume() { return waiting.Take(); }
  };
  return Awaiter{Waiting<Function>(*context.loop, std::move(function)), *pool_, context.client, work,
                 options_.wait_for_thread};
}

SetupResult<std::shared_ptr<FileSystem>> FileSystem::Open(const Location& location, Module& module,
                                                          const Options& options, std::unique_ptr<Client> mounted) {
  if (!mounted) {
    PENSTOCK_TRY(mounted, module.Mount(location, options.mount_name, options.patience));
  }
  const std::shared_ptr<Client> client = std::move(mounted);
  Inode* root = nullptr;
  Stat stat;
  int code = client->Root(root);
  if (code >= 0) code = client->GetAttributes(root, stat, Client::Freshness::kCurrent);
  const auto fail = [&](const std::string& what) {
    if (root) client->Put(root);
    return std::unexpected(SetupError{ToString(location) + ": " + what});
  };
  if (code < 0) return fail(DescribeErrno(-code));
  if (stat.number.snapshot != kNoSnapshot) {
    return fail("a snapshot cannot be exported; export the directory, whose clients find its snapshots in .snap");
  }
  const SetupResult<SipKey> key = LoadHandleKey(*client, root);
  if (!key) return fail(key.error().message);
  SetupResult<Covers> covers = Covers::Make(*client, root, options.others);
  if (!covers) return fail(covers.error().message);
  client->Put(root);
  Properties properties;
  properties.max_file_size = client->max_file_size();
  properties.link_max = UINT32_MAX;
  properties.name_max = kNameMax;
  properties.xattrs = true;
  properties.acls = true;
  properties.has_other_servers = true;
  std::string digested;
  for (const std::string& path : options.others) digested += path + '\0';
  Handles handles(*key, options.export_name, stat.number, client->fsid(), AsBytes(digested));
  auto pool = std::make_unique<Workers>(options.threads, Workers::AtEnd::kWait,
                                        Workers::ThreadSettings{.name = "penstock-ceph"});
  auto mount = std::make_shared<Mount>(location, module, options.patience, *pool, client, stat.number);
  mount->Start();
  Tree tree(std::move(mount), std::move(handles), *std::move(covers), stat.number, options.sync_metadata);
  return std::shared_ptr<FileSystem>(
      new FileSystem(std::move(pool), std::move(tree), options, properties, client->fsid()));
}

std::optional<bool> FileSystem::StillCovers(std::span<const std::string> others) const {
  if (!std::ranges::equal(others, options_.others)) return false;
  if (others.empty()) return true;
  const SessionRef session = tree_->mount().Current();
  Inode* root = nullptr;
  if (!session || session->client->Root(root) < 0) return std::nullopt;
  const auto covers = Covers::Make(*session->client, root, others);
  session->client->Put(root);
  if (!covers) return std::nullopt;
  return *covers == tree_->covers();
}

// No call is running any more. What syncs files, and ends the mount, may wait for a cluster that stalls.
FileSystem::~FileSystem() {
  struct Ending {
    Ending(std::unique_ptr<Tree> its_tree, std::unique_ptr<Workers> its_pool)
        : tree(std::move(its_tree)), pool(std::move(its_pool)) {}
    std::unique_ptr<Tree> tree;
    std::unique_ptr<Workers> pool;
    std::binary_semaphore ended{0};
  };
  const auto ending = std::make_shared<Ending>(std::move(tree_), std::move(pool_));
  const std::string location = ToString(ending->tree->mount().location());
  Workers thread(1, Workers::AtEnd::kLeave, Workers::ThreadSettings{.name = "penstock-ceph"});
  thread.Post([ending] {
    ending->tree->mount().Stop();
    ending->pool.reset();
    ending->tree.reset();
    ending->ended.release();
  });
  if (!ending->ended.try_acquire_for(options_.patience)) {
    log::warn("{}: the cluster does not answer; data that clients have not committed may be lost", location);
  }
}

Task<Result<Attributes>> FileSystem::GetAttributes(const RequestContext& context, const Handle& object) {
  co_return co_await OnThread(context, WorkKind::kMetadata, [&] { return tree_->GetAttributes(object); });
}

Task<Changed<void>> FileSystem::SetAttributes(const RequestContext& context, const Handle& object,
                                              const NewAttributes& values, std::optional<Timestamp> guard) {
  co_return co_await OnThread(context, WorkKind::kMetadata,
                              [&] { return tree_->SetAttributes(context.credentials, object, values, guard); });
}

Task<Observed<Node>> FileSystem::Lookup(const RequestContext& context, const Handle& directory, std::string_view name) {
  co_return co_await OnThread(context, WorkKind::kMetadata,
                              [&] { return tree_->Lookup(context.credentials, directory, name); });
}

Task<Observed<AccessMask>> FileSystem::Access(const RequestContext& context, const Handle& object, AccessMask wanted) {
  co_return co_await OnThread(context, WorkKind::kMetadata,
                              [&] { return tree_->Access(context.credentials, object, wanted); });
}

Task<Observed<std::string>> FileSystem::ReadLink(const RequestContext& context, const Handle& symlink) {
  co_return co_await OnThread(context, WorkKind::kMetadata, [&] { return tree_->ReadLink(symlink); });
}

Task<Observed<ReadReply>> FileSystem::Read(const RequestContext& context, const Handle& file, uint64_t offset,
                                           uint32_t count) {
  const BufferRef buffer = context.loop->buffers().Allocate(count);
  const Bytes room = buffer->bytes().first(count);
  const auto read = [&] { return tree_->Read(context.credentials, file, offset, room); };
  const Observed<Tree::Piece> piece = co_await OnThread(context, WorkKind::kData, read);
  if (!piece.result) co_return Observed<ReadReply>{std::unexpected(piece.result.error()), piece.attributes};
  co_return Observed<ReadReply>{ReadReply{Slice(buffer, room.first(piece.result->size)), piece.result->eof},
                                piece.attributes};
}

Task<Changed<WriteReply>> FileSystem::Write(const RequestContext& context, const Handle& file, uint64_t offset,
                                            const Data& given, Stability stability) {
  (void)co_await given.AllArrived();
  const Data data = given.Sub(0, given.arrived());
  // A range of a file is read by the thread.
  const BufferRef room = data.is_file() ? context.loop->buffers().Allocate(data.size()) : BufferRef();
  const auto write = [&]() -> Changed<WriteReply> {
    if (!data.is_file()) return tree_->Write(context.credentials, file, offset, data.bytes(), stability);
    const Bytes octets = room->bytes().first(data.size());
    if (const auto read = data.CopyTo(octets); !read) return {std::unexpected(FromErrno(read.error().value())), {}};
    return tree_->Write(context.credentials, file, offset, octets, stability);
  };
  co_return co_await OnThread(context, WorkKind::kData, write);
}

Task<Changed<WriteVerifier>> FileSystem::Commit(const RequestContext& context, const Handle& file) {
  co_return co_await OnThread(context, WorkKind::kData, [&] { return tree_->Commit(file); });
}

Task<Changed<Node>> FileSystem::Create(const RequestContext& context, const Handle& directory, std::string_view name,
                                       const CreateHow& how) {
  co_return co_await OnThread(context, WorkKind::kMetadata,
                              [&] { return tree_->Create(context.credentials, directory, name, how); });
}

Task<Changed<Node>> FileSystem::MakeDirectory(const RequestContext& context, const Handle& directory,
                                              std::string_view name, const NewAttributes& attributes) {
  co_return co_await OnThread(context, WorkKind::kMetadata,
                              [&] { return tree_->MakeDirectory(context.credentials, directory, name, attributes); });
}

Task<Changed<Node>> FileSystem::MakeSymlink(const RequestContext& context, const Handle& directory,
                                            std::string_view name, std::string_view target,
                                            const NewAttributes& attributes) {
  co_return co_await OnThread(context, WorkKind::kMetadata, [&] {
    return tree_->MakeSymlink(context.credentials, directory, name, target, attributes);
  });
}

Task<Changed<Node>> FileSystem::MakeNode(const RequestContext& context, const Handle& directory, std::string_view name,
                                         const NodeType& type, const NewAttributes& attributes) {
  co_return co_await OnThread(context, WorkKind::kMetadata,
                              [&] { return tree_->MakeNode(context.credentials, directory, name, type, attributes); });
}

Task<Changed<void>> FileSystem::Remove(const RequestContext& context, const Handle& directory, std::string_view name) {
  co_return co_await OnThread(context, WorkKind::kMetadata,
                              [&] { return tree_->Remove(context.credentials, directory, name); });
}

Task<Changed<void>> FileSystem::RemoveDirectory(const RequestContext& context, const Handle& directory,
                                                std::string_view name) {
  co_return co_await OnThread(context, WorkKind::kMetadata,
                              [&] { return tree_->RemoveDirectory(context.credentials, directory, name); });
}

Task<Renamed> FileSystem::Rename(const RequestContext& context, const Handle& from_directory,
                                 std::string_view from_name, const Handle& to_directory, std::string_view to_name) {
  co_return co_await OnThread(context, WorkKind::kMetadata, [&] {
    return tree_->Rename(context.credentials, from_directory, from_name, to_directory, to_name);
  });
}

Task<Linked> FileSystem::Link(const RequestContext& context, const Handle& file, const Handle& directory,
                              std::string_view name) {
  co_return co_await OnThread(context, WorkKind::kMetadata,
                              [&] { return tree_->Link(context.credentials, file, directory, name); });
}

Task<Observed<ReadDirectoryReply>> FileSystem::ReadDirectory(const RequestContext& context, const Handle& directory,
                                                             const ReadDirectoryArguments& arguments, EntrySink& sink) {
  co_return co_await OnThread(context, WorkKind::kMetadata,
                              [&] { return tree_->ReadDirectory(context.credentials, directory, arguments, sink); });
}

Task<Observed<Space>> FileSystem::GetSpace(const RequestContext& context, const Handle& object) {
  co_return co_await OnThread(context, WorkKind::kMetadata, [&] { return tree_->GetSpace(object); });
}

Task<Result<Pinned>> FileSystem::Pin(const RequestContext& context, const Handle& file) {
  co_return co_await OnThread(context, WorkKind::kMetadata, [&] { return tree_->Pin(file); });
}

Task<LeaseReply> FileSystem::OpenLease(const RequestContext& /*context*/, const Handle& /*file*/) {
  co_return LeaseReply{.contended = true};
}

Task<Observed<SeekReply>> FileSystem::Seek(const RequestContext& context, const Handle& file, uint64_t offset,
                                           SeekWhat what) {
  co_return co_await OnThread(context, WorkKind::kMetadata,
                              [&] { return tree_->Seek(context.credentials, file, offset, what); });
}

Task<Changed<void>> FileSystem::Allocate(const RequestContext& context, const Handle& file, uint64_t offset,
                                         uint64_t length) {
  co_return co_await OnThread(context, WorkKind::kMetadata,
                              [&] { return tree_->Allocate(context.credentials, file, offset, length); });
}

Task<Changed<void>> FileSystem::Deallocate(const RequestContext& context, const Handle& file, uint64_t offset,
                                           uint64_t length) {
  co_return co_await OnThread(context, WorkKind::kData,
                              [&] { return tree_->Deallocate(context.credentials, file, offset, length); });
}

Task<Changed<CopyReply>> FileSystem::Copy(const RequestContext& context, const Handle& from, uint64_t from_offset,
                                          const Handle& to, uint64_t to_offset, uint64_t count) {
  co_return co_await OnThread(context, WorkKind::kData, [&] {
    return tree_->Copy(context.credentials, from, from_offset, to, to_offset, count);
  });
}

Task<Changed<void>> FileSystem::Clone(const RequestContext& context, const Handle& from, uint64_t, const Handle& to,
                                      uint64_t, uint64_t) {
  co_return co_await OnThread(context, WorkKind::kMetadata,
                              [&] { return tree_->Clone(context.credentials, from, to); });
}

Task<Result<void>> FileSystem::Advise(const RequestContext& context, const Handle& file, uint64_t, uint64_t, Advice) {
  co_return co_await OnThread(context, WorkKind::kMetadata, [&] { return tree_->Advise(context.credentials, file); });
}

Task<Observed<std::vector<std::byte>>> FileSystem::GetXattr(const RequestContext& context, const Handle& object,
                                                            std::string_view name) {
  co_return co_await OnThread(context, WorkKind::kMetadata,
                              [&] { return tree_->GetXattr(context.credentials, object, name); });
}

Task<Changed<void>> FileSystem::SetXattr(const RequestContext& context, const Handle& object, std::string_view name,
                                         ConstBytes value, XattrMode mode) {
  co_return co_await OnThread(context, WorkKind::kMetadata,
                              [&] { return tree_->SetXattr(context.credentials, object, name, value, mode); });
}

Task<Changed<void>> FileSystem::RemoveXattr(const RequestContext& context, const Handle& object,
                                            std::string_view name) {
  co_return co_await OnThread(context, WorkKind::kMetadata,
                              [&] { return tree_->RemoveXattr(context.credentials, object, name); });
}

Task<Observed<std::vector<std::string>>> FileSystem::ListXattrs(const RequestContext& context, const Handle& object) {
  co_return co_await OnThread(context, WorkKind::kMetadata,
                              [&] { return tree_->ListXattrs(context.credentials, object); });
}

Task<Observed<Acls>> FileSystem::GetAcls(const RequestContext& context, const Handle& object) {
  co_return co_await OnThread(context, WorkKind::kMetadata, [&] { return tree_->GetAcls(object); });
}

Task<Changed<void>> FileSystem::SetAcls(const RequestContext& context, const Handle& object, const NewAcls& acls) {
  co_return co_await OnThread(context, WorkKind::kMetadata,
                              [&] { return tree_->SetAcls(context.credentials, object, acls); });
}

}  // namespace penstock::fs::ceph
