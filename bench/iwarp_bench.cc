// Measures CRC32C, and iWARP's machines with memory between them instead of a socket: the cost of the protocol alone.
#include <benchmark/benchmark.h>

#include <array>
#include <memory>
#include <vector>

#include "rdma/iwarp/crc32c.h"
#include "rdma/iwarp/rdmap_stream.h"

namespace penstock::rdma::iwarp {
namespace {

void CheckValue(benchmark::State& state) {
  const std::vector<std::byte> data(static_cast<size_t>(state.range(0)));
  for (auto _ : state) {
    Crc32c crc;
    crc.Update(data);
    benchmark::DoNotOptimize(crc.Wire());
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}
BENCHMARK(CheckValue)->Arg(64)->Arg(4096)->Arg(64 << 10);

// A counter in place of entropy: the STags of a benchmark need not be secret.
Entropy Counter() {
  return [next = uint64_t{1}]() mutable { return next++ * 0x9e3779b97f4a7c15; };
}

class Pair {
 public:
  explicit Pair(bool crc) {
    RdmapStream::Options options;
    options.agreement = {.crc = crc, .ird = 16, .ord = 16};
    options.initiator = true;
    client_ = std::make_unique<RdmapStream>(options, pool_, Counter());
    options.initiator = false;
    server_ = std::make_unique<RdmapStream>(options, pool_, Counter());
  }

  BufferPool& pool() { return pool_; }
  RdmapStream& client() { return *client_; }
  RdmapStream& server() { return *server_; }

  // Moves the output of `from`. The copy stands for the kernel's.
  void Move(RdmapStream& from, RdmapStream& to) {
    for (FpduWriter::Part part = from.NextToSend(); !part.memory.empty(); part = from.NextToSend()) {
      size_t moved = 0;
      for (const iovec& piece : part.memory) {
        ConstBytes left(static_cast<const std::byte*>(piece.iov_base), piece.iov_len);
        moved += left.size();
        while (!left.empty()) {
          const FpduReader::Places places = to.Wants(staging_);
          const size_t direct = std::min(left.size(), places.direct.size());
          CopyBytes(places.direct, left.first(direct));
          const size_t staged = std::min(left.size() - direct, places.staging.size());
          CopyBytes(places.staging, left.subspan(direct, staged));
          to.HandleReceived(direct + staged, staging_);
          left = left.subspan(direct + staged);
        }
      }
      from.HandleSent(moved);
    }
  }
  size_t Poll(RdmapStream& stream) { return stream.Poll(completions_); }

 private:
  BufferPool pool_;
  std::unique_ptr<RdmapStream> client_;
  std::unique_ptr<RdmapStream> server_;
  std::vector<std::byte> staging_ = std::vector<std::byte>(64 << 10);
  std::array<Completion, 64> completions_;
};

Gather Of(ConstBytes bytes) {
  Gather gather;
  gather.push_back(Slice::Borrowed(bytes));
  return gather;
}

// A call and its reply of 128 octets each.
void SendAndAnswer(benchmark::State& state) {
  Pair pair(state.range(0) != 0);
  const std::vector<std::byte> message(128);
  for (auto _ : state) {
    pair.client().PostReceive({0, 4096});
    pair.server().PostReceive({0, 4096});
    pair.client().PostSend({.context = 0, .gather = Of(message), .solicited = false, .invalidate = {}});
    pair.Move(pair.client(), pair.server());
    pair.server().PostSend({.context = 0, .gather = Of(message), .solicited = false, .invalidate = {}});
    pair.Move(pair.server(), pair.client());
    if (pair.Poll(pair.server()) != 2 || pair.Poll(pair.client()) != 2) state.SkipWithError("a completion is missing");
  }
}
BENCHMARK(SendAndAnswer)->ArgName("crc")->Arg(0)->Arg(1);

// An RDMA Write of 1 MiB into a registered region.
void WriteLarge(benchmark::State& state) {
  Pair pair(state.range(0) != 0);
  const std::vector<std::byte> from(1 << 20);
  std::vector<std::byte> to(1 << 20);
  const std::unique_ptr<MemoryRegion> region = pair.client().Register(to, Access::kRemoteWrite);
  // The initiator speaks first.
  pair.server().PostReceive({0, 4096});
  pair.client().PostSend({.context = 0, .gather = Of(ConstBytes(from).first(4)), .solicited = false, .invalidate = {}});
  pair.Move(pair.client(), pair.server());
  pair.Poll(pair.client());
  pair.Poll(pair.server());
  for (auto _ : state) {
    pair.server().PostWrite({.context = 0, .gather = Of(from), .remote = region->Segment(0, to.size())});
    pair.Move(pair.server(), pair.client());
    if (pair.Poll(pair.server()) != 1) state.SkipWithError("a completion is missing");
  }
  state.SetBytesProcessed(state.iterations() << 20);
}
BENCHMARK(WriteLarge)->ArgName("crc")->Arg(0)->Arg(1);

}  // namespace
}  // namespace penstock::rdma::iwarp
