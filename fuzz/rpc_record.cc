// Feeds the input to a RecordReader in pieces of random sizes, as a TCP connection delivers a peer's octets. Dispatches
// each complete record.
//
// Input: a seed octet for the sizes of the pieces, an octet for the record limit, then the stream.
#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "rpc/dispatch.h"
#include "rpc/record_marking.h"
#include "rpc/test_program.h"

namespace penstock::rpc {
namespace {

struct StoppedClock : TimerService {
  TimePoint Now() const override { return {}; }
  std::unique_ptr<Timer> MakeTimer(std::function<void()>) override { return nullptr; }
};

void Require(bool condition) {
  if (!condition) std::abort();
}

// The result must be a reply with the call's XID.
Task<void> Serve(Dispatcher& dispatcher, const Peer& peer, Slice record, RecordWriter& writer) {
  Message call;
  call.stream = record;
  const Message reply = co_await dispatcher.HandleCall(std::move(call), peer);
  if (reply.empty()) co_return;
  xdr::Decoder decoder(reply);
  ReplyHeader header;
  Require(DecodeReplyHeader(decoder, header));
  Require(record.size() >= 8 && header.xid.value() == LoadBig<uint32_t>(record.data()));
  writer.Push(reply);
}

void Run(ConstBytes input) {
  if (input.size() < 2) return;
  uint32_t random = static_cast<uint32_t>(input[0]);
  const size_t max_record = (size_t{1} << (static_cast<uint32_t>(input[1]) % 22)) - 1;
  ConstBytes stream = input.subspan(2);

  BufferPool pool;
  {
    StoppedClock clock;
    ReplyCache cache({.entries = 32});
    testing::TestProgram program;
    Dispatcher dispatcher(cache, clock);
    dispatcher.Add(program);
    Peer peer;
    peer.buffers = &pool;
    RecordReader reader(pool, max_record);
    RecordWriter writer;

    while (true) {
      while (auto record = reader.TakeRecord()) {
        Require(record->size() <= max_record);
        Spawn(Serve(dispatcher, peer, *record, writer));
      }
      if (reader.failed()) break;
      if (reader.awaited() > 0) {
        reader.Admit();
        continue;
      }
      if (stream.empty()) break;
      random = random * 1664525 + 1013904223;
      const Bytes want = reader.Want();
      Require(!want.empty());
      const size_t piece =
          std::min({want.size(), stream.size(), size_t{1} + (random >> 16) % (random % 3 ? 16 : 100'000)});
      CopyBytes(want, stream.first(piece));
      reader.Received(piece);
      stream = stream.subspan(piece);
    }
    program.Release();
    while (!writer.empty()) {
      iovec pieces[7];
      writer.Sent(writer.Gather(pieces).octets);
    }
  }
  Require(pool.outstanding() == 0);
}

}  // namespace
}  // namespace penstock::rpc

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  penstock::rpc::Run(std::as_bytes(std::span(data, size)));
  return 0;
}
