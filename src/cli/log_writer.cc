#include "cli/log_writer.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string_view>
#include <utility>

#include "base/data.h"
#include "base/log.h"
#include "base/result.h"
#include "base/thread.h"

namespace penstock::cli {
namespace {

// Writes all octets, and waits for a file that does not block. Returns errno on failure, with the number of octets
// that were written before it in `written`.
Result<void, int> WriteLine(int file, std::string_view line, size_t& written) {
  written = 0;
  while (written < line.size()) {
    // A short line is one write(2), so that lines of several processes do not mix.
    const ssize_t count = ::write(file, line.data() + written, line.size() - written);
    if (count >= 0) {
      written += static_cast<size_t>(count);
    } else if (errno == EAGAIN) {
      pollfd writable{.fd = file, .events = POLLOUT, .revents = 0};
      ::poll(&writable, 1, -1);
    } else if (errno != EINTR) {
      return std::unexpected(errno);
    }
  }
  return {};
}

struct Entry {
  std::string line;   // empty: the number of lost messages
  uint64_t lost = 0;  // messages that were lost at this place
  int error = 0;      // why they were lost, an errno value; 0: the queue was full
};

}  // namespace

struct LogWriter::Shared {
  Shared(int of, size_t most) : file(of), most_octets(most) {}

  // These three require the mutex.
  void Push(Entry entry) {
    octets += entry.line.size();
    ++pushed;
    queue.push_back(std::move(entry));
  }
  void PushLost() {
    if (lost > 0) Push({.line = {}, .lost = std::exchange(lost, 0), .error = std::exchange(error, 0)});
  }
  void Lose(uint64_t count, int why) {
    lost += count;
    error = why;
  }

  // Writes an entry. Only one thread at a time may do this. Requires no mutex.
  Result<void, int> Write(const Entry& entry, LogFormat lines_format) {
    // A line that was cut off would spoil the next one.
    std::string line = is_cut_off ? "\n" : "";
    line += entry.lost > 0 ? LineOfLost(entry, lines_format) : entry.line;
    size_t written = 0;
    const auto result = WriteLine(file, line, written);
    if (written > 0) is_cut_off = line[written - 1] != '\n';
    return result;
  }
  static std::string LineOfLost(const Entry& entry, LogFormat format) {
    const std::string message =
        fmt::format("{} messages were lost: standard error {}", entry.lost,
                    entry.error == 0 ? "was not read fast enough"
                                     : fmt::format("could not be written ({})", DescribeErrno(entry.error)));
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    return FormatLogLine(format, {.level = log::Level::kWarn, .module = "cli", .message = message},
                         std::chrono::duration_cast<std::chrono::microseconds>(now).count()) +
           "\n";
  }

  const int file;
  const size_t most_octets;
  bool is_cut_off = false;  // the last octet written is not the end of a line

  std::mutex mutex;  // guards the following
  std::condition_variable changed;
  LogFormat format = LogFormat::kText;
  std::deque<Entry> queue;
  size_t octets = 0;        // of the lines in the queue
  uint64_t pushed = 0;      // entries that were put into the queue so far
  uint64_t done = 0;        // of these, those that were written or lost
  uint64_t lost = 0;        // messages that were lost, and that no entry tells yet
  int error = 0;            // why, as in Entry
  bool has_failed = false;  // the last write
  bool has_thread = false;
  bool ends = false;
  bool has_ended = false;
};

LogWriter::LogWriter(int file, size_t most_octets) : shared_(std::make_shared<Shared>(file, most_octets)) {}

LogWriter::~LogWriter() { End(Duration::zero()); }

void LogWriter::Start() {
  const std::lock_guard lock(shared_->mutex);
  thread_ = StartThread("penstock-log", [shared = shared_] { Run(*shared); });
  shared_->has_thread = true;
}

void LogWriter::SetFormat(LogFormat format) {
  const std::lock_guard lock(shared_->mutex);
  shared_->format = format;
}

void LogWriter::Add(std::string line) { Add(std::move(line), false); }

void LogWriter::AddAnyway(std::string line) { Add(std::move(line), true); }

void LogWriter::Add(std::string line, bool anyway) {
  Shared& shared = *shared_;
  const std::lock_guard lock(shared.mutex);
  if (shared.ends) return;
  if (!shared.has_thread) {
    // Nobody could be told of an error.
    (void)shared.Write({.line = std::move(line)}, shared.format);
    return;
  }
  // Once messages are lost, wait for room for many, so that few lines tell of lost ones.
  const size_t most = shared.lost > 0 && shared.error == 0 ? shared.most_octets / 2 : shared.most_octets;
  if (!anyway && shared.octets + line.size() > most) return shared.Lose(1, 0);
  shared.PushLost();
  shared.Push({.line = std::move(line)});
  shared.changed.notify_all();
}

bool LogWriter::Flush(Duration limit) {
  Shared& shared = *shared_;
  std::unique_lock lock(shared.mutex);
  if (!shared.has_thread) return true;
  if (!shared.has_failed) shared.PushLost();
  shared.changed.notify_all();
  return shared.changed.wait_for(lock, limit,
                                 [&shared, last = shared.pushed] { return shared.done >= last || shared.has_ended; });
}

bool LogWriter::End(std::optional<Duration> limit) {
  if (!thread_.joinable()) return true;
  {
    Shared& shared = *shared_;
    std::unique_lock lock(shared.mutex);
    shared.ends = true;
    shared.changed.notify_all();
    const auto has_ended = [&shared] { return shared.has_ended; };
    if (!limit) {
      shared.changed.wait(lock, has_ended);
    } else if (!shared.changed.wait_for(lock, *limit, has_ended)) {
      thread_.detach();
      return false;
    }
  }
  thread_.join();
  return true;
}

void LogWriter::Run(Shared& shared) {
  std::unique_lock lock(shared.mutex);
  for (;;) {
    // If the last write has failed, this would fail likewise, again and again: the next message tells of it.
    if (shared.queue.empty() && !shared.has_failed) shared.PushLost();
    if (shared.queue.empty() && shared.ends) break;
    if (shared.queue.empty()) {
      shared.changed.wait(lock);
      continue;
    }
    const Entry next = std::move(shared.queue.front());
    shared.queue.pop_front();
    shared.octets -= next.line.size();
    const LogFormat format = shared.format;
    lock.unlock();
    const auto written = shared.Write(next, format);
    lock.lock();
    ++shared.done;
    shared.has_failed = !written;
    if (!written) shared.Lose(next.lost > 0 ? next.lost : 1, written.error());
    shared.changed.notify_all();
  }
  shared.has_ended = true;
  shared.changed.notify_all();
}

}  // namespace penstock::cli
