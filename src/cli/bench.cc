// penstock bench: measures what a server gives to one client on one or more connections.
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
#include "cli/bench_operation.h"
#include "cli/bench_plot.h"
#include "cli/bench_report.h"
#include "cli/bench_workload.h"
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
  unsigned connections = 1;
  Workload::Settings work;
  // Names of files for reports; empty: none.
  std::string json;
  std::string svg;
  RdmaOptions rdma;
  int32_t server_pid = 0;  // 0: do not measure the server's CPU time
};

using Kind = Operation::Kind;

// After a sleep of at most this length, a task notices that the measurement has ended.
constexpr Duration kLongestSleep = std::chrono::milliseconds(50);
// The lowest rate but 0.
constexpr double kLowestRate = 0.01;
// Operations run for this share of a measurement's time before they count.
constexpr double kWarmUp = 0.1;
// The files that each connection creates before it removes them, unless its depth wants more.
constexpr uint64_t kBatch = 512;

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

// The time of what counts, in one or more parts, and the CPU time that the two processes used meanwhile.
class Meter {
 public:
  // `server`: 0 for none.
  Meter(Loop& loop, pid_t server) : loop_(loop), server_(server) {}

  void Start() { began_ = Read(); }
  void Stop() {
    const Reading now = Read();
    total_.wall += now.wall - began_.wall;
    total_.own += now.own - began_.own;
    total_.server = now.server && began_.server
                        ? std::optional(total_.server.value_or(0) + *now.server - *began_.server)
                        : std::nullopt;
  }
  double seconds() const { return total_.wall; }

  void Store(Measurement& measurement) const {
    const double count = static_cast<double>(measurement.latency.count());
    measurement.seconds = total_.wall;
    measurement.client_cpu_us = total_.own / count * 1e6;
    if (total_.server) measurement.server_cpu_us = *total_.server / count * 1e6;
  }

 private:
  struct Reading {  // in seconds
    double wall = 0;
    double own = 0;
    std::optional<double> server{};
  };
  Reading Read() const {
    return {.wall = std::chrono::duration<double>(loop_.Now().time_since_epoch()).count(),
            .own = OwnCpuSeconds(),
            .server = server_ ? CpuSecondsOf(server_) : std::nullopt};
  }

  Loop& loop_;
  const pid_t server_;
  Reading began_, total_;
};

Duration Seconds(double seconds) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
}

using Workloads = std::vector<std::unique_ptr<Workload>>;

// One measurement: keeps `depth` operations under way on each connection, and records how long each takes.
class Run {
 public:
  Run(const Workloads& workloads, const BenchOptions& options, Measurement& measurement)
      : loop_(workloads.front()->mount().loop()),
        interval_(options.rate > 0 ? Seconds(1 / options.rate) : Duration::zero()),
        meter_(loop_, options.server_pid),
        measurement_(measurement),
        is_paced_(interval_ > Duration::zero()) {
    for (const auto& workload : workloads) connections_.push_back({.workload = workload.get()});
  }

  Task<client::Result<void>> For(double seconds) {
    const Kind kind = measurement_.operation.kind;
    if (kind == Kind::kRename) {
      for (Connection& each : connections_) PENSTOCK_CO_CHECK(co_await each.workload->MakeRenamed(measurement_.depth));
    }
    if (kind == Kind::kCreate || kind == Kind::kRemove) {
      co_await InBatches(seconds);
    } else {
      co_await Steadily(seconds);
    }
    if (error_) co_return std::unexpected(*std::move(error_));
    measurement_.octets = connections_.front().workload->SizeOf(measurement_.operation) * measurement_.latency.count();
    meter_.Store(measurement_);
    co_return client::Result<void>();
  }

 private:
  struct Connection {
    Workload* workload = nullptr;
    // The tickets of the operations that begin next, up to `last`, which is not one of them.
    uint64_t next = 0;
    uint64_t last = 0;
  };

  // Repeats the operation without a pause.
  Task<void> Steadily(double seconds) {
    for (Connection& each : connections_) each = {each.workload, 0, UINT64_MAX};
    Begin(measurement_.operation);
    co_await Sleep(loop_, Seconds(seconds * kWarmUp));
    meter_.Start();
    counting_ = true;
    // At least one operation must count, also if the machine is busy or the server is far away.
    do {
      co_await Sleep(loop_, Seconds(seconds));
    } while (measurement_.latency.count() == 0 && !error_);
    counting_ = false;
    meter_.Stop();
    stopping_ = true;
    co_await End();
  }

