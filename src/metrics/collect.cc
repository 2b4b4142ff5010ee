#include "metrics/collect.h"

#include <fmt/core.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <string_view>

#include "base/utf8.h"

namespace penstock::metrics {
namespace {

using Type = Family::Type;

constexpr std::array<std::string_view, kDiskFaults> kFaultNames = {"EIO", "ENOSPC", "EDQUOT"};
constexpr std::array<std::string_view, kCacheOutcomes> kOutcomeNames = {"new", "replayed", "waited", "uncached",
                                                                        "left"};
constexpr std::array<std::string_view, kCallRefusals> kRefusalNames = {
    "malformed", "rpc_version", "credential", "program", "program_version", "flavor", "arguments"};
constexpr std::array<std::string_view, kTransports> kTransportNames = {"tcp", "rdma"};
constexpr std::array<std::string_view, kConnectionRefusals> kConnectionRefusalNames = {"server_full", "address_full",
                                                                                       "draining", "not_allowed"};
constexpr std::array<std::string_view, kConnectionEnds> kEndNames = {"client", "stalled",    "made_room", "no_reply",
                                                                     "stop",   "stepped_up", "tls",       "server"};

std::string Text(std::string_view text) { return std::string(text); }
double Value(const Counter& counter) { return static_cast<double>(counter.value()); }
double Seconds(uint64_t nanoseconds) { return static_cast<double>(nanoseconds) / 1e9; }

struct OperationSums {
  LatencyCounts latency;
  std::map<std::string, uint64_t> statuses;  // by name
};

void CollectOperations(const Counts& counts, Families& to) {
  Family results{"penstock_operations_total", "Operations that have ended, by status", Type::kCounter};
  Family latencies{"penstock_operation_seconds",
                   "Time from the arrival of an operation's call until its result is there", Type::kHistogram};
  for (size_t n = 0; n < counts.interfaces().size(); ++n) {
    const Interface& interface = counts.interfaces()[n];
    for (size_t index = 0; index <= interface.operations.size(); ++index) {
      OperationSums sums;
      for (const auto& loop : counts.loops()) {
        const OperationCounts* const found = loop->interfaces()[n]->Find(index);
        if (!found) continue;
        sums.latency += found->latency().Read();
        found->statuses().ForEach([&](std::optional<uint32_t> status, uint64_t count) {
          sums.statuses[status ? StatusName(interface, *status) : "other"] += count;
        });
      }
      if (sums.statuses.empty()) continue;
      const std::string name = index < interface.operations.size() ? interface.operations[index].name : "ILLEGAL";
      const Labels labels{{"program", interface.program}, {"version", interface.version}, {"operation", name}};
      latencies.Add(labels, sums.latency);
      for (const auto& [status, count] : sums.statuses) {
        Labels with_status = labels;
        with_status.emplace_back("status", status);
        results.Add(std::move(with_status), static_cast<double>(count));
      }
    }
  }
  to.push_back(std::move(results));
  to.push_back(std::move(latencies));
}

struct ExportSums {
  uint64_t operations = 0, nanoseconds = 0, read = 0, written = 0;
  std::array<uint64_t, kDiskFaults> faults{};

