// Compares the C API of libpenstock with the client library within it: the CPU time of the client's thread for one READ
// of 4 KiB, with 32 of them under way.
//
//   library_bench URL [ROUNDS [OPERATIONS]]     URL: a file of at least 4 MiB on a server
//
// Both use one loop on this thread, one connection, and the same places of the file in turn. Rounds of the two
// alternate. The last line has the medians and their ratio.
#include <fcntl.h>
#include <fmt/core.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <asio/io_context.hpp>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <vector>

#include "base/loop.h"
#include "base/result.h"
#include "base/signal.h"
#include "base/workers.h"
#include "client/mount.h"
#include "penstock/penstock.h"
#include "rdma/iwarp/provider.h"

namespace {

using namespace penstock;  // NOLINT

constexpr size_t kDepth = 32;
constexpr size_t kSize = 4096;
constexpr uint64_t kPlaces = 1024;

// Of this thread, in microseconds.
double CpuTime() {
  rusage usage{};
  ::getrusage(RUSAGE_THREAD, &usage);
  const auto microseconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) * 1e6 + static_cast<double>(time.tv_usec);
  };
  return microseconds(usage.ru_utime) + microseconds(usage.ru_stime);
}

uint64_t PlaceOf(uint64_t number) { return number * 7 % kPlaces * kSize; }

[[noreturn]] void Fail(const std::string& why) {
  fmt::print(stderr, "library_bench: {}\n", why);
  std::exit(1);
}

// What one of the two does.
class Side {
 public:
  virtual ~Side() = default;
  virtual void Read(uint64_t operations) = 0;

  // Returns the CPU time of one operation.
  double Measure(uint64_t operations) {
    const double before = CpuTime();
    Read(operations);
    return (CpuTime() - before) / static_cast<double>(operations);
  }
};

class Inner final : public Side {
 public:
  explicit Inner(const std::string& text) {
    auto url = client::Url::Parse(text);
    if (!url) Fail(url.error().message);
    url_ = *std::move(url);
    Run(Open());
  }
  ~Inner() override { Run(Close()); }
  Inner(const Inner&) = delete;
  Inner& operator=(const Inner&) = delete;

  void Read(uint64_t operations) override {
    left_ = operations;
    Run(ReadAll());
  }

 private:
  void Run(Task<client::Result<void>> task) {
    Spawn([](Inner& self, Task<client::Result<void>> what) -> Task<void> {
      const auto result = co_await std::move(what);
      if (!result) Fail(result.error().message);
      self.loop_.Stop();
    }(*this, std::move(task)));
    loop_.Run();
    loop_.context().restart();
  }
  Task<client::Result<void>> Open() {
    co_await Sleep(loop_, Duration::zero());
    client::MountOptions options;
    options.provider = &provider_;
    PENSTOCK_CO_TRY(mount_, co_await client::Mount::Open(loop_, workers_, url_, options));
    PENSTOCK_CO_TRY(const client::Node node, co_await mount_->Resolve(mount_->path()));
    PENSTOCK_CO_TRY(file_, co_await mount_->OpenFile(node, "file", client::Access::kRead));
    co_return client::Result<void>();
  }
  Task<client::Result<void>> Close() {
    co_await Sleep(loop_, Duration::zero());
    PENSTOCK_CO_CHECK(co_await file_->Close());
    co_await mount_->Unmount();
    co_await Sleep(loop_, Duration::zero());
    co_return client::Result<void>();
  }
  Task<client::Result<void>> ReadAll() {
    OneShot<> ended;
    size_t lanes = kDepth;
    for (size_t lane = 0; lane < kDepth; ++lane) Spawn(Lane(lane, lanes, ended));
    co_await ended;
    co_return client::Result<void>();
  }
  Task<void> Lane(size_t lane, size_t& lanes, OneShot<>& ended) {
    while (left_ > 0) {
      --left_;
      const auto read = co_await file_->Read(PlaceOf(next_++), buffers_[lane]);
      if (!read || read->count != kSize) Fail(read ? "a short read" : read.error().message);
    }
    if (--lanes == 0) ended.Set();
  }

