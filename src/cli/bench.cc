// penstock bench: what a server gives to one client on one connection.
#include <fmt/core.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/signal.h"
#include "cli/bench_report.h"
#include "cli/client_runtime.h"
#include "cli/commands.h"

namespace penstock::cli {
namespace {

constexpr uint32_t kLarge = 1 << 20;
constexpr uint32_t kSmall = 4 << 10;
// Share of the time for which operations run before they count.
constexpr double kWarmUp = 0.1;

double OwnCpuSeconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// Of all threads of a process on this machine.
std::optional<double> CpuSecondsOf(pid_t process) {
  clockid_t clock{};
  timespec time{};
  if (::clock_getcpuclockid(process, &clock) != 0 || ::clock_gettime(clock, &time) != 0) return std::nullopt;
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// Keeps `depth` operations under way for the time of a measurement.
class Run {
 public:
  Run(client::Mount& mount, const client::Node& directory, client::File& file, uint64_t file_size,
      Measurement& measurement)
      : mount_(mount), directory_(directory), file_(file), file_size_(file_size), measurement_(measurement) {
    switch (measurement.operation) {
      case Operation::kNull:
      case Operation::kGetAttributes:
        break;
      case Operation::kReadLarge:
        size_ = std::min(kLarge, mount.sizes().read);
        break;
      case Operation::kWriteLarge:
        size_ = std::min(kLarge, mount.sizes().write);
        break;
      case Operation::kReadSmall:
      case Operation::kWriteSmall:
        size_ = kSmall;
        break;
    }
  }

  Task<client::Result<void>> For(double seconds, pid_t server) {
    for (unsigned i = 0; i < measurement_.depth; ++i) {
      ++working_;
      Spawn(Work());
    }
    co_await Sleep(mount_.loop(), Seconds(seconds * kWarmUp));
    const TimePoint began = mount_.loop().Now();
    const double own_began = OwnCpuSeconds();
    const std::optional<double> server_began = server ? CpuSecondsOf(server) : std::nullopt;
    counting_ = true;
    // At least one: on a machine that is busy with other things, or with a server that is far away, the time may be short.
    do {
      co_await Sleep(mount_.loop(), Seconds(seconds));
    } while (measurement_.latency.count() == 0 && !error_);
    counting_ = false;
    stopping_ = true;
    const double own = OwnCpuSeconds() - own_began;
    const std::optional<double> server_ended = server ? CpuSecondsOf(server) : std::nullopt;
    measurement_.seconds = std::chrono::duration<double>(mount_.loop().Now() - began).count();
    while (working_ > 0) co_await ended_;

    if (error_) co_return std::unexpected(*std::move(error_));
    const double count = static_cast<double>(measurement_.latency.count());
    measurement_.octets = size_ * measurement_.latency.count();
    measurement_.client_cpu_us = own / count * 1e6;
    if (server_began && server_ended) measurement_.server_cpu_us = (*server_ended - *server_began) / count * 1e6;
    co_return client::Result<void>();
  }

 private:
  static Duration Seconds(double seconds) {
    return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
  }

  Task<void> Work() {
    const BufferRef buffer = mount_.loop().buffers().Allocate(std::max<uint32_t>(size_, 1));
    std::memset(buffer->data(), 0x5a, size_);
    while (!stopping_) {
      const TimePoint began = mount_.loop().Now();
      client::Result<void> done = co_await One(buffer->bytes().first(size_));
      if (!done) {
        error_ = std::move(done).error();
        stopping_ = true;
      } else if (counting_) {
        measurement_.latency.Add(mount_.loop().Now() - began);
      }
    }
    --working_;
    ended_.Notify();
  }

  Task<client::Result<void>> One(Bytes buffer) {
    switch (measurement_.operation) {
      case Operation::kNull:
        co_return co_await mount_.Ping();
      case Operation::kGetAttributes: {
        // Of the directory: those of the file may be known without asking, by a delegation.
        PENSTOCK_CO_TRY([[maybe_unused]] const auto attributes,
                        co_await mount_.GetAttributes(directory_.handle, "GETATTR"));
        break;
      }
      case Operation::kReadLarge:
      case Operation::kReadSmall: {
        PENSTOCK_CO_TRY(const auto read, co_await file_.Read(NextOffset(), buffer));
        if (read.count != buffer.size()) co_return std::unexpected(client::Error{"READ: short", std::nullopt});
        break;
      }
      case Operation::kWriteLarge:
      case Operation::kWriteSmall: {
        PENSTOCK_CO_TRY(const auto written, co_await file_.Write(NextOffset(), buffer));
        if (written.count != buffer.size()) co_return std::unexpected(client::Error{"WRITE: short", std::nullopt});
        break;
      }
    }
    co_return client::Result<void>();
  }

  // Large ones go through the file from its beginning, small ones anywhere (by xorshift, the same every time).
  uint64_t NextOffset() {
    const uint64_t places = file_size_ / size_;
    if (size_ != kSmall) return sequence_++ % places * size_;
    random_ ^= random_ << 13;
    random_ ^= random_ >> 7;
    random_ ^= random_ << 17;
    return random_ % places * size_;
  }

  client::Mount& mount_;
  const client::Node& directory_;
  client::File& file_;
  const uint64_t file_size_;
  Measurement& measurement_;
  uint32_t size_ = 0;
  uint64_t sequence_ = 0;
  uint64_t random_ = 0x9e3779b97f4a7c15;
  bool counting_ = false;
  bool stopping_ = false;
  unsigned working_ = 0;
  Signal ended_;
  std::optional<client::Error> error_;
};

Task<client::Result<void>> Fill(client::Mount& mount, client::File& file, uint64_t size) {
  const BufferRef buffer = mount.loop().buffers().Allocate(kLarge);
  std::memset(buffer->data(), 0x5a, kLarge);
  for (uint64_t done = 0; done < size;) {
    const Bytes part = buffer->bytes().first(std::min<uint64_t>(kLarge, size - done));
    PENSTOCK_CO_TRY(const auto written, co_await file.Write(done, part));
    done += written.count;
  }
  PENSTOCK_CO_TRY([[maybe_unused]] const auto verifier, co_await file.Commit());
  co_return client::Result<void>();
}

Task<client::Result<void>> Measure(client::Mount& mount, const client::Node& directory, client::File& file,
                                   const BenchOptions& options, std::vector<Measurement>& measurements) {
  PENSTOCK_CO_CHECK(co_await Fill(mount, file, options.file_size));
  for (Measurement& measurement : measurements) {
    Run run(mount, directory, file, options.file_size, measurement);
    PENSTOCK_CO_CHECK(co_await run.For(options.seconds, options.server_pid));
  }
  co_return client::Result<void>();
}

Task<client::Result<void>> BenchTask(client::Mount& mount, const BenchOptions& options,
                                     std::vector<Measurement>& measurements) {
  PENSTOCK_CO_TRY(const client::Node directory, co_await mount.Resolve(mount.path()));
  const std::string name = fmt::format(".penstock-bench-{}", ::getpid());
  PENSTOCK_CO_TRY(const auto file, co_await mount.CreateFile(directory.handle, name, 0600));
  client::Result<void> measured = co_await Measure(mount, directory, *file, options, measurements);
  client::Result<void> closed = co_await file->Close();
  client::Result<void> removed = co_await mount.Remove(directory.handle, name);
  if (!measured) co_return measured;
  if (!closed) co_return closed;
  co_return removed;
}

}  // namespace

int Bench(const BenchOptions& options) {
  const auto url = ParseUrl(options.url, options.vers);
  if (!url) {
    PrintError(url.error().message);
    return 1;
  }
  std::vector<Measurement> measurements;
  for (const std::string& name : options.operations) {
    const std::optional<Operation> operation = OperationOf(name);
    if (!operation) {
      PrintError(fmt::format("--ops {}: wants null, getattr, read1m, write1m, read4k or write4k", name));
      return 1;
    }
    for (const unsigned depth : options.depths) measurements.push_back({.operation = *operation, .depth = depth});
  }
  if (options.server_pid != 0 && !CpuSecondsOf(options.server_pid)) {
    PrintError(fmt::format("--server-pid {}: no such process on this machine", options.server_pid));
    return 1;
  }
  ClientRuntime runtime({}, options.rdma);
  if (const int code = runtime.Run(
          runtime.WithMount(*url, [&](client::Mount& mount) { return BenchTask(mount, options, measurements); }));
      code != 0)
    return code;
  fmt::print("{}", Table(measurements));
  if (options.json.empty()) return 0;
  const std::string text =
      Json(measurements, url->protocol == client::Protocol::kRdma ? "rdma" : "tcp", url->crc, options.file_size);
  std::FILE* out = std::fopen(options.json.c_str(), "w");
  const bool written = out && std::fwrite(text.data(), 1, text.size(), out) == text.size();
  if (!out || std::fclose(out) != 0 || !written) {
    PrintError(fmt::format("{}: {}", options.json, DescribeErrno(errno)));
    return 1;
  }
  return 0;
}

}  // namespace penstock::cli
