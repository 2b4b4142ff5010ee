// Measures what a server gives to libnfs, as `penstock bench` does for Penstock's client: NFS version 3, one
// connection, a file of 64 MiB, and each operation at each depth.
//
//   libnfs_bench URL OPERATIONS DEPTHS SECONDS SERVER_PID
//
// URL is libnfs's. OPERATIONS (null, getattr, read4k, write4k, read1m, write1m) and DEPTHS have commas between them.
// Prints JSON. Large operations go through the file in order, small ones to places in no order. WRITEs are unstable.
#include <fcntl.h>
#include <fmt/core.h>
#include <fmt/ranges.h>
#include <nfsc/libnfs.h>
#include <poll.h>
#include <sys/types.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <string>
#include <vector>

// These need libnfs.h and their order.
#include <nfsc/libnfs-raw.h>

#include <nfsc/libnfs-raw-nfs.h>

namespace {

using Clock = std::chrono::steady_clock;

constexpr uint64_t kFileSize = 64 << 20;
constexpr uint64_t kLarge = 1 << 20;
constexpr uint64_t kSmall = 4096;
// A prime number, so that all places are visited, and neighbours follow one another rarely.
constexpr uint64_t kStep = 7919;
constexpr const char* kFileName = "/libnfs-bench";

[[noreturn]] void Fail(const std::string& why) {
  fmt::print(stderr, "libnfs_bench: {}\n", why);
  std::_Exit(1);
}

enum class Kind : uint8_t { kNull, kGetattr, kRead, kWrite };

struct Operation {
  std::string name;
  Kind kind = Kind::kNull;
  uint64_t size = 0;

  uint64_t PlaceOf(uint64_t number) const {
    const uint64_t places = kFileSize / size;
    return (size == kLarge ? number : number * kStep) % places * size;
  }
};

Operation Parse(const std::string& name) {
  if (name == "null") return {name, Kind::kNull, 0};
  if (name == "getattr") return {name, Kind::kGetattr, 0};
  if (name == "read4k") return {name, Kind::kRead, kSmall};
  if (name == "write4k") return {name, Kind::kWrite, kSmall};
  if (name == "read1m") return {name, Kind::kRead, kLarge};
  if (name == "write1m") return {name, Kind::kWrite, kLarge};
  Fail(fmt::format("no operation {}", name));
}

std::vector<std::string> Words(const std::string& text) {
  std::vector<std::string> words{""};
  for (const char c : text) {
    if (c == ',') {
      words.emplace_back();
    } else {
      words.back() += c;
    }
  }
  return words;
}

double MicrosecondsOf(clockid_t clock) {
  timespec now{};
  if (::clock_gettime(clock, &now) != 0) Fail("the server has ended");
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) / 1e3;
}

// A mount with one open file.
class Client {
 public:
  explicit Client(const char* text) : nfs_(nfs_init_context()) {
    nfs_url* url = nfs_ == nullptr ? nullptr : nfs_parse_url_dir(nfs_, text);
    if (url == nullptr) Fail(fmt::format("not a URL of libnfs: {}", text));
    Check(nfs_mount(nfs_, url->server, url->path), "mount");
    nfs_destroy_url(url);
    Check(nfs_open2(nfs_, kFileName, O_RDWR | O_CREAT, 0644, &file_), "open");
    if (nfs_get_readmax(nfs_) < kLarge || nfs_get_writemax(nfs_) < kLarge)
      Fail("the server takes no operations of 1 MiB");
    for (uint64_t offset = 0; offset < kFileSize; offset += kLarge) {
      if (nfs_pwrite(nfs_, file_, offset, kLarge, data_.data()) != static_cast<int>(kLarge)) {
        Fail(fmt::format("write: {}", nfs_get_error(nfs_)));
      }
    }
  }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;
  ~Client() {
    nfs_close(nfs_, file_);
    nfs_unlink(nfs_, kFileName);
    nfs_destroy_context(nfs_);
  }

  // `done` is called with the octets that were moved, or an error below zero.
  void Begin(const Operation& operation, uint64_t number, nfs_cb done, rpc_cb done_null, void* data) {
    switch (operation.kind) {
      case Kind::kNull:
        return Check(rpc_nfs3_null_async(nfs_get_rpc_context(nfs_), done_null, data), "NULL");
      case Kind::kGetattr:
        return Check(nfs_fstat64_async(nfs_, file_, done, data), "GETATTR");
      case Kind::kRead:
        return Check(nfs_pread_async(nfs_, file_, operation.PlaceOf(number), operation.size, done, data), "READ");
      case Kind::kWrite:
        return Check(nfs_pwrite_async(nfs_, file_, operation.PlaceOf(number), operation.size, data_.data(), done, data),
                     "WRITE");
    }
  }