  // Creates files and removes them again, by turns. Only one of both counts.
  Task<void> InBatches(double seconds) {
    const Operation create{Kind::kCreate}, remove{Kind::kRemove};
    const bool counts_create = measurement_.operation == create;
    const uint64_t batch = std::max<uint64_t>(kBatch, uint64_t{measurement_.depth} * 4);
    for (bool warm = false; !error_ && (meter_.seconds() < seconds || measurement_.latency.count() == 0); warm = true) {
      for (Connection& each : connections_) each = {each.workload, 0, warm ? batch : batch / 8};
      co_await Batch(create, warm && counts_create, seconds);
      for (Connection& each : connections_) each = {each.workload, 0, each.next};
      co_await Batch(remove, warm && !counts_create, seconds);
      // The files that are left, because the time was over.
      co_await Batch(remove, false, seconds);
    }
  }

  // Takes all tickets, but no more of them once the time is over for what counts.
  Task<void> Batch(Operation operation, bool counts, double seconds) {
    if (counts) {
      meter_.Start();
      ends_ = loop_.Now() + Seconds(std::max(0.0, seconds - meter_.seconds()));
    }
    counting_ = counts;
    is_paced_ = counts && interval_ > Duration::zero();
    Begin(operation);
    co_await End();
    if (counts) meter_.Stop();
    counting_ = false;
    ends_.reset();
  }

  void Begin(Operation operation) {
    next_ = loop_.Now();
    for (Connection& each : connections_) {
      for (unsigned worker = 0; worker < measurement_.depth; ++worker) {
        ++working_;
        Spawn(Work(each, operation, worker));
      }
    }
  }
  Task<void> End() {
    while (working_ > 0) co_await ended_;
  }

  Task<void> Work(Connection& connection, Operation operation, unsigned worker) {
    Workload& workload = *connection.workload;
    const uint32_t size = workload.SizeOf(operation);
    const BufferRef buffer = loop_.buffers().Allocate(std::max<uint32_t>(size, 1));
    std::memset(buffer->data(), 0x5a, size);
    while (true) {
      const std::optional<TimePoint> began = co_await WaitForTurn();
      if (!began || connection.next == connection.last) break;
      const uint64_t ticket = connection.next++;
      client::Result<void> done = co_await workload.Execute(operation, worker, ticket, buffer->bytes().first(size));
      if (!done) {
        if (!error_) error_ = std::move(done).error();
        stopping_ = true;
        continue;
      }
      if (operation == measurement_.operation) ++measurement_.executed;
      if (counting_) measurement_.latency.Add(loop_.Now() - *began);
    }
    --working_;
    ended_.Notify();
  }

  // Waits for the time of the next operation, if there is a rate. Returns the time from which its latency counts: an
  // operation that begins late, because those before it took long, has waited all that time. Returns nothing if no more
  // operations shall begin.
  Task<std::optional<TimePoint>> WaitForTurn() {
    TimePoint due = loop_.Now();
    if (is_paced_) due = std::exchange(next_, next_ + interval_);
    if (ends_ && due >= *ends_) co_return std::nullopt;
    while (!stopping_ && loop_.Now() < due) {
      co_await Sleep(loop_, std::min<Duration>(due - loop_.Now(), kLongestSleep));
    }
    co_return stopping_ ? std::nullopt : std::optional(due);
  }

  Loop& loop_;
  const Duration interval_;  // between the beginnings of operations; zero: no operation waits
  Meter meter_;
  Measurement& measurement_;
  std::vector<Connection> connections_;
  TimePoint next_;                 // the beginning of the next operation
  std::optional<TimePoint> ends_;  // of what counts in this batch
  bool counting_ = false;
  bool is_paced_;  // operations begin at the rate; those that prepare others do not
  bool stopping_ = false;
  unsigned working_ = 0;
  Signal ended_;
  std::optional<client::Error> error_;
};

Task<client::Result<void>> Measure(const Workloads& workloads, const BenchOptions& options,
                                   std::vector<Measurement>& measurements) {
  std::vector<Operation> operations;
  for (const Measurement& each : measurements) operations.push_back(each.operation);
  for (const auto& workload : workloads) PENSTOCK_CO_CHECK(co_await workload->Prepare(operations));
  for (Measurement& measurement : measurements) {
    Run run(workloads, options, measurement);
    PENSTOCK_CO_CHECK(co_await run.For(options.seconds));
  }
  co_return client::Result<void>();
}

