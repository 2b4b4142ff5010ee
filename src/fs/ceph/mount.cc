#include "fs/ceph/mount.h"

#include <fcntl.h>

#include <cerrno>
#include <utility>

#include "base/log.h"
#include "base/random.h"
#include "base/thread.h"

namespace penstock::fs::ceph {
namespace {

using std::chrono::steady_clock;

// How long files stay open, and objects stay known, that no call uses.
constexpr std::chrono::seconds kUnused{2};
constexpr std::chrono::milliseconds kInterval{500};
constexpr std::chrono::seconds kBetweenMounts{2};

uint64_t NewVerifier() {
  uint64_t value = 0;
  FillRandomly(std::as_writable_bytes(std::span(&value, 1)));
  return value;
}

}  // namespace

Mount::Mount(Location location, Module& module, std::chrono::seconds patience, Workers& pool,
             std::shared_ptr<Client> client, const InodeNumber& root)
    : location_(std::move(location)),
      module_(module),
      patience_(patience),
      root_(root),
      verifier_(NewVerifier()),
      pool_(&pool),
      session_(Adopt(std::move(client))) {}

void Mount::Start() {
  keeper_ = StartThread("penstock-ceph", [this] { Keep(); });
}

void Mount::Stop() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
    wake_.notify_one();
  }
  keeper_.join();
  if (const SessionRef session = Current()) CloseUnused(*session, TimePoint::max());
  const std::lock_guard lock(mutex_);
  pool_ = nullptr;
}

SessionRef Mount::Adopt(std::shared_ptr<Client> client) {
  client->OnWantsFewer([this] {
    const std::lock_guard lock(mutex_);
    wants_fewer_ = true;
  });
  return std::make_shared<Session>(std::move(client));
}

SessionRef Mount::Current() const {
  const std::lock_guard lock(mutex_);
  return session_;
}

void Mount::NoteEnded(const SessionRef& session) {
  const std::lock_guard lock(mutex_);
  if (session_ != session || !pool_) return;
  log::warn(
      "{}: the cluster has ended the mount of this server (it was evicted, or did not answer for too long); "
      "it mounts again",
      ToString(location_));
  std::vector<Kept> files;
  for (auto& [number, kept] : pinned_) files.push_back({0, std::move(kept.file), std::move(kept.object)});
  verifier_.fetch_add(1);
  // The end of a mount takes time.
  pool_->Post(
      [self = shared_from_this(), ended = std::exchange(session_, nullptr), files = std::move(files)]() mutable {
        files.clear();
        ended.reset();
      });
  wake_.notify_one();
}

int Mount::Pin(const SessionRef& session, const ObjectRef& object) {
  FileRef file;
  if (const int code = object->OpenForReading(file); code < 0) return code;
  const std::lock_guard lock(mutex_);
  // A mount that is made again opens the files that were pinned before it.
  if (session != session_) return -ENOTCONN;
  Kept& kept = pinned_[object->number()];
  ++kept.pins;
  if (!kept.file) kept.file = file, kept.object = object;
  return 0;
}

void Mount::Unpin(const InodeNumber& number) {
  Kept kept;
  {
    const std::lock_guard lock(mutex_);
    const auto found = pinned_.find(number);
    if (--found->second.pins != 0) return;
    kept = std::move(found->second);
    pinned_.erase(found);
    if (pool_) pool_->Post([self = shared_from_this(), kept = std::exchange(kept, {})]() mutable { kept = {}; });
  }
}

bool Mount::is_pinned(const InodeNumber& number) const {
  const std::lock_guard lock(mutex_);
  return pinned_.contains(number);
}

void Mount::Keep() {
  std::unique_lock lock(mutex_);
  while (!ends_) {
    if (!session_) {
      lock.unlock();
      SessionRef mounted = MountAgain();
      lock.lock();
      session_ = std::move(mounted);
      if (!session_) wake_.wait_for(lock, kBetweenMounts, [&] { return ends_; });
      continue;
    }
    if (!is_closing_) {
      is_closing_ = true;
      const TimePoint before = steady_clock::now() - (std::exchange(wants_fewer_, false) ? Duration() : kUnused);
      // A cluster that stalls holds up the pool's thread, not this one.
      pool_->Post([self = shared_from_this(), session = session_, before] {
        self->CloseUnused(*session, before);
        const std::lock_guard done(self->mutex_);
        self->is_closing_ = false;
      });
    }
    wake_.wait_for(lock, kInterval, [&] { return ends_ || !session_; });
  }
}

void Mount::CloseUnused(Session& session, TimePoint before) {
  for (const ObjectRef& each : session.objects.Unused(before)) each->CloseFiles(verifier_);
  // Their ends give references back, which may block.
  session.objects.TakeUnused(before).clear();
}

SessionRef Mount::MountAgain() {
  // Without a name. Two servers that have one name by mistake would end each other's mounts without an end.
  auto mounted = module_.Mount(location_, "", patience_);
  if (!mounted) {
    log::warn("{}", mounted.error().message);
    return nullptr;
  }
  const std::shared_ptr<Client> client = *std::move(mounted);
  Inode* root = nullptr;
  Stat stat;
  int code = client->Root(root);
  if (code >= 0) {
    code = client->GetAttributes(root, stat, Client::Freshness::kCurrent);
    client->Put(root);
  }
  if (code < 0 || stat.number != root_) {
    log::warn(
        "{}: {}", ToString(location_),
        code < 0 ? DescribeErrno(-code) : "another directory has this path now; the export waits for the old one");
    return nullptr;
  }
  SessionRef session = Adopt(client);
  std::vector<InodeNumber> numbers;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [number, kept] : pinned_) numbers.push_back(number);
  }
  for (const InodeNumber& number : numbers) {
    // A file without a name may be gone: its handle is stale then.
    Inode* inode = nullptr;
    if (client->Find(number, inode) < 0) continue;
    Kept again;
    again.object = session->objects.Insert(std::make_shared<Object>(client, number, inode, FileType::kRegular));
    if (again.object->OpenForReading(again.file) < 0) continue;
    // A file that was unpinned meanwhile is closed after the lock is released.
    const std::lock_guard lock(mutex_);
    const auto kept = pinned_.find(number);
    if (kept == pinned_.end()) continue;
    std::swap(kept->second.file, again.file);
    std::swap(kept->second.object, again.object);
  }
  log::info("{}: mounted again", ToString(location_));
  return session;
}

}  // namespace penstock::fs::ceph
