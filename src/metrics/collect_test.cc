#include "metrics/collect.h"

#include <gtest/gtest.h>

#include <memory>

namespace penstock::metrics {
namespace {

using namespace std::chrono_literals;

std::string_view NameOf(uint32_t status) { return status == 5 ? "NFS3ERR_IO" : ""; }

std::shared_ptr<Counts> MakeCounts() {
  return std::make_shared<Counts>(std::vector<Interface>{{.key = {.program = 100003, .version = 3},
                                                          .program = "NFS",
                                                          .version = "3",
                                                          .operations = {{6, "READ"}},
                                                          .status_name = &NameOf}},
                                  2);
}

// The value of the sample with these labels; -1 if there is none.
double Find(const Families& families, std::string_view name, const Labels& labels) {
  for (const Family& family : families) {
    if (family.name != name) continue;
    for (const Sample& sample : family.samples) {
      if (sample.labels != labels) continue;
      const auto* const counts = std::get_if<LatencyCounts>(&sample.value);
      return counts ? static_cast<double>(counts->count()) : std::get<double>(sample.value);
    }
  }
  return -1;
}

TEST(CollectTest, AddsUpTheLoops) {
  const auto counts = MakeCounts();
  counts->loop(0).Find({100003, 3, 0})->Get(6).Record(0, 15us);
  counts->loop(1).Find({100003, 3, 0})->Get(6).Record(0, 15us);
  counts->loop(1).Find({100003, 3, 0})->Get(6).Record(5, 15us);
  counts->loop(0).exports.Get(1).Record(0, 1us, 10, 0);
  counts->loop(1).exports.Get(1).Record(28, 2s, 0, 0);
  counts->loop(1).exports.Get(2).Record(0, 1us, 0, 3);
  Families families;
  Collect(*counts, {{1, "/data"}, {3, "/idle"}}, families);
  const Labels read{{"program", "NFS"}, {"version", "3"}, {"operation", "READ"}};
  Labels ok = read, failed = read;
  ok.emplace_back("status", "OK");
  failed.emplace_back("status", "NFS3ERR_IO");
  EXPECT_EQ(Find(families, "penstock_operations_total", ok), 2);
  EXPECT_EQ(Find(families, "penstock_operations_total", failed), 1);
  EXPECT_EQ(Find(families, "penstock_operation_seconds", read), 3);
  EXPECT_EQ(Find(families, "penstock_export_operations_total", {{"export", "/data"}}), 2);
  EXPECT_DOUBLE_EQ(Find(families, "penstock_export_operation_seconds_total", {{"export", "/data"}}), 2.000001);
  EXPECT_EQ(Find(families, "penstock_export_operation_seconds_total", {{"export", "/idle"}}), 0);
  EXPECT_EQ(Find(families, "penstock_export_read_bytes_total", {{"export", "/data"}}), 10);
  EXPECT_EQ(Find(families, "penstock_disk_faults_total", {{"export", "/data"}, {"error", "ENOSPC"}}), 1);
  EXPECT_EQ(Find(families, "penstock_export_written_bytes_total", {{"export", "removed:00000002"}}), 3);
  EXPECT_EQ(Find(families, "penstock_export_operations_total", {{"export", "/idle"}}), 0);
}

// Each loop meets the exports in another order.
TEST(CollectTest, CountsAnExportCompletelyOrAmongTheOthers) {
  const auto counts = MakeCounts();
  constexpr uint32_t kExports = NamedExports::kMost + 10;
  ExportPaths paths;
  for (uint32_t id = 0; id < kExports; ++id) {
    paths[id] = "/" + std::to_string(id);
    counts->loop(0).exports.Get(id).Record(0, 1us, 1, 0);
  }
  for (uint32_t id = kExports; id-- > 0;) counts->loop(1).exports.Get(id).Record(0, 1us, 1, 0);
  Families families;
  Collect(*counts, paths, families);
  for (uint32_t id = 0; id < kExports; ++id) {
    const double operations = id < NamedExports::kMost ? 2 : 0;
    EXPECT_EQ(Find(families, "penstock_export_operations_total", {{"export", paths[id]}}), operations) << id;
  }
  EXPECT_EQ(Find(families, "penstock_export_operations_total", {{"export", "other"}}), 20);
}

TEST(CollectTest, LabelsOfExportsAreUtf8AndUnique) {
  const auto counts = MakeCounts();
  counts->loop(0).exports.Get(1).Record(0, 1us, 1, 0);
  counts->loop(0).exports.Get(2).Record(0, 1us, 2, 0);
  Families families;
  Collect(*counts, {{1, "/\xe9"}, {2, "/\xe8"}, {3, "/caf\xc3\xa9"}}, families);
  const auto read = [&](const char* label) {
    return Find(families, "penstock_export_read_bytes_total", {{"export", label}});
  };
  EXPECT_EQ(read("/\xef\xbf\xbd (00000001)"), 1);
  EXPECT_EQ(read("/\xef\xbf\xbd (00000002)"), 2);
  EXPECT_EQ(read("/caf\xc3\xa9"), 0);
}

TEST(CollectTest, ConnectionsWithoutACallTakeNoClientsPlace) {
  const auto counts = MakeCounts();
  const Recorder recorder(counts, 0);
  std::vector<std::shared_ptr<ConnectionCounts>> silent;
  for (size_t i = 0; i < ClientTable::kMost; ++i) {
    silent.push_back(recorder.Connect(Transport::kTcp, asio::ip::make_address("10.1.1." + std::to_string(i))));
  }
  const auto client = recorder.Connect(Transport::kTcp, asio::ip::make_address("10.2.2.2"));
  client->client().Record(1, 1us, 0, 0);
  Families families;
  Collect(*counts, {}, families);
  EXPECT_EQ(Find(families, "penstock_client_operations_total", {{"client", "10.2.2.2"}}), 1);
  EXPECT_EQ(Find(families, "penstock_client_connections", {{"client", "10.2.2.2"}}), 1);
  EXPECT_EQ(Find(families, "penstock_client_connections", {{"client", "10.1.1.1"}}), -1);
}

TEST(CollectTest, CountsConnectionsByTheirEnds) {
  const auto counts = MakeCounts();
  const Recorder recorder(counts, 1);
  const auto first = recorder.Connect(Transport::kTcp, asio::ip::make_address("10.1.1.1"));
  auto second = recorder.Connect(Transport::kTcp, asio::ip::make_address("10.1.1.2"));
  second->client();
  second->SetEnd(ConnectionEnd::kStalled);
  second->SetEnd(ConnectionEnd::kStop);
  second.reset();
  recorder.Refuse(Transport::kRdma, ConnectionRefusal::kAddressFull);
  first->client().Record(2, 3ms, 5, 0);
  Families families;
  Collect(*counts, {}, families);
  EXPECT_EQ(Find(families, "penstock_connections", {{"transport", "tcp"}}), 1);
  EXPECT_EQ(Find(families, "penstock_connections_accepted_total", {{"transport", "tcp"}}), 2);
  EXPECT_EQ(Find(families, "penstock_connections_closed_total", {{"transport", "tcp"}, {"reason", "stalled"}}), 1);
  EXPECT_EQ(Find(families, "penstock_connections_closed_total", {{"transport", "tcp"}, {"reason", "stop"}}), 0);
  EXPECT_EQ(Find(families, "penstock_connections_refused_total", {{"transport", "rdma"}, {"reason", "address_full"}}),
            1);
  EXPECT_EQ(Find(families, "penstock_client_operations_total", {{"client", "10.1.1.1"}}), 2);
  EXPECT_DOUBLE_EQ(Find(families, "penstock_client_operation_seconds_total", {{"client", "10.1.1.1"}}), 0.003);
  EXPECT_EQ(Find(families, "penstock_client_connections", {{"client", "10.1.1.2"}}), 0);
}

TEST(CollectTest, ARecorderWithoutCountersDoesNothing) {
  const Recorder recorder;
  EXPECT_EQ(recorder.Connect(Transport::kTcp, asio::ip::make_address("10.1.1.1")), nullptr);
  EXPECT_EQ(recorder.ForDatagrams(), nullptr);
  EXPECT_EQ(recorder.loop(), nullptr);
  recorder.Refuse(Transport::kTcp, ConnectionRefusal::kServerFull);
}

TEST(CollectTest, TellsOfTheProcess) {
  Families families;
  CollectProcess(families);
  EXPECT_GT(Find(families, "process_resident_memory_bytes", {}), 1e6);
  EXPECT_GE(Find(families, "process_threads", {}), 1);
  EXPECT_GT(Find(families, "process_open_fds", {}), 2);
  EXPECT_GT(Find(families, "process_max_fds", {}), 2);
  EXPECT_GT(Find(families, "process_start_time_seconds", {}), 1e9);
  EXPECT_GE(Find(families, "process_cpu_seconds_total", {}), 0);
}

}  // namespace
}  // namespace penstock::metrics
