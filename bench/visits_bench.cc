// Measures visits to the state of NFSv4: what each takes, and how many threads make in a second, with one mutex for all
// tables and with one for each shard.
//
//     visits_bench [ROUNDS]      the default is 7
//
// Writes JSON. There is no network and no disk. The numbers are medians of rounds, in which the two locks alternate.
#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <string_view>
#include <thread>
#include <type_traits>
#include <vector>

#include "nfs/v4/state/state.h"
#include "state_parts.h"

namespace penstock::nfs::v4 {
namespace {

constexpr size_t kManyLoops = 16;
constexpr auto kRound = std::chrono::milliseconds(200);
constexpr size_t kVisits = 200'000;

// A client with a session that reads its open file.
class Reader {
 public:
  // `whole`: each visit has all tables for itself, as before there were shards.
  Reader(State& state, size_t number, bool whole) : state_(state), whole_(whole) {
    const auto added =
        state_.Run([&](StateTables& tables) { return AddClientWithSession(tables, number, connection_); });
    client_ = added.client;
    session_ = added.session;
    file_ = FileNamed(fmt::format("file of client {}", number));
    Open(file_);
  }

  // The three visits of a READ.
  void Read() {
    Start();
    Check();
    Finish();
  }
  void Start() {
    const auto started = Visit(Shard::Of(session_), [&](ShardTables& tables) {
      return tables.StartRequest({.sa_sessionid = session_,
                                  .sa_sequenceid = ++sequence_,
                                  .sa_slotid = 0,
                                  .sa_highest_slotid = 0,
                                  .sa_cachethis = false},
                                 {.size = 200, .operations = 3}, connection_, kNow);
    });
    Require(started.has_value(), "SEQUENCE failed");
  }
  void Check() {
    const nfs4::nfsstat4 status = Visit(Shard::Of(client_), [&](ShardTables& tables) {
      const auto verdict = tables.CheckIo({DialectOf(1), client_}, open_, file_, false);
      const bool recalls = tables.MustRecallFor(file_, client_, Delegations::Use::kRead);
      return recalls ? nfs4::NFS4ERR_DELAY : verdict.status;
    });
    Require(status == nfs4::NFS4_OK, "READ failed");
  }
  void Finish() {
    Visit(Shard::Of(session_),
          [&](ShardTables& tables) { tables.FinishRequest(session_, SlotId(0), SequenceId(sequence_), {}, kNow); });
  }
  // Opens another file and closes it: two visits.
  void OpenAndClose() {
    const nfs4::stateid4 kept = open_;
    Open(other_);
    state_.Run([&](StateTables& tables) {
      const auto found = tables.files.Find<OpenState>(Presenter{DialectOf(1), client_}, open_, other_.handle);
      Require(found.has_value(), "the stateid is not known");
      tables.files.opens.Close(**found, DialectOf(1), kNow);
    });
    open_ = kept;
  }

 private:
  template <class Function>
  auto Visit(Shard shard, Function function) -> std::invoke_result_t<Function, ShardTables&> {
    if (!whole_) return state_.RunInShard(shard, function);
    return state_.Run([&](StateTables& all) {
      ShardTables tables(all, shard);
      return function(tables);
    });
  }
  void Open(const NamedFile& file) {
    state_.Run([&](StateTables& tables) {
      OpenOwner* const owner = tables.files.owners.GetOpenOwner(client_, AsBytes(std::string_view("owner")), kNow);
      Require(owner != nullptr, "no room for an owner");
      const auto opened = tables.files.opens.AddOpen(*owner, file, Share{nfs4::OPEN4_SHARE_ACCESS_READ, 0}, nullptr,
                                                     DialectOf(1), kNow);
      Require(opened.status == nfs4::NFS4_OK, "OPEN failed");
      open_ = opened.stateid;
    });
  }

