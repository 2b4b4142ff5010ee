// Measures encoding and decoding of the most frequent calls.
#include <benchmark/benchmark.h>

#include "protocol/nfs3.h"
#include "rpc/header.h"
#include "xdr/decode.h"
#include "xdr/encode.h"

namespace penstock {
namespace {

nfs3::READ3res Results(const BufferRef& data) {
  const auto size = static_cast<uint32_t>(data->capacity());
  return nfs3::READ3res(
      nfs3::nfsstat3::NFS3_OK,
      nfs3::READ3resok{
          .file_attributes = nfs3::fattr3{}, .count = size, .eof = false, .data = Data(Slice(data, data->bytes()))});
}

void EncodeReadResults(benchmark::State& state) {
  BufferPool pool;
  const nfs3::READ3res results = Results(pool.Allocate(4096));
  for (auto _ : state) {
    xdr::Encoder encoder(pool);
    xdr::Encode(encoder, results);
    xdr::Message message = encoder.Finish();
    benchmark::DoNotOptimize(message.stream.data());
  }
}
BENCHMARK(EncodeReadResults);

void DecodeReadResults(benchmark::State& state) {
  BufferPool pool;
  xdr::Encoder encoder(pool);
  xdr::Encode(encoder, Results(pool.Allocate(4096)));
  const xdr::Message message = encoder.Finish();
  for (auto _ : state) {
    xdr::Decoder decoder(message);
    nfs3::READ3res results;
    if (!xdr::Decode(decoder, results)) state.SkipWithError("not decoded");
    benchmark::DoNotOptimize(results);
  }
}
BENCHMARK(DecodeReadResults);

void DecodeReadArguments(benchmark::State& state) {
  BufferPool pool;
  xdr::Encoder encoder(pool);
  const std::byte handle[32] = {};
  nfs3::READ3args sent{{}, 1 << 20, 4096};
  sent.file.data.Assign(handle);
  xdr::Encode(encoder, sent);
  const xdr::Message message = encoder.Finish();
  for (auto _ : state) {
    xdr::Decoder decoder(message);
    nfs3::READ3args arguments;
    if (!xdr::Decode(decoder, arguments)) state.SkipWithError("not decoded");
    benchmark::DoNotOptimize(arguments);
  }
}
BENCHMARK(DecodeReadArguments);

}  // namespace
}  // namespace penstock
