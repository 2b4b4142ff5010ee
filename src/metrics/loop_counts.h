// The counters of one event loop. The loop is their only writer; the loops share no cache line. A scrape adds up the
// counters of all loops.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "base/timer.h"
#include "metrics/clock.h"
#include "metrics/counter.h"
#include "metrics/interface.h"
#include "metrics/latency.h"

namespace penstock::metrics {

// How often an operation ended with each status. Keeps 31 different statuses; more are counted together.
class StatusCounts {
 public:
  void Add(uint32_t status) {
    const uint32_t used = used_.load(std::memory_order_relaxed);
    for (uint32_t i = 0; i < used; ++i) {
      if (entries_[i].status == status) return entries_[i].count.Add();
    }
    if (used == kMost) return others_.Add();
    entries_[used].status = status;
    entries_[used].count.Add();
    used_.store(used + 1, std::memory_order_release);  // readers see the entry complete
  }
  // Calls look(status, count) for each status, and look(nothing, count) for the others.
  template <class Look>
  void ForEach(Look look) const {
    const uint32_t used = used_.load(std::memory_order_acquire);
    for (uint32_t i = 0; i < used; ++i) look(std::optional<uint32_t>(entries_[i].status), entries_[i].count.value());
    if (others_.value() > 0) look(std::optional<uint32_t>(), others_.value());
  }

 private:
  static constexpr uint32_t kMost = 31;
  struct Entry {
    uint32_t status = 0;  // written once, before `used_`
    Counter count;
  };
  std::atomic<uint32_t> used_{0};
  std::array<Entry, kMost> entries_;
  Counter others_;
};

// An operation. Counting one touches two cache lines.
class alignas(64) OperationCounts {
 public:
  explicit OperationCounts(StatusPlace place) : place_(place) {}

  StatusPlace status_place() const { return place_; }
  // On the loop.
  void Record(uint32_t status, Duration duration) {
    latency_.Record(duration);
    statuses_.Add(status);
  }
  // Any thread.
  const LatencyHistogram& latency() const { return latency_; }
  const StatusCounts& statuses() const { return statuses_; }

 private:
  const StatusPlace place_;
  StatusCounts statuses_;
  alignas(64) LatencyHistogram latency_;
};

// The operations of one interface. Memory for an operation is made when it is first executed.
class InterfaceCounts {
 public:
  explicit InterfaceCounts(const Interface& of);
  ~InterfaceCounts();
  InterfaceCounts(const InterfaceCounts&) = delete;
  InterfaceCounts& operator=(const InterfaceCounts&) = delete;

  const Interface& interface() const { return interface_; }
  // On the loop. The operations that the interface does not list are counted together, as "ILLEGAL".
  OperationCounts& Get(uint32_t operation) {
    OperationCounts* const known = operation < kDense ? dense_[operation] : nullptr;
    return known ? *known : Make(operation);
  }
  // Any thread. Null while the operation was never executed. The index after the last operation means "ILLEGAL".
  const OperationCounts* Find(size_t index) const { return counts_[index].load(std::memory_order_acquire); }

 private:
  static constexpr size_t kDense = 128;
  OperationCounts& Make(uint32_t operation);

  const Interface& interface_;
  std::array<OperationCounts*, kDense> dense_{};  // those of small numbers, once they were executed; for the loop
  std::vector<std::atomic<OperationCounts*>> counts_;
};

// The errors of file systems that tell of the disk: the statuses of these numbers in NFS versions 2, 3 and 4.
enum class DiskFault : uint8_t { kIo, kNoSpace, kQuota };
inline constexpr size_t kDiskFaults = 3;
constexpr std::optional<DiskFault> DiskFaultOf(uint32_t status) {
  switch (status) {
    case 5:
      return DiskFault::kIo;
    case 28:
      return DiskFault::kNoSpace;
    case 69:
      return DiskFault::kQuota;
    default:
      return std::nullopt;
  }
}

struct ExportCounts {
  Counter operations;
  Counter nanoseconds;  // of these operations
  Counter read_octets;
  Counter written_octets;
  std::array<Counter, kDiskFaults> faults;