  State& state_;
  const bool whole_;
  ClientId client_{};
  SessionId session_{};
  const SessionConnection connection_{.number = 1};
  uint32_t sequence_ = 0;
  NamedFile file_{};
  const NamedFile other_ = FileNamed("other");
  nfs4::stateid4 open_{};
};

// The lock as it was, and as it is.
struct Kind {
  std::string_view name;
  size_t loops;
  bool whole;
};
constexpr Kind kKinds[] = {{"one mutex", 1, true}, {"shards", kManyLoops, false}};

struct Beginning {
  Settings settings;
  State state;
  explicit Beginning(size_t loops) : state({.settings = settings, .instance = 0x65000000}, loops) {}
};

using Numbers = std::map<std::string, std::vector<double>>;

template <class Function>
double NanosecondsOf(Function function) {
  const double began = ProcessorTime();
  for (size_t i = 0; i < kVisits; ++i) function();
  return (ProcessorTime() - began) / kVisits;
}

// The processor time of each visit, on one thread.
void MeasureVisits(const Kind& kind, Numbers& to) {
  Beginning all(kind.loops);
  Reader reader(all.state, 1, kind.whole);
  to[fmt::format("{}: the three of a READ", kind.name)].push_back(NanosecondsOf([&] { reader.Read(); }));
  to[fmt::format("{}: its stateid", kind.name)].push_back(NanosecondsOf([&] { reader.Check(); }));
  to[fmt::format("{}: OPEN or CLOSE", kind.name)].push_back(NanosecondsOf([&] { reader.OpenAndClose(); }) / 2);
  to[fmt::format("{}: all tables, and nothing done", kind.name)].push_back(
      NanosecondsOf([&] { all.state.Run([](StateTables&) {}); }));
}

// The READs of all threads in a second, each of another client; and the share of visits that waited.
void MeasureRates(const Kind& kind, size_t threads, Numbers& to) {
  Beginning all(kind.loops);
  std::vector<Reader> readers;
  for (size_t i = 0; i < threads; ++i) readers.emplace_back(all.state, i + 1, kind.whole);
  const ShardedLock::Counts before = all.state.visits();
  std::atomic<bool> stop = false;
  std::atomic<uint64_t> reads = 0;
  std::vector<std::thread> running;
  const auto began = std::chrono::steady_clock::now();
  for (Reader& reader : readers) {
    running.emplace_back([&] {
      uint64_t done = 0;
      for (; !stop.load(std::memory_order_relaxed); ++done) reader.Read();
      reads += done;
    });
  }
  std::this_thread::sleep_for(kRound);
  stop = true;
  for (std::thread& each : running) each.join();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
  const ShardedLock::Counts after = all.state.visits();
  const uint64_t visits = after.one.taken + after.all.taken - before.one.taken - before.all.taken;
  const uint64_t waits = after.one.waited + after.all.waited - before.one.waited - before.all.waited;
  to[fmt::format("{}: READs in a second, {} threads", kind.name, threads)].push_back(static_cast<double>(reads) /
                                                                                     took.count());
  to[fmt::format("{}: share of visits that wait, {} threads", kind.name, threads)].push_back(
      static_cast<double>(waits) / static_cast<double>(visits));
}

// The processor time of a visit to all tables while another thread reads as many clients, of all shards.
void MeasureBeside(const Kind& kind, Numbers& to) {
  Beginning all(kind.loops);
  std::vector<Reader> readers;
  for (size_t i = 0; i < Shard::kCount; ++i) readers.emplace_back(all.state, i + 1, kind.whole);
  std::atomic<bool> begun = false, stop = false;
  std::thread other([&] {
    for (size_t next = 0; !stop.load(std::memory_order_relaxed); next = (next + 1) % readers.size()) {
      readers[next].Read();
      begun = true;
    }
  });
  while (!begun) std::this_thread::yield();
  to[fmt::format("{}: all tables, beside READs of another thread", kind.name)].push_back(
      NanosecondsOf([&] { all.state.Run([](StateTables&) {}); }));
  stop = true;
  other.join();
}

double MedianOf(std::vector<double> numbers) {
  std::ranges::sort(numbers);
  return numbers[numbers.size() / 2];
}

void Run(size_t rounds) {
  Numbers measured;
  for (size_t round = 0; round < rounds; ++round) {
    for (const Kind& kind : kKinds) {
      MeasureVisits(kind, measured);
      MeasureBeside(kind, measured);
      for (const size_t threads : {1, 2}) MeasureRates(kind, threads, measured);
    }
  }
  fmt::print("{{");
  std::string_view separator = "";
  for (const auto& [name, numbers] : measured) {
    fmt::print("{}\n  \"{}\": {:.6g}", separator, name, MedianOf(numbers));
    separator = ",";
  }
  fmt::print("\n}}\n");
}

}  // namespace
}  // namespace penstock::nfs::v4

int main(int count, char** arguments) {
  const long long rounds = count > 1 ? std::atoll(arguments[1]) : 7;
  if (count > 2 || rounds < 1) {
    fmt::print(stderr, "usage: visits_bench [ROUNDS]\n");
    return 2;
  }
  penstock::nfs::v4::Run(static_cast<size_t>(rounds));
  return 0;
}