  client::Url url_;
  Loop loop_;
  Workers workers_{4};
  rdma::iwarp::Provider provider_{loop_};
  std::unique_ptr<client::Mount> mount_;
  std::unique_ptr<client::File> file_;
  std::vector<std::array<std::byte, kSize>> buffers_{kDepth};
  uint64_t left_ = 0;
  uint64_t next_ = 0;
};

class Outer final : public Side {
 public:
  explicit Outer(const std::string& url) {
    penstock_runtime_options options = PENSTOCK_RUNTIME_OPTIONS_INIT;
    options.threads = 0;
    Check(penstock_runtime_new(&options, &runtime_));
    Check(penstock_mount_open(runtime_, url.c_str(), nullptr, &mount_, nullptr));
    Check(penstock_open(mount_, "", O_RDONLY, 0, &file_, nullptr));
    for (Slot& slot : slots_) {
      slot.buffer = buffers_[static_cast<size_t>(&slot - slots_.data())].data();
      slot.owner = this;
      slot.call = PENSTOCK_CALL_INIT;
      slot.call.done = &Outer::Done;
      slot.call.context = &slot;
    }
  }
  ~Outer() override {
    Check(penstock_close(file_, nullptr));
    Check(penstock_mount_close(mount_, nullptr));
    Check(penstock_runtime_free(runtime_));
  }
  Outer(const Outer&) = delete;
  Outer& operator=(const Outer&) = delete;

  void Read(uint64_t operations) override {
    left_ = operations;
    for (Slot& slot : slots_) Next(slot);
    while (busy_ > 0) Check(penstock_runtime_dispatch(runtime_, -1));
  }

 private:
  struct Slot {
    Outer* owner = nullptr;
    penstock_call call{};
    std::byte* buffer = nullptr;
  };

  static void Check(int64_t result) {
    if (result < 0) Fail(penstock_error_text());
  }
  static void Done(void* context, int64_t result, const char* error) {
    auto& slot = *static_cast<Slot*>(context);
    if (result != kSize) Fail(error ? error : "a short read");
    --slot.owner->busy_;
    slot.owner->Next(slot);
  }
  void Next(Slot& slot) {
    if (left_ == 0) return;
    --left_;
    ++busy_;
    Check(penstock_pread(file_, slot.buffer, kSize, PlaceOf(next_++), &slot.call));
  }

  penstock_runtime* runtime_ = nullptr;
  penstock_mount* mount_ = nullptr;
  penstock_file* file_ = nullptr;
  std::vector<Slot> slots_{kDepth};
  std::vector<std::array<std::byte, kSize>> buffers_{kDepth};
  uint64_t left_ = 0;
  uint64_t busy_ = 0;
  uint64_t next_ = 0;
};

double MedianOf(std::vector<double> values) {
  std::ranges::nth_element(values, values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2));
  return values[values.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) Fail("usage: library_bench URL [ROUNDS [OPERATIONS]]");
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 15;
  const uint64_t operations = argc > 3 ? std::strtoull(argv[3], nullptr, 10) : 50'000;
  Inner inner(argv[1]);
  Outer outer(argv[1]);
  inner.Read(operations);
  outer.Read(operations);
  std::vector<double> inner_times, outer_times, ratios;
  for (int round = 0; round < rounds; ++round) {
    inner_times.push_back(inner.Measure(operations));
    outer_times.push_back(outer.Measure(operations));
    ratios.push_back(outer_times.back() / inner_times.back());
    fmt::print("inner {:.2f} us, C API {:.2f} us\n", inner_times.back(), outer_times.back());
  }
  fmt::print("median: inner {:.2f} us, C API {:.2f} us, ratio {:.3f}\n", MedianOf(inner_times), MedianOf(outer_times),
             MedianOf(ratios));
}