  void Record(uint32_t status, Duration duration, uint64_t read, uint64_t written) {
    operations.Add();
    nanoseconds.Add(NanosecondsOf(duration));
    if (status == 0) {
      if (read > 0) read_octets.Add(read);
      if (written > 0) written_octets.Add(written);
    } else if (const auto fault = DiskFaultOf(status)) {
      faults[static_cast<size_t>(*fault)].Add();
    }
  }
};

// The exports that have counters of their own: the first kMost that were used, on whichever loop. All loops agree about
// them, so that an export's counts are complete. The others are counted together. Any thread.
class NamedExports {
 public:
  static constexpr size_t kMost = 256;

  // Whether this export has counters of its own. Takes it up if there is room.
  bool Admit(uint32_t id);

 private:
  bool Has(uint32_t id, size_t used) const;

  std::atomic<size_t> used_{0};
  std::array<std::atomic<uint32_t>, kMost> ids_{};  // written once, before `used_`
  std::mutex mutex_;                                // of writers
};

// The exports of one loop by their ids.
class ExportTable {
 public:
  // `named` outlives this.
  explicit ExportTable(NamedExports& named) : named_(named) {}

  // On the loop.
  ExportCounts& Get(uint32_t id) {
    const size_t used = used_.load(std::memory_order_relaxed);
    if (last_ < used && entries_[last_]->id == id) return entries_[last_]->counts;
    return Search(id, used);
  }
  // Any thread. Calls look(id, counts) for each export, and look(nothing, counts) for the others.
  template <class Look>
  void ForEach(Look look) const {
    const size_t used = used_.load(std::memory_order_acquire);
    for (size_t i = 0; i < used; ++i) look(std::optional<uint32_t>(entries_[i]->id), entries_[i]->counts);
    look(std::optional<uint32_t>(), others_);
  }

 private:
  struct alignas(64) Entry {
    uint32_t id = 0;
    ExportCounts counts;
  };
  ExportCounts& Search(uint32_t id, size_t used);

  NamedExports& named_;
  std::atomic<size_t> used_{0};
  size_t last_ = 0;  // the entry that was used last
  std::array<std::unique_ptr<Entry>, NamedExports::kMost> entries_;
  ExportCounts others_;
};

// What became of a call that the reply cache knows.
enum class CacheOutcome : uint8_t { kNew, kReplayed, kWaited, kUncached, kLeft };
inline constexpr size_t kCacheOutcomes = 5;

// Why a call did not reach its procedure.
enum class CallRefusal : uint8_t { kMalformed, kVersion, kCredential, kProgram, kProgramVersion, kFlavor, kArguments };
inline constexpr size_t kCallRefusals = 7;

// RPC-over-RDMA, as the responder sees it (RFC 8166 §3.4, §3.5).
struct RdmaCounts {
  Counter inline_calls, read_chunks, position_zero_chunks, write_chunks, reply_chunks;
  Counter sends, reads, writes;
  Counter sent_octets, read_octets, written_octets;
  Counter credits;         // granted by replies
  Counter refused_calls;   // answered by RDMA_ERROR
  Counter failed_work;     // work requests that failed
  Counter refused_access;  // those among them because the peer refused an access to its memory
};

// One for each loop, which owns it. The interfaces and the named exports outlive it.
class alignas(64) LoopCounts {
 public:
  LoopCounts(std::span<const Interface> interfaces, const Clock& clock, NamedExports& named);
  LoopCounts(const LoopCounts&) = delete;
  LoopCounts& operator=(const LoopCounts&) = delete;

  // On the loop. Null if no such interface was described.
  InterfaceCounts* Find(const InterfaceKey& key) {
    const auto wanted = std::bit_cast<uint64_t>(key);
    for (size_t i = 0; i < keys_.size(); ++i) {
      if (keys_[i] == wanted) return interfaces_[i].get();
    }
    return nullptr;
  }
  const std::vector<std::unique_ptr<InterfaceCounts>>& interfaces() const { return interfaces_; }
  const Clock& clock() const { return clock_; }

  ExportTable exports;
  std::array<Counter, kCacheOutcomes> cache;
  std::array<Counter, kCallRefusals> refusals;
  RdmaCounts rdma;
  Counter tls_handshakes, failed_tls_handshakes;

  void Count(CacheOutcome outcome) { cache[static_cast<size_t>(outcome)].Add(); }
  void Count(CallRefusal refusal) { refusals[static_cast<size_t>(refusal)].Add(); }

 private:
  const Clock clock_;
  std::vector<uint64_t> keys_;  // of interfaces_
  std::vector<std::unique_ptr<InterfaceCounts>> interfaces_;
};

}  // namespace penstock::metrics