Task<client::Result<void>> BenchTask(ClientRuntime& runtime, const client::Url& url, const BenchOptions& options,
                                     std::vector<Measurement>& measurements, Circumstances& circumstances) {
  Workloads workloads;
  std::vector<std::unique_ptr<client::Mount>> mounts;
  client::Result<void> result;
  while (result && mounts.size() < options.connections) {
    auto mount = co_await runtime.OpenMount(url);
    if (!mount) {
      result = std::unexpected(std::move(mount).error());
      break;
    }
    mounts.push_back(*std::move(mount));
    workloads.push_back(
        std::make_unique<Workload>(*mounts.back(), static_cast<unsigned>(workloads.size()), options.work));
  }
  if (result) {
    circumstances.version = mounts.front()->version();
    circumstances.transport = mounts.front()->transport() == client::Protocol::kRdma ? "rdma" : "tcp";
    result = co_await Measure(workloads, options, measurements);
  }
  for (const auto& workload : workloads) {
    client::Result<void> cleaned = co_await workload->CleanUp();
    if (result) result = std::move(cleaned);
  }
  for (auto& mount : mounts) co_await runtime.End(std::move(mount));
  co_return result;
}

// Writes a report into a file of the user. Returns the exit code.
int WriteReport(const std::string& file, const std::string& text) {
  std::FILE* out = std::fopen(file.c_str(), "w");
  const bool written = out && std::fwrite(text.data(), 1, text.size(), out) == text.size();
  if (!out || std::fclose(out) != 0 || !written) return PrintError(fmt::format("{}: {}", file, DescribeErrno(errno)));
  return 0;
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
  // A delegation would let the client open a file, or know its attributes, without a call.
  runtime.WantNoDelegations();
  Circumstances circumstances{.crc = url->crc, .connections = options.connections, .file_size = options.work.file_size};
  if (const int code = runtime.Run(BenchTask(runtime, *url, options, measurements, circumstances)); code != 0)
    return code;
  if (const int code = PrintOutput(TableOf(measurements)); code != 0) return code;
  if (!options.json.empty()) {
    if (const int code = WriteReport(options.json, JsonReport(measurements, circumstances)); code != 0) return code;
  }
  return options.svg.empty() ? 0 : WriteReport(options.svg, LatencyPlot(measurements));
}

}  // namespace

Command AddBench(CLI::App& program) {
  CLI::App* const command = program.add_subcommand("bench", "Measure what an NFS server gives to a client");
  const auto options = std::make_shared<BenchOptions>();
  command->add_option("URL", options->url, "A directory; the command makes files in it and removes them")->required();
  command->add_option("--ops", options->operations, fmt::format("Measure these operations: {}", kOperationNames))
      ->delimiter(',')
      ->capture_default_str();
  command->add_option("--depth", options->depths, "Keep this many operations under way on each connection")
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
  command->add_option("--connections", options->connections, "Use this many connections, each with files of its own")
      ->check(CLI::Range(1u, 1024u))
      ->capture_default_str();
  command->add_option("--size", options->work.file_size, "The size of the file of reads and writes, e.g. 64MiB")
      ->transform(CLI::AsSizeValue(false))
      ->check(CLI::Range(uint64_t{1} << 20, uint64_t{1} << 40))
      ->capture_default_str();
  command->add_option("--files", options->work.tree_files, "The files that lookup, stat, readdir and open work with")
      ->check(CLI::Range(1u, 10000000u))
      ->capture_default_str();
  command
      ->add_option("--reads", options->work.read_percent, "The percentage of reads in mixSIZE; the others are writes")
      ->check(CLI::Range(0u, 100u))
      ->capture_default_str();
  command->add_option("--json", options->json, "Write the results to this file as well")->type_name("FILE");
  command->add_option("--svg", options->svg, "Draw the percentiles of the latencies into this file as well")
      ->type_name("FILE");
  command->add_option("--server-pid", options->server_pid, "Report the CPU time of this process as well");
  AddAccessOptions(*command, *options);
  AddRdmaOptions(*command, options->rdma);
  SetFooter(*command, "",
            {"# Measure all operations over RDMA", "penstock bench 'nfs://server.example/tmp?proto=rdma'",
             "# Measure reads and writes of 64 KiB, one and sixteen at a time, for ten seconds each",
             "penstock bench --ops read64k,write64k --depth 1,16 --seconds 10 nfs://server.example/tmp",
             "# Create and remove files on four connections, and draw the latencies",
             "penstock bench --ops create,remove --connections 4 --svg files.svg nfs://server.example/tmp"});
  return {command, [options] { return Bench(*options); }};
}

}  // namespace penstock::cli
