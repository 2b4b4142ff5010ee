#include "rdma/trace/file.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <cassert>
#include <cerrno>
#include <utility>

#include "base/file_io.h"
#include "base/log.h"
#include "base/result.h"
#include "base/thread.h"
#include "rdma/trace/pcapng.h"

namespace penstock::rdma::trace {
namespace {

constexpr std::string_view kOrigin =
    "The requests and completions of this program's RDMA endpoints, written as iWARP over an invented TCP connection "
    "(TCP "
    "checksums are zero). The peer's own Reads and Writes of our memory are not seen here.";
// The octets of the queue that packets do not use. They hold the blocks at the beginning and at the end of the file.
constexpr size_t kReserve = 1024;

}  // namespace

SetupResult<std::unique_ptr<File>> File::Open(const std::filesystem::path& path, Duration epoch, Options options) {
  FileDescriptor file(
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | (options.only_new ? O_EXCL : O_TRUNC), 0600));
  if (!file)
    return std::unexpected(
        SetupError{fmt::format("cannot write the trace {}: {}", path.native(), DescribeErrno(errno))});
  return std::unique_ptr<File>(new File(std::move(file), path, epoch, options));
}

Duration File::RealEpoch() {
  return std::chrono::system_clock::now().time_since_epoch() - std::chrono::steady_clock::now().time_since_epoch();
}

File::File(FileDescriptor file, std::filesystem::path path, Duration epoch, Options options)
    : file_(std::move(file)), path_(std::move(path)), epoch_(epoch), options_(options) {
  queue_.reserve(options_.max_queued + kReserve);
  writing_.reserve(options_.max_queued + kReserve);
  AppendSectionHeader(queue_, "penstock");
  AppendInterface(queue_, "rdma", kOrigin);
  assert(queue_.size() < kReserve / 2);
  thread_ = StartThread("penstock-trace", [this] { Run(); });
}

File::~File() { Finish(); }

void File::Finish() {
  std::call_once(finished_, [this] {
    {
      std::lock_guard lock(mutex_);
      if (!failed_) AppendStatistics(queue_, last_stamp_, received_, lost_);
      closing_ = true;
    }
    changed_.notify_one();
    thread_.join();
    if (lost_ > 0)
      log::warn("trace {}: {} of {} packets dropped: the disk was too slow", path_.native(), lost_, received_);
  });
}

void File::Add(TimePoint when, ConstBytes packet, std::string_view comment) {
  bool wake;
  {
    std::lock_guard lock(mutex_);
    if (failed_ || closing_) return;
    wake = queue_.empty();
    Push(when, packet, comment);
  }
  if (wake) changed_.notify_one();
}

void File::Push(TimePoint when, ConstBytes packet, std::string_view comment) {
  ++received_;
  if (queue_.size() + PacketBlockBound(packet, comment) > options_.max_queued) {
    ++lost_;
    ++lost_since_last_;
    return;
  }
  last_stamp_ = static_cast<uint64_t>((when.time_since_epoch() + epoch_).count());
  AppendPacket(queue_, last_stamp_, packet, comment, std::exchange(lost_since_last_, 0));
}

uint64_t File::lost() const {
  std::lock_guard lock(mutex_);
  return lost_;
}

void File::Run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return !queue_.empty() || closing_; });
    if (queue_.empty()) return;
    std::swap(queue_, writing_);
    lock.unlock();
    const auto written = WriteAll(file_.get(), writing_);
    writing_.clear();
    lock.lock();
    if (written) continue;
    failed_ = true;
    queue_.clear();
    log::warn("trace {}: {}: tracing has stopped", path_.native(), DescribeErrno(written.error()));
    return;
  }
}

}  // namespace penstock::rdma::trace
