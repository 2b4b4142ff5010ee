// penstock bench: measures the performance of a server for one client on one connection.
#include <fmt/core.h>
#include <sys/resource.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/signal.h"
#include "cli/bench_report.h"
#include "cli/client_runtime.h"
#include "cli/commands.h"
#include "cli/interface.h"
#include "cli/output.h"

namespace penstock::cli {
namespace {

struct BenchOptions : AccessOptions {
  std::string url;  // of a directory
  std::vector<std::string> operations = {"null", "getattr", "read1m", "write1m", "read4k", "write4k"};
  std::vector<unsigned> depths = {1, 8, 32};
  double seconds = 1;  // for each measurement
  double rate = 0;     // operations per second; 0: as many as possible
  uint64_t file_size = 64 << 20;
  std::string json;  // the name of a file; empty: none
  RdmaOptions rdma;
  int32_t server_pid = 0;  // 0: do not measure the server's CPU time
};

using Kind = Operation::Kind;

constexpr std::string_view kOperationNames = "null, getattr, setattr, mkdir, readSIZE, writeSIZE (4k, 64k, 1m, ...)";
// After a sleep of at most this length, a task notices that the measurement has ended.
constexpr Duration kLongestSleep = std::chrono::milliseconds(50);
// The lowest rate but 0.
constexpr double kLowestRate = 0.01;
// Operations run for this share of a measurement's time before they count.
constexpr double kWarmUp = 0.1;

double OwnCpuSeconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// The CPU time of all threads of a process on this machine. Returns nothing if there is no such process.
std::optional<double> CpuSecondsOf(pid_t process) {
  clockid_t clock{};
  timespec time{};
  if (::clock_getcpuclockid(process, &clock) != 0 || ::clock_gettime(clock, &time) != 0) return std::nullopt;
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// One measurement: keeps `depth` operations under way at all times, and records how long each takes.
class Run {
 public:
  Run(client::Mount& mount, const client::Node& directory, client::File& file, const BenchOptions& options,
      Measurement& measurement)
      : mount_(mount),
        directory_(directory),
        file_(file),
        file_size_(options.file_size),
        interval_(options.rate > 0 ? Seconds(1 / options.rate) : Duration::zero()),
        measurement_(measurement) {}

  Task<client::Result<void>> For(double seconds, pid_t server) {
    PENSTOCK_CO_CHECK(SetSize());
    next_ = mount_.loop().Now();
    for (unsigned i = 0; i < measurement_.depth; ++i) {
      ++working_;
      Spawn(Work(i));
    }
    co_await Sleep(mount_.loop(), Seconds(seconds * kWarmUp));
    const TimePoint began = mount_.loop().Now();
    const double own_began = OwnCpuSeconds();
    const std::optional<double> server_began = server ? CpuSecondsOf(server) : std::nullopt;
    counting_ = true;
    // At least one operation must count, also if the machine is busy or the server is far away.
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

  // The largest operation takes what the server takes. Smaller sizes are what the user wants to measure.
  client::Result<void> SetSize() {
    const auto [kind, size] = measurement_.operation;
    if (kind != Kind::kRead && kind != Kind::kWrite) return {};
    const uint32_t most = kind == Kind::kRead ? mount_.sizes().read : mount_.sizes().write;
    size_ = size == kLargestOperation ? std::min(size, most) : size;
    if (size_ <= most) return {};
    return std::unexpected(
        client::Error{fmt::format("{}: one call carries at most {} octets", NameOf(measurement_.operation), most), {}});
  }

  Task<void> Work(unsigned number) {
    const BufferRef buffer = mount_.loop().buffers().Allocate(std::max<uint32_t>(size_, 1));
    std::memset(buffer->data(), 0x5a, size_);
    while (!stopping_) {
      const TimePoint began = co_await Begin();
      if (stopping_) break;
      client::Result<void> done = co_await One(number, buffer->bytes().first(size_));
      if (!done) {
        error_ = std::move(done).error();
        stopping_ = true;
        continue;
      }
      ++measurement_.executed;
      if (counting_) measurement_.latency.Add(mount_.loop().Now() - began);
    }
    --working_;
    ended_.Notify();
  }

  // Waits for the time of the next operation, if there is a rate. Returns the time from which its latency counts: an
  // operation that begins late, because those before it took long, has waited all that time.
  Task<TimePoint> Begin() {
    const TimePoint now = mount_.loop().Now();
    if (interval_ == Duration::zero()) co_return now;
    const TimePoint due = std::exchange(next_, next_ + interval_);
    while (!stopping_ && mount_.loop().Now() < due) {
      co_await Sleep(mount_.loop(), std::min<Duration>(due - mount_.loop().Now(), kLongestSleep));
    }
    co_return due;
  }

  // `number` is that of the task.
  Task<client::Result<void>> One(unsigned number, Bytes buffer) {
    switch (measurement_.operation.kind) {
      case Kind::kNull:
        co_return co_await mount_.Ping();
      case Kind::kGetAttributes: {
        // Ask for the directory: with a delegation, the client knows the file's attributes without a call.
        PENSTOCK_CO_TRY([[maybe_unused]] const auto attributes,
                        co_await mount_.GetAttributes(directory_.handle, "GETATTR"));
        break;
      }
      case Kind::kSetAttributes: {
        client::NewAttributes attributes;
        attributes.mode = 0600 + sequence_++ % 8;
        co_return co_await mount_.SetAttributes(file_.node().handle, "SETATTR", attributes);
      }
      case Kind::kMakeDirectory: {
        const std::string name = fmt::format("{}-{}", file_.name(), number);
        PENSTOCK_CO_TRY([[maybe_unused]] const auto made, co_await mount_.MakeDirectory(directory_.handle, name, 0700));
        co_return co_await mount_.RemoveDirectory(directory_.handle, name);
      }
      case Kind::kRead: {
        PENSTOCK_CO_TRY(const auto read, co_await file_.Read(NextOffset(), buffer));
        if (read.count != buffer.size()) co_return std::unexpected(client::Error{"READ: short", std::nullopt});
        break;
      }
      case Kind::kWrite: {
        PENSTOCK_CO_TRY(const auto written, co_await file_.Write(NextOffset(), buffer));
        if (written.count != buffer.size()) co_return std::unexpected(client::Error{"WRITE: short", std::nullopt});
        break;
      }
    }
    co_return client::Result<void>();
  }

  // The largest operations go through the file from its beginning. Others are at random places: xorshift gives the same
  // sequence in every run.
  uint64_t NextOffset() {
    const uint64_t places = file_size_ / size_;
    if (measurement_.operation.size == kLargestOperation) return sequence_++ % places * size_;
    random_ ^= random_ << 13;
    random_ ^= random_ >> 7;
    random_ ^= random_ << 17;
    return random_ % places * size_;
  }

  client::Mount& mount_;
  const client::Node& directory_;
  client::File& file_;
  const uint64_t file_size_;
  const Duration interval_;  // between the beginnings of operations; zero: no operation waits
  Measurement& measurement_;
  TimePoint next_;  // the beginning of the next operation
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
  const BufferRef buffer = mount.loop().buffers().Allocate(kLargestOperation);
  std::memset(buffer->data(), 0x5a, kLargestOperation);
  for (uint64_t done = 0; done < size;) {
    const Bytes part =
        buffer->bytes().first(std::min<uint64_t>(std::min(kLargestOperation, mount.sizes().write), size - done));
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
    Run run(mount, directory, file, options, measurement);
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

int Bench(const BenchOptions& options) {
  const auto url = ParseUrl(options.url, options);
  if (!url) return PrintUsageError(url.error().message);
  if (options.rate != 0 && options.rate < kLowestRate) {
    return PrintUsageError(fmt::format("--rate {}: neither 0 nor at least {}", options.rate, kLowestRate));
  }
  std::vector<Measurement> measurements;
  for (const std::string& name : options.operations) {
    const std::optional<Operation> operation = OperationOf(name);
    if (!operation) {
      return PrintUsageError(fmt::format("--ops {}: not one of {}", name, kOperationNames));
    }
    for (const unsigned depth : options.depths) measurements.push_back({.operation = *operation, .depth = depth});
  }
  if (options.server_pid != 0 && !CpuSecondsOf(options.server_pid)) {
    return PrintUsageError(fmt::format("--server-pid {}: no such process on this machine", options.server_pid));
  }
  ClientRuntime runtime({}, options.rdma, options.kerberos);
  client::Protocol transport = url->protocol;
  const auto use = [&](client::Mount& mount) {
    transport = mount.transport();
    return BenchTask(mount, options, measurements);
  };
  if (const int code = runtime.Run(runtime.WithMount(*url, use)); code != 0) return code;
  if (const int code = PrintOutput(Table(measurements)); code != 0 || options.json.empty()) return code;
  const std::string text =
      JsonReport(measurements, transport == client::Protocol::kRdma ? "rdma" : "tcp", url->crc, options.file_size);
  std::FILE* out = std::fopen(options.json.c_str(), "w");
  const bool written = out && std::fwrite(text.data(), 1, text.size(), out) == text.size();
  if (!out || std::fclose(out) != 0 || !written) {
    return PrintError(fmt::format("{}: {}", options.json, DescribeErrno(errno)));
  }
  return 0;
}

}  // namespace

Command AddBench(CLI::App& program) {
  CLI::App* const command =
      program.add_subcommand("bench", "Measure what an NFS server gives to one client on one connection");
  const auto options = std::make_shared<BenchOptions>();
  command->add_option("URL", options->url, "A directory; the command makes a file in it and removes it")->required();
  command->add_option("--ops", options->operations, fmt::format("Measure these operations: {}", kOperationNames))
      ->delimiter(',')
      ->capture_default_str();
  command->add_option("--depth", options->depths, "Keep this many operations under way at the same time")
      ->delimiter(',')
      ->check(CLI::Range(1u, 1024u))
      ->capture_default_str();
  command->add_option("--seconds", options->seconds, "The time of each measurement")
      ->check(SecondsBetween(0.01, 3600.0))
      ->capture_default_str();
  command
      ->add_option(
          "--rate", options->rate,
          "Begin so many operations per second, and count the time that one begins late as latency; 0: as many "
          "as possible")
      ->check(CLI::Range(0.0, 100000.0))
      ->capture_default_str();
  command->add_option("--size", options->file_size, "The size of the file, e.g. 64MiB")
      ->transform(CLI::AsSizeValue(false))
      ->check(CLI::Range(uint64_t{1} << 20, uint64_t{1} << 40))
      ->capture_default_str();
  command->add_option("--json", options->json, "Write the results to this file as well")->type_name("FILE");
  command->add_option("--server-pid", options->server_pid, "Report the CPU time of this process as well");
  AddAccessOptions(*command, *options);
  AddRdmaOptions(*command, options->rdma);
  SetFooter(*command, "",
            {"# Measure all operations over RDMA", "penstock bench 'nfs://server.example/tmp?proto=rdma'",
             "# Measure reads and writes of 64 KiB, one and sixteen at a time, for ten seconds each",
             "penstock bench --ops read64k,write64k --depth 1,16 --seconds 10 nfs://server.example/tmp"});
  return {command, [options] { return Bench(*options); }};
}

}  // namespace penstock::cli