  // Waits for the socket, and lets libnfs send and receive.
  void Serve() {
    pollfd waits{.fd = nfs_get_fd(nfs_), .events = static_cast<int16_t>(nfs_which_events(nfs_)), .revents = 0};
    if (::poll(&waits, 1, 10'000) <= 0) Fail("the server does not answer");
    Check(nfs_service(nfs_, waits.revents), "connection");
  }

 private:
  void Check(int result, const char* what) {
    if (result < 0) Fail(fmt::format("{}: {}", what, nfs_get_error(nfs_)));
  }

  nfs_context* nfs_;
  nfsfh* file_ = nullptr;
  std::vector<char> data_ = std::vector<char>(kLarge, 'x');
};

// One operation at one depth, for a time.
class Measurement {
 public:
  Measurement(Client& client, Operation operation, size_t depth)
      : client_(client), operation_(std::move(operation)), slots_(depth) {}

  std::string Take(double seconds, clockid_t server_clock) {
    for (Slot& slot : slots_) slot.measurement = this;
    const double client_before = MicrosecondsOf(CLOCK_PROCESS_CPUTIME_ID), server_before = MicrosecondsOf(server_clock);
    const auto began = Clock::now();
    end_ = began + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
    for (Slot& slot : slots_) Begin(slot);
    while (Clock::now() < end_) client_.Serve();
    const std::chrono::duration<double> took = Clock::now() - began;
    const double client_us = MicrosecondsOf(CLOCK_PROCESS_CPUTIME_ID) - client_before;
    const double server_us = MicrosecondsOf(server_clock) - server_before;
    const size_t count = latencies_.size();
    if (count == 0) Fail(fmt::format("{}: no reply within {} s", operation_.name, seconds));
    while (under_way_ > 0) client_.Serve();
    std::ranges::nth_element(latencies_, latencies_.begin() + static_cast<ptrdiff_t>(count / 2));
    const auto each = static_cast<double>(count);
    return fmt::format(R"({{"operation": "{}", "depth": {}, "per_second": {:.1f}, "latency_us": {{"p50": {:.1f}}}, )"
                       R"("client_cpu_us": {:.3f}, "server_cpu_us": {:.3f}}})",
                       operation_.name, slots_.size(), each / took.count(), latencies_[count / 2], client_us / each,
                       server_us / each);
  }

 private:
  struct Slot {
    Measurement* measurement = nullptr;
    Clock::time_point began;
  };

  void Begin(Slot& slot) {
    slot.began = Clock::now();
    ++under_way_;
    client_.Begin(operation_, number_++, &Done, &DoneNull, &slot);
  }

  static void Done(int result, nfs_context* nfs, void* /*data*/, void* slot) {
    static_cast<Slot*>(slot)->measurement->Finish(*static_cast<Slot*>(slot), result, nfs_get_error(nfs));
  }
  static void DoneNull(rpc_context* rpc, int status, void* /*data*/, void* slot) {
    static_cast<Slot*>(slot)->measurement->Finish(*static_cast<Slot*>(slot), status == RPC_STATUS_SUCCESS ? 0 : -1,
                                                  rpc_get_error(rpc));
  }

  void Finish(Slot& slot, int64_t result, const char* error) {
    const auto now = Clock::now();
    if (result < 0) Fail(fmt::format("{}: {}", operation_.name, error == nullptr ? "error" : error));
    if (result != static_cast<int64_t>(operation_.size)) Fail(fmt::format("{}: {} octets", operation_.name, result));
    --under_way_;
    if (now >= end_) return;
    latencies_.push_back(std::chrono::duration<double, std::micro>(now - slot.began).count());
    Begin(slot);
  }

  Client& client_;
  Operation operation_;
  std::vector<Slot> slots_;
  std::vector<double> latencies_;
  Clock::time_point end_;
  uint64_t number_ = 0;
  size_t under_way_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 6) Fail("usage: libnfs_bench URL OPERATIONS DEPTHS SECONDS SERVER_PID");
  clockid_t server_clock = 0;
  if (::clock_getcpuclockid(static_cast<pid_t>(std::atoi(argv[5])), &server_clock) != 0) Fail("no such process");
  Client client(argv[1]);
  std::vector<std::string> taken;
  for (const std::string& name : Words(argv[2])) {
    for (const std::string& depth : Words(argv[3])) {
      const int number = std::atoi(depth.c_str());
      if (number < 1) Fail(fmt::format("not a depth: {}", depth));
      taken.push_back(
          Measurement(client, Parse(name), static_cast<size_t>(number)).Take(std::atof(argv[4]), server_clock));
    }
  }
  fmt::print("{{\"measurements\": [\n  {}\n]}}\n", fmt::join(taken, ",\n  "));
}