  void Add(const ExportCounts& counts) {
    operations += counts.operations.value();
    nanoseconds += counts.nanoseconds.value();
    read += counts.read_octets.value();
    written += counts.written_octets.value();
    for (size_t i = 0; i < kDiskFaults; ++i) faults[i] += counts.faults[i].value();
  }
};

// Returns the label of an export. A path may have any octets, but a label is UTF-8: invalid octets are replaced, and
// the id keeps the label unique.
std::string ExportLabel(uint32_t id, const std::string& path) {
  if (IsUtf8(path)) return path;
  return fmt::format("{} ({:08x})", ReplaceInvalidUtf8(path), id);
}

void CollectExports(const Counts& counts, const ExportPaths& paths, Families& to) {
  std::map<std::string, ExportSums> sums;
  for (const auto& [id, path] : paths) sums[ExportLabel(id, path)];
  for (const auto& loop : counts.loops()) {
    loop->exports.ForEach([&](std::optional<uint32_t> id, const ExportCounts& each) {
      if (!id && each.operations.value() == 0) return;
      std::string path = "other";
      if (id) {
        const auto known = paths.find(*id);
        path = known != paths.end() ? ExportLabel(*id, known->second) : fmt::format("removed:{:08x}", *id);
      }
      sums[std::move(path)].Add(each);
    });
  }
  Family operations{"penstock_export_operations_total", "Operations on files of an export", Type::kCounter};
  Family seconds{"penstock_export_operation_seconds_total", "Time that these operations took", Type::kCounter};
  Family read{"penstock_export_read_bytes_total", "File data that clients have read", Type::kCounter};
  Family written{"penstock_export_written_bytes_total", "File data that clients have written", Type::kCounter};
  Family faults{"penstock_disk_faults_total", "Operations that failed because of the disk of an export",
                Type::kCounter};
  for (const auto& [path, each] : sums) {
    operations.Add({{"export", path}}, static_cast<double>(each.operations));
    seconds.Add({{"export", path}}, Seconds(each.nanoseconds));
    read.Add({{"export", path}}, static_cast<double>(each.read));
    written.Add({{"export", path}}, static_cast<double>(each.written));
    for (size_t i = 0; i < kDiskFaults; ++i) {
      faults.Add({{"export", path}, {"error", Text(kFaultNames[i])}}, static_cast<double>(each.faults[i]));
    }
  }
  for (Family* each : {&operations, &seconds, &read, &written, &faults}) to.push_back(std::move(*each));
}

void CollectClients(const Counts& counts, Families& to) {
  Family operations{"penstock_client_operations_total",
                    "Operations of a client; `other` are the clients without counters of their own, and UDP",
                    Type::kCounter};
  Family seconds{"penstock_client_operation_seconds_total", "Time that these operations took", Type::kCounter};
  Family read{"penstock_client_read_bytes_total", "File data that a client has read", Type::kCounter};
  Family written{"penstock_client_written_bytes_total", "File data that a client has written", Type::kCounter};
  Family connections{"penstock_client_connections", "Open connections of a client that has made a call", Type::kGauge};
  counts.clients().ForEach([&](const std::optional<IpAddress>& address, const ClientSums& sums) {
    const Labels labels{{"client", address ? address->to_string() : "other"}};
    operations.Add(labels, static_cast<double>(sums.operations));
    seconds.Add(labels, Seconds(sums.nanoseconds));
    read.Add(labels, static_cast<double>(sums.read_octets));
    written.Add(labels, static_cast<double>(sums.written_octets));
    connections.Add(labels, static_cast<double>(sums.connections));
  });
  for (Family* each : {&operations, &seconds, &read, &written, &connections}) to.push_back(std::move(*each));
}

void CollectConnections(const Counts& counts, Families& to) {
  Family open{"penstock_connections", "Open connections", Type::kGauge};
  Family accepted{"penstock_connections_accepted_total", "Connections that were accepted", Type::kCounter};
  Family refused{"penstock_connections_refused_total", "Connections that were refused", Type::kCounter};
  Family closed{"penstock_connections_closed_total", "Connections that have ended", Type::kCounter};
  for (size_t t = 0; t < kTransports; ++t) {
    const TransportCounts& transport = counts.transport(static_cast<Transport>(t));
    const Labels labels{{"transport", Text(kTransportNames[t])}};
    uint64_t ended = 0;  // read before `accepted`, so that the difference is not negative
    for (size_t i = 0; i < kConnectionEnds; ++i) {
      const uint64_t count = transport.closed[i].value();
      ended += count;
      Labels with_reason = labels;
      with_reason.emplace_back("reason", Text(kEndNames[i]));
      closed.Add(std::move(with_reason), static_cast<double>(count));
    }
    for (size_t i = 0; i < kConnectionRefusals; ++i) {
      Labels with_reason = labels;
      with_reason.emplace_back("reason", Text(kConnectionRefusalNames[i]));
      refused.Add(std::move(with_reason), static_cast<double>(transport.refused[i].value()));
    }
    const uint64_t begun = transport.accepted.value();
    accepted.Add(labels, static_cast<double>(begun));
    open.Add(labels, static_cast<double>(begun - ended));
  }
  for (Family* each : {&open, &accepted, &refused, &closed}) to.push_back(std::move(*each));
}

void CollectRdma(const Counts& counts, Families& to) {
  const auto sum = [&](Counter RdmaCounts::* member) {
    double total = 0;
    for (const auto& loop : counts.loops()) total += Value(loop->rdma.*member);
    return total;
  };
  using R = RdmaCounts;
  AddFamily(to, "penstock_rdma_chunks_total", Type::kCounter, "Chunks in calls over RDMA; inline: calls without any",
            "kind",
            {{"inline", sum(&R::inline_calls)},
             {"read", sum(&R::read_chunks)},
             {"position_zero", sum(&R::position_zero_chunks)},
             {"write", sum(&R::write_chunks)},
             {"reply", sum(&R::reply_chunks)}});
  AddFamily(to, "penstock_rdma_operations_total", Type::kCounter, "Work requests of the server's responders",
            "operation", {{"send", sum(&R::sends)}, {"read", sum(&R::reads)}, {"write", sum(&R::writes)}});
  AddFamily(to, "penstock_rdma_bytes_total", Type::kCounter, "Data of these work requests", "operation",
            {{"send", sum(&R::sent_octets)}, {"read", sum(&R::read_octets)}, {"write", sum(&R::written_octets)}});
  AddFamily(
      to, "penstock_rdma_errors_total", Type::kCounter,
      "refused_call: answered by RDMA_ERROR; work: work requests that failed; access: those among them because the "
      "client refused an access to its memory",
      "kind",
      {{"refused_call", sum(&R::refused_calls)}, {"work", sum(&R::failed_work)}, {"access", sum(&R::refused_access)}});
  AddFamily(to, "penstock_rdma_credits_granted_total", Type::kCounter, "Credits in the server's replies")
      .Add(sum(&R::credits));
}

void CollectCalls(const Counts& counts, Families& to) {
  Family& cache =
      AddFamily(to, "penstock_reply_cache_calls_total", Type::kCounter,
                "Calls whose replies are kept. new: executed; replayed: got the kept reply; waited: for the "
                "first execution; uncached: executed without room; left: dropped, the client has another "
                "connection");
  for (size_t i = 0; i < kCacheOutcomes; ++i) {
    double total = 0;
    for (const auto& loop : counts.loops()) total += Value(loop->cache[i]);
    cache.Add({{"outcome", Text(kOutcomeNames[i])}}, total);
  }
  Family& refusals =
      AddFamily(to, "penstock_calls_refused_total", Type::kCounter, "Calls that did not reach a procedure");
  for (size_t i = 0; i < kCallRefusals; ++i) {
    double total = 0;
    for (const auto& loop : counts.loops()) total += Value(loop->refusals[i]);
    refusals.Add({{"reason", Text(kRefusalNames[i])}}, total);
  }
  double good = 0, bad = 0;
  for (const auto& loop : counts.loops()) {
    good += Value(loop->tls_handshakes);
    bad += Value(loop->failed_tls_handshakes);
  }
  AddFamily(to, "penstock_tls_handshakes_total", Type::kCounter, "TLS handshakes", "result",
            {{"ok", good}, {"failed", bad}});
}

// Returns a field of /proc/self/status in kB, as octets. Without a descriptor for the file there is no value.
std::optional<double> StatusOctets(std::string_view name) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (!line.starts_with(name)) continue;
    return std::strtod(line.c_str() + name.size(), nullptr) * 1024;
  }
  return std::nullopt;
}

