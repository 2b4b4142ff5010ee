// Measures record marking (RFC 5531 §11): messages to pieces and a stream to records, in batches as under load.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <array>
#include <vector>

#include "rpc/record_marking.h"
#include "xdr/encoder.h"

namespace penstock::rpc {
namespace {

constexpr size_t kBatch = 32;
constexpr size_t kSmallMessage = 128;

void WriteRecords(benchmark::State& state) {
  BufferPool pool;
  const size_t payload = static_cast<size_t>(state.range(0));
  RecordWriter writer;
  std::array<iovec, 128> pieces;
  for (auto _ : state) {
    for (size_t i = 0; i < kBatch; ++i) {
      xdr::Encoder encoder(pool);
      encoder.Extend(kSmallMessage);
      if (payload > 0) {
        const BufferRef data = pool.Allocate(payload);
        encoder.Payload(Slice(data, data->bytes().first(payload)));
      }
      writer.Push(encoder.Finish());
    }
    while (!writer.empty()) writer.Sent(writer.Gather(pieces).octets);
  }
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations() * kBatch));
}
BENCHMARK(WriteRecords)->Arg(0)->Arg(4096);

void ReadRecords(benchmark::State& state) {
  BufferPool pool;
  std::vector<std::byte> stream;
  for (size_t i = 0; i < kBatch; ++i) {
    stream.resize(stream.size() + kRecordHeaderSize + kSmallMessage);
    StoreBig<uint32_t>(stream.data() + stream.size() - kRecordHeaderSize - kSmallMessage,
                       kSmallMessage | kLastFragment);
  }
  RecordReader reader(pool, 1 << 20);
  for (auto _ : state) {
    ConstBytes left = stream;
    size_t records = 0;
    while (!left.empty()) {
      const Bytes want = reader.Want();
      const size_t size = std::min(left.size(), want.size());
      CopyBytes(want, left.first(size));
      left = left.subspan(size);
      reader.Received(size);
      while (reader.TakeRecord()) ++records;
    }
    if (records != kBatch) state.SkipWithError("records were lost");
  }
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations() * kBatch));
}
BENCHMARK(ReadRecords);

}  // namespace
}  // namespace penstock::rpc
