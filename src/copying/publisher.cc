#include "copying/publisher.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <utility>

namespace penstock::copying {
namespace {

// Up to this number, files and directories are made stable one by one. Beyond that, their file systems are.
constexpr size_t kFew = 8;
constexpr size_t kMostWaiting = 4096;
constexpr uint64_t kMostOctets = 256 << 20;
constexpr Duration kLongestWait = std::chrono::seconds(1);

// Returns errno, or 0. The descriptor of a directory that cannot be read has O_PATH, so that it cannot be synced: then
// this syncs all file systems.
int SyncFileSystem(int fd) {
  if (::syncfs(fd) == 0) return 0;
  if (errno != EBADF) return errno;
  ::sync();
  return 0;
}

// Makes a file of a directory stable. Returns errno, or 0.
int SyncFile(const HeldDirectory& directory, const std::string& name) {
  const int flags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
  const FileDescriptor file(::openat(directory.fd.get(), name.c_str(), flags));
  // The mode of the file may not let its owner read it.
  if (!file) return errno == EACCES ? SyncFileSystem(directory.fd.get()) : errno;
  return ::fsync(file.get()) == 0 ? 0 : errno;
}

// Returns errno, or 0. Some file systems cannot sync directories.
int SyncDirectory(const HeldDirectory& directory) {
  if (::fsync(directory.fd.get()) == 0 || errno == EINVAL) return 0;
  return errno == EBADF ? SyncFileSystem(directory.fd.get()) : errno;
}

}  // namespace

Publisher::Publisher(Loop& loop, Workers& workers)
    : loop_(loop), workers_(workers), timer_(loop.MakeTimer([this] { Flush(); })) {}
Publisher::~Publisher() = default;

Task<Result<void>> Publisher::Publish(std::shared_ptr<const HeldDirectory> directory, std::string temporary,
                                      std::string name, uint64_t octets) {
  Touch(directory);
  Waiting waiting{std::move(directory), std::move(temporary), std::move(name)};
  if (waiting_.empty()) timer_->ExpireAfter(kLongestWait);
  waiting_.push_back(&waiting);
  octets_ += octets;
  if (std::exchange(flush_next_, false) || waiting_.size() >= kMostWaiting || octets_ >= kMostOctets) Flush();
  const int error = co_await waiting.published;
  if (error != 0) co_return std::unexpected(LocalError(error));
  co_return Result<void>();
}

void Publisher::Flush() {
  flush_next_ = waiting_.empty();
  if (flush_next_) return;
  flush_ = true;
  if (!running_) Spawn(Run());
}

Task<void> Publisher::Run() {
  running_ = true;
  while (std::exchange(flush_, false)) {
    const std::vector<Waiting*> batch = std::exchange(waiting_, {});
    octets_ = 0;
    timer_->Cancel();
    co_await Offload(loop_, workers_, [&batch] {
      PublishAll(batch);
      return true;
    });
    // A file that waits ends with Set().
    for (Waiting* const each : batch) each->published.Set(each->error);
  }
  running_ = false;
}

void Publisher::PublishAll(const std::vector<Waiting*>& batch) {
  if (batch.size() <= kFew) {
    for (Waiting* const each : batch) each->error = SyncFile(*each->directory, each->temporary);
  } else {
    // The error of a file system is that of each of its files.
    std::map<uint64_t, int> errors;
    for (Waiting* const each : batch) {
      const auto [known, is_new] = errors.try_emplace(each->directory->device);
      if (is_new) known->second = SyncFileSystem(each->directory->fd.get());
      each->error = known->second;
    }
  }
  for (Waiting* const each : batch) {
    if (each->error != 0) continue;
    const int fd = each->directory->fd.get();
    if (::renameat(fd, each->temporary.c_str(), fd, each->name.c_str()) != 0) each->error = errno;
  }
}

void Publisher::Touch(const std::shared_ptr<const HeldDirectory>& directory) {
  file_systems_.try_emplace(directory->device, directory);
  if (touched_.size() <= kFew) touched_.insert(directory);
}

Task<Result<void>> Publisher::Finish() {
  const auto sync = [this] {
    int first = 0;
    const auto note = [&first](int error) { first = first == 0 ? error : first; };
    if (touched_.size() <= kFew) {
      for (const auto& directory : touched_) note(SyncDirectory(*directory));
    } else {
      for (const auto& [device, directory] : file_systems_) note(SyncFileSystem(directory->fd.get()));
    }
    return first;
  };
  const int error = co_await Offload(loop_, workers_, sync);
  touched_.clear();
  if (error != 0) co_return std::unexpected(LocalError(error));
  co_return Result<void>();
}

}  // namespace penstock::copying