// When the process started, in seconds since 1970.
std::optional<double> StartTime() {
  std::ifstream stat("/proc/self/stat");
  std::string text;
  std::getline(stat, text);
  const size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  double ticks = 0;
  const char* at = text.c_str() + name_end + 1;
  constexpr int kStartField = 22 - 2;  // the fields behind the name
  for (int field = 0; field < kStartField && *at; ++field) {
    while (*at == ' ') ++at;
    if (field == kStartField - 1) ticks = std::strtod(at, nullptr);
    while (*at && *at != ' ') ++at;
  }
  std::ifstream system("/proc/stat");
  for (std::string line; std::getline(system, line);) {
    if (!line.starts_with("btime ")) continue;
    return std::strtod(line.c_str() + 6, nullptr) + ticks / static_cast<double>(::sysconf(_SC_CLK_TCK));
  }
  return std::nullopt;
}

std::optional<double> CountEntries(const char* directory) {
  std::error_code error;
  double count = 0;
  for (std::filesystem::directory_iterator each(directory, error), end; !error && each != end; each.increment(error)) {
    ++count;
  }
  if (error) return std::nullopt;
  return count;
}

}  // namespace

void Collect(const Counts& counts, const ExportPaths& paths, Families& to) {
  CollectOperations(counts, to);
  CollectExports(counts, paths, to);
  CollectClients(counts, to);
  CollectConnections(counts, to);
  CollectRdma(counts, to);
  CollectCalls(counts, to);
}

void CollectProcess(Families& to) {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  AddFamily(to, "process_cpu_seconds_total", Type::kCounter, "CPU time of the process, of the user and of the system")
      .Add(seconds(usage.ru_utime) + seconds(usage.ru_stime));
  AddGauge(to, "process_resident_memory_bytes", "Memory of the process that is in RAM", StatusOctets("VmRSS:"));
  AddGauge(to, "process_virtual_memory_bytes", "Address space of the process", StatusOctets("VmSize:"));
  AddGauge(to, "process_open_fds", "Open descriptors", CountEntries("/proc/self/fd"));
  AddFamily(to, "process_max_fds", Type::kGauge, "The most descriptors that the process may have")
      .Add(static_cast<double>(files.rlim_cur));
  AddGauge(to, "process_threads", "Threads of the process", CountEntries("/proc/self/task"));
  AddGauge(to, "process_start_time_seconds", "When the process started, since 1970", StartTime());
}

}  // namespace penstock::metrics
